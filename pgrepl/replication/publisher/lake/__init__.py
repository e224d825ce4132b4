"""A database of an instance as a publisher. Its tables' changes are read from the lake; the catalog as of each change
decides what is published.

    publisher.py          a publisher of publisher/protocol.py and its stream; connection.py: its session and slots
    catalog.py, copies.py what is published now, and its rows; copy.py: those of a table; schema.py as statements
    transactions.py       transactions: their snapshots and changed tables, prepared ones
    stream.py             the messages between two LSNs, one by one; stream_columns.py: as whole columns, which
                          table_changes.py decides for each table
    large_changes.py      the changes of a snapshot that are larger than memory
    backlog.py            the number of changes to send

Rule of the room: a change is read in the definitions of its own snapshot, never in the present ones.
"""
