"""A PostgreSQL server as a publisher.

    connecting.py     to a server by libpq's rules
    link.py           one walsender connection to it (libpq through psycopg), its answers and errors
    published.py      the tables, columns and filters of publications, by the server's catalog
    schema.py         published tables as CREATE TABLE statements for this side
    slots.py          positions of slots on the server, compared with ours; temporary slots
    tables.py         the rows of one table in the snapshot of a slot
    copy_columns.py   a large table by several readers, as columns (copy_csv.py, copy_binary.py)
    copy_workers.py   the processes that read it
    changes.py        the messages that a slot sends, in portions
    reading.py        the messages piece by piece (pieces.py; spool.py keeps them); prefetch.py reads ahead
    changes_columns.py  a large batch of messages as columns
    publisher.py      a publisher of publisher/protocol.py; connection.py: the connections that its parts share
    catalog.py        its parts: what is published; server_slots.py, change_stream.py, copies.py

Changes are peeked, never consumed, unless from a temporary copy of the slot: the slot itself moves only when what was
read is committed here. So a crash at any moment costs a second reading and nothing else.

Rule of the room: psycopg is an optional extra, imported only by link.py when a connection is opened.
"""
