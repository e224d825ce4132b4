"""The subscriber: the workers of subscriptions.

    state.py              a subscription and its tables as the workers see them, and the error that has stopped it
    connection.py         from a connection string to a publisher, and whether it is still the same
    context.py            what the parts of a worker share: its session, subscription and connection
    attach.py, lease.py   a worker becomes the only one of its subscription, and gives that back; where it waits to be
                          compared
    copying/              the initial copy of one table; table_workers.py several tables at once
    streaming.py          the main stream: batches of transactions, committed with the origin; apply_loop.py decides
                          what is done when
    at_once.py            a few changes from the same instance, read and applied in one transaction
    apply/                a batch, applied row by row or by columns; conflicts.py
    worker.py             one subscription's worker; launcher.py starts them, and repeats their rounds
    schema_changes/       columns and tables that follow the publisher's
    preview.py, status.py, advice.py, dangers.py   information for users

Rule of the room: changes of a subscription's tables are committed together with the origin's position.
"""
