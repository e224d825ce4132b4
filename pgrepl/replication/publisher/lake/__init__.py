"""A database of an instance as a publisher: its tables' changes, read from the lake by each change's own catalog.

publisher.py          the protocol
transactions.py       which snapshots make a transaction, and what changed in it; two_phase.py: of prepared ones
stream.py             what is sent between two LSNs, message by message; stream_columns.py as whole columns
large_changes.py      what changed at a snapshot, where that is more than memory holds
copy_plan.py          what of a table is copied; copy.py the rows at a snapshot; copy_spark.py the same as a DataFrame
count.py, backlog.py  how much there is to copy, and to send; size.py: by what the catalog says of files
"""
