"""What a shell says of subscriptions that an error has stopped: their tables may be out of date.

A WARNING for each error, once in a session; with ON_STALE = error, no query is run meanwhile. A query that names
subscriptions may change that: it is run, and what is stopped then is told behind it.
"""

from __future__ import annotations

from pgrepl.errors import PgError
from pgrepl.shell.results import remember_error, set_error_variables
from pgrepl.shell.shell import Shell


def check_stale(shell: Shell, query: str) -> bool:
    """Tell of stopped subscriptions of the database before a query, or with an empty one; False: the query must not be
    run."""
    wanted = shell.variables.word("ON_STALE")
    if shell.connection is None or wanted == "off" or names_subscription(query):
        return True
    try:
        stops = shell.connection.stops()
    except PgError as problem:
        shell.report(problem.report, None)
        return True
    if stops and wanted == "error" and query:
        told = stops[0]
        error = PgError("55000", told.message, detail=told.detail, hint=told.hint)
        remember_error(shell, error, query)
        shell.report(error.report, None)
        set_error_variables(shell, error)
        return False
    for each in stops:
        if each not in shell.connection.told:
            shell.connection.told.add(each)
            shell.report(each, None)
    return True


def names_subscription(query: str) -> bool:
    """May the query change a subscription?"""
    return "subscription" in query.lower()
