"""The catalog: PostgreSQL's system tables in one SQL database, the sessions over it, and look-ups for all rooms above.

Read store/ (the database and its row classes), session/ (settings, transactions), locks/, facts/ (look-ups).

Rule of the room: rows in, rows out, with PostgreSQL's names; parameters always bound. What a statement does with the
rows is decided in `statements`.
"""
