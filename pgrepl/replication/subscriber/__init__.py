"""Who receives: the workers of subscriptions.

state.py              a subscription and its tables as the workers see them
connection.py         from a connection string to a publisher; same_server.py: whether it is still the same
receiver.py           what a worker stands on: session, subscription, connection
copy.py               the initial copy of one table; copy_spark.py by Spark; table_workers.py several at once
streaming.py          the main stream: batches of transactions, committed with the origin
apply/                a batch, played row by row or by columns
worker.py             one subscription's worker; lease.py makes it the only one, heartbeat.py shows that it lives
follower.py           a worker that goes on; launcher.py starts them; catch_up.py works before a statement
outcome.py            what became of a batch
preview.py, status.py, observer.py   what a person is told
"""
