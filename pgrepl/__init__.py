"""pgrepl: PostgreSQL's logical replication, in PostgreSQL's words, for tables in a lake."""

__version__ = "0.1.0"
