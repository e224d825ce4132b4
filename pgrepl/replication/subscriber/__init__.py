"""The subscriber: the workers of subscriptions.

    state.py              a subscription and its tables as the workers see them
    connection.py         from a connection string to a publisher; same_server.py: whether it is still the same
    receiver.py           a worker's session, subscription and connection
    copy.py               the initial copy of one table; copy_columns.py by kernels, copy_spark.py by Spark SQL;
                          table_workers.py several tables at once
    streaming.py          the main stream: batches of transactions, committed with the origin
    at_once.py            a few changes from the same instance, read and applied in one transaction
    apply/                a batch, applied row by row or by columns
    worker.py             one subscription's worker; lease.py makes it the only one, heartbeat.py shows that it lives
    follower.py           a worker that repeats its rounds; launcher.py starts them; catch_up.py: rounds before a
                          statement
    outcome.py            the outcome of a batch
    preview.py, status.py, observer.py   information for users
    stopped.py           the error that has stopped a subscription; advice.py: what helps

Rule of the room: changes of a subscription's tables are committed together with the origin's position.
"""
