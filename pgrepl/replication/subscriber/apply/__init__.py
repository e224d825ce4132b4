"""Applying messages: find the table, find the row, change it as PostgreSQL's apply worker does.

    transactions.py       a batch of transactions, applied and committed with the origin
    target.py             the target table of a published one; truncate_targets.py: the tables that a TRUNCATE empties
    play.py               applies messages one by one to rows in memory (overlay.py, journal.py)
    write.py              writes the applied changes to the lake
    two_phase.py          prepared transactions
    roles.py, progress.py the role that applies, and the CONTEXT of errors
    columns/              a large batch by whole columns

Rule of the room: nothing is written before a batch has been applied to its end.
"""
