"""What is remembered: PostgreSQL's system tables in one SQL database, sessions over it, lookups for everybody.

Rule of the room: rows in, rows out, with PostgreSQL's names; parameters always bound; what a statement does with them
is decided in `statements`.
"""
