"""The subscriber: the workers of subscriptions.

    state.py              a subscription and its tables as the workers see them, and the error that has stopped it
    connection.py         from a connection string to a publisher, and whether it is still the same
    context.py            what the parts of a worker share: its session, subscription and connection
    attach.py, lease.py   a worker becomes the only one of its subscription, and gives that back
    copying/              the initial copy of one table; table_workers.py several tables at once
    streaming.py          the main stream: batches of transactions, committed with the origin; apply_loop.py decides
                          what is done when; row_locks.py: in spite of rows that others have locked
    at_once.py            a few changes from the same instance, read and applied in one transaction
    apply/                a batch, applied row by row or by columns; conflicts.py, row_origins.py
    worker.py             one subscription's worker; follower.py repeats its rounds, launcher.py starts them
    schema_changes/       columns and tables that follow the publisher's
    meeting.py            where it waits to be compared
    preview.py, status.py, advice.py, dangers.py   information for users

Rule of the room: changes of a subscription's tables are committed together with the origin's position.
"""
