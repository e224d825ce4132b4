"""A PostgreSQL server as a publisher.

    connecting.py     to a server by libpq's rules
    link.py           one walsender connection to it (libpq through psycopg), its answers and errors
    published.py      what the publications publish, by the server's own catalog
    schema.py         the same as statements that make the tables here
    slots.py          replication slots there, and what their position says about ours
    tables.py         the rows of one table in the snapshot of a slot
    copy_columns.py   a large table by several readers, as columns (copy_csv.py, copy_binary.py)
    changes.py        what a slot sends, in portions
    reading.py        the same piece by piece (pieces.py; spool.py keeps the messages), prefetch.py reads ahead
    changes_columns.py  a large batch of them as columns
    publisher.py      all of it behind the protocol

Changes are peeked, never consumed, unless from a temporary copy of the slot: the slot itself moves only when what was
read is committed here. So a crash at any moment costs a second reading and nothing else.

Rule of the room: psycopg is an optional extra and imported only by link.py, when somebody connects.
"""
