"""The subscriber: the workers of subscriptions.

    state.py              a subscription and its tables as the workers see them
    connection.py         from a connection string to a publisher; same_server.py: whether it is still the same
    context.py            what the parts of a worker share: its session and subscription (worker_settings.py),
                          kept_connection.py, copy_progress.py; failures.py: what ends its work
    attach.py             a worker becomes the only one of its subscription, and gives that back
    row_locks.py          work in spite of rows that others have locked
    copy.py               the initial copy of one table; copy_columns.py by kernels, copy_spark.py by Spark SQL;
                          table_workers.py several tables at once
    streaming.py          the main stream: batches of transactions, committed with the origin; apply_loop.py decides
                          what is done when
    at_once.py            a few changes from the same instance, read and applied in one transaction
    apply/                a batch, applied row by row or by columns
    worker.py             one subscription's worker; lease.py makes it the only one, heartbeat.py shows that it lives
    round.py              the result of a round of its work, and what its failure leaves
    follower.py           a worker that repeats its rounds; launcher.py starts them; catch_up.py: rounds before a
                          statement
    outcome.py            the outcome of a batch
    preview.py, status.py, observer.py   information for users
    stopped.py           the error that has stopped a subscription; advice.py: what helps

Rule of the room: changes of a subscription's tables are committed together with the origin's position.
"""
