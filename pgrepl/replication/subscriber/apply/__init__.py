"""Applying messages: find the table, find the row, change it as PostgreSQL's apply worker does.

    transactions.py       a batch of transactions, applied and committed with the origin
    target.py             the target table of a published one
    play.py               applies messages one by one to rows in memory (overlay.py)
    conflicts_met.py      the conflicts that they meet, and rows that were deleted here
    write.py              writes the applied changes to the lake, prepared transactions among them
    triggers.py, progress.py   the role that applies, triggers, the CONTEXT of errors
    columns/              a large batch by whole columns

Rule of the room: nothing is written before a batch has been applied to its end.
"""
