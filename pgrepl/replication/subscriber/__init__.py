"""The subscriber: the workers of subscriptions.

    state.py              a subscription and its tables as the workers see them
    connection.py         from a connection string to a publisher; same_server.py: whether it is still the same
    receiver.py           a worker's session, subscription and connection
    copy.py               the initial copy of one table; copy_spark.py by Spark; table_workers.py several at once
    streaming.py          the main stream: batches of transactions, committed with the origin
    apply/                a batch, applied row by row or by columns
    worker.py             one subscription's worker; lease.py makes it the only one, heartbeat.py shows that it lives
    follower.py           a worker that goes on; launcher.py starts them; catch_up.py works before a statement
    outcome.py            the outcome of a batch
    preview.py, status.py, observer.py   what a person is shown

Rule of the room: changes of a subscription's tables are committed together with the origin's position.
"""
