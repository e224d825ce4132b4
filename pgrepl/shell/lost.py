"""A connection that was lost: psql's CheckConnection."""

from __future__ import annotations

from pgrepl.errors import PgError
from pgrepl.shell.connection import ConnectFailure, Connection
from pgrepl.shell.shell import NO_CONNECTION, Shell

_CLOSED = (
    "server closed the connection unexpectedly\n"
    "\tThis probably means the server terminated abnormally\n"
    "\tbefore or while processing the request."
)


def check_connection(shell: Shell, error: PgError) -> None:
    """After a FATAL error connect a person anew, and end a script."""
    connection = shell.connection
    if connection is None or error.report.severity != "FATAL":
        return
    shell.info(_CLOSED)
    if not shell.interactive:
        shell.error("connection to server was lost")
        raise SystemExit(NO_CONNECTION)
    shell.stderr.write("The connection to the server was lost. Attempting reset: ")
    try:
        shell.connection = Connection(connection.target, shell.on_notice)
        shell.stderr.write("Succeeded.\n")
    except ConnectFailure:
        shell.connection = None
        shell.stderr.write("Failed.\n")
    connection.close()
    shell.sync_variables()
