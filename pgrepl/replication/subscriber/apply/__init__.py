"""What a subscriber does with messages: find the table, find the row, change it as PostgreSQL's apply worker would.

    transactions.py       a batch of transactions, played and committed with the origin
    target.py             a published table seen from here; truncate_targets.py: what a TRUNCATE empties of it
    play.py               messages one after the other, on the rows they concern (overlay.py, keys.py, journal.py)
    write.py              what was played, into the lake
    two_phase.py          prepared transactions
    roles.py, progress.py in whose name, and what an error says about where it happened
    columns/              a large batch by whole columns

Nothing is written before a batch has been played to its end.
"""
