"""A real PostgreSQL server as the publisher: the second implementation of `Publisher`.

    link.py       one walsender connection to the server (libpq through psycopg), its answers and errors
    published.py  what the publications publish, by the server's own catalog
    slots.py      replication slots there, and what their position says about ours
    pgoutput.py   the messages of pgoutput, byte for byte
    changes.py    transactions peeked from a slot, in bounded portions
    tables.py     the rows of one table in the snapshot of a slot
    publisher.py  all of it behind the protocol

Changes are peeked, never consumed: the slot moves only when what was read is committed here. So a crash at any moment
costs a second reading and nothing else.

Rule of the room: psycopg is an optional extra and imported only by link.py, when somebody connects.
"""
