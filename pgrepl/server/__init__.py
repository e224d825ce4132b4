"""PostgreSQL's own clients and subscribers connect here: `pgrepl serve`.

It is built as PostgreSQL is. A *postmaster* listens and forks a *backend* for each connection, so that a session that
dies takes no other with it, and signals mean what they mean there: SIGINT cancels a backend's statement, SIGTERM ends
it. Read in this order:

postmaster      listens, forks, collects; what to do about signals
connection      one client: start-up, authentication, the session; connection_process: the PID that the client knows,
                which forks the session's processes; idle_session: what each leaves to the next
startup         a new connection: TLS, a cancel request or a session; protocol version and start-up parameters
hba, hba_views  who may enter, by which method, and views of the rules; authentication, scram: the methods
backend_loop    one session: reads messages, answers them (PostgresMain)
extended        Parse, Bind, Describe, Execute, Close: prepared statements and portals; fastpath: FunctionCall;
                arguments: the values in both
channel         messages as bytes, in and out; reports, rows: what they contain
replication/    replication connections: their commands, and the sender of a slot's changes
http            the server of HTTP for monitoring/ (what Prometheus asks) and iceberg/ (Iceberg's REST catalog)
workers         the server's auxiliary processes: subscriptions with autovacuum, and the JVM of all sessions
"""
