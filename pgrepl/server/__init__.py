"""PostgreSQL's own clients and subscribers connect here: `pgrepl serve`.

It is built as PostgreSQL is: a *postmaster* listens and forks a *backend* for each connection, so that a session that
dies takes no other with it, and signals mean what they mean there. Read in this order:

    command         the command line, and the server's own processes
    postmaster      listens, forks, collects; what to do about signals
    connection      one client: start-up, authentication, the session; connection_process: the PID that it knows
    startup, hba, authentication   TLS, start-up parameters; who may enter, by which method
    backend_loop    one session: reads messages, answers them (PostgresMain)
    extended        Parse, Bind, Describe, Execute, Close; fastpath: FunctionCall
    channel, messages   messages as bytes, in and out; what they contain
    replication/    replication connections: their commands, and the sender of a slot's changes
    http            the server of HTTP for monitoring, page and iceberg, whose doors are in iceberg_access
"""
