"""A database of an instance as a publisher. Its tables' changes are read from the lake; the catalog as of each change
decides what is published of it.

publisher.py          a publisher of publisher/protocol.py; connection.py: the session that its parts share
catalog.py, slots.py, change_stream.py, copies.py: its parts; changes_within.py: a few changes in another transaction
transactions.py       transactions: their snapshots and changed tables; two_phase.py: prepared ones
stream.py             the messages between two LSNs, one by one; stream_columns.py: as whole columns, which
                      table_changes.py decides for each table
large_changes.py      the changes of a snapshot that are larger than memory
copy_plan.py          the plan of a table's copy; copy.py: its rows at a snapshot; copy_spark.py: as a DataFrame
backlog.py            the number of changes to send; size.py: from the catalog alone

Rule of the room: a change is read in the definitions of its own snapshot, never in the present ones.
"""
