"""A PostgreSQL server as a publisher.

    link.py           one walsender connection by libpq's rules, its answers and errors
    publisher.py      a publisher of publisher/protocol.py; connection.py: the connections that its parts share
    published.py      the tables, columns and filters of publications; schema.py, types.py as statements for this side
    slots.py          positions of slots on the server, compared with ours
    copies.py         copies; copy_columns.py of large tables, copy_ranges.py a range, copy_workers.py by processes
    stream.py         the stream of a slot; spool.py keeps its messages, pieces.py divides them, prefetch.py reads ahead
    comparing.py      rows hashed by the server

The slot itself moves only when what was read is committed here: a crash at any moment costs a second reading and
nothing else.

Rule of the room: psycopg is an optional extra, imported only when a connection is opened.
"""
