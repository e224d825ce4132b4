r"""Sending a query with the transaction commands around it (psql's SendQuery), `\timing`, and warnings of stopped
subscriptions.

With ON_STALE = error no query is run while one is stopped, but those that name subscriptions.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from pgrepl.ground.errors import PgError
from pgrepl.shell import shell as interrupt
from pgrepl.shell.formats.table import PrintOptions
from pgrepl.shell.scripts.query_run import QueryRun, statement_bar
from pgrepl.shell.scripts.results import remember_error, set_error_variables
from pgrepl.shell.shell import NextQuery, Shell, check_connection
from pgrepl.shell.streams import Stream, standard_input

if TYPE_CHECKING:
    from pgrepl.query.result import Result

# each text before a word matches in one way only: a second one would be tried, and then a third, without end
_FIRST_WORDS = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*\*/)*([A-Za-z]+)")
_BLOCK_COMMANDS = frozenset({"abort", "begin", "start", "commit", "end", "rollback", "vacuum"})


def runs_outside_block(query: str) -> bool:
    """Do the query's first words say that it must not get a BEGIN before it?"""
    words: list[str] = []
    at = 0
    while len(words) < 4 and (match := _FIRST_WORDS.match(query, at)):
        words.append(match[1].lower())
        at = match.end()
    first, rest = (words[0], words[1:]) if words else ("", [])
    second = rest[0] if rest else ""
    if first in _BLOCK_COMMANDS:
        return True
    if first == "prepare":
        return second == "transaction"
    if first == "cluster":
        return not rest
    if first == "create":
        index = rest[1:] if second == "unique" else rest
        return second in ("database", "tablespace") or index[:2] == ["index", "concurrently"]
    if first == "alter":
        return second == "system"
    if first in ("drop", "reindex"):
        concurrently = second in ("index", "table") and rest[1:2] == ["concurrently"]
        return second in ("database", "system", "tablespace") or concurrently
    return first == "discard" and second == "all"


# --- timing -----------------------------------------------------------------------------------------------------------


def print_timing(shell: Shell, milliseconds: float) -> None:
    """Print `Time: 1.234 ms`, from a second on in larger units, too (PrintTiming)."""
    shell.stdout.write(f"Time: {milliseconds:.3f} ms{_broken_down(milliseconds)}\n")


def _broken_down(milliseconds: float) -> str:
    if milliseconds < 1000.0:
        return ""
    seconds = milliseconds / 1000.0
    minutes = math.floor(seconds / 60.0)
    seconds -= 60.0 * minutes
    if minutes < 60:
        return f" ({minutes:02d}:{seconds:06.3f})"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f" ({hours:02d}:{minutes:02d}:{seconds:06.3f})"
    days, hours = divmod(hours, 24)
    return f" ({days} d {hours:02d}:{minutes:02d}:{seconds:06.3f})"


# --- stale ------------------------------------------------------------------------------------------------------------


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
    for stop in stops:
        if stop not in shell.connection.told:
            shell.connection.told.add(stop)
            shell.report(stop, None)
    return True


def names_subscription(query: str) -> bool:
    """May the query change a subscription?"""
    return "subscription" in query.lower()


# --- execute ----------------------------------------------------------------------------------------------------------


_SAVEPOINT = "pg_psql_temporary_savepoint"
NOT_CONNECTED = "You are currently not connected to a database."


def send_query(shell: Shell, query: str, copies: int | None = None) -> bool:
    """Run a query and print its results; `copies` is the number of COPY FROM STDIN in it, if counted."""
    try:
        return _send(shell, query, copies)
    finally:
        if shell.next.saved_options is not None:
            shell.options = shell.next.saved_options
        shell.next = NextQuery()


def _send(shell: Shell, query: str, copies: int | None) -> bool:
    connection, variables = shell.connection, shell.variables
    if connection is None:
        shell.error(NOT_CONNECTED)
        return False
    if variables.on("SINGLESTEP"):
        if not _confirmed(shell, query):
            return False
    elif variables.word("ECHO") == "queries":
        shell.say(query)
        shell.stdout.flush()
    if shell.log_file is not None:
        shell.log_file.write(f"/******** QUERY *********/\n{query}\n/************************/\n\n")
        shell.log_file.flush()

    if connection.status == "idle":
        if variables.on("AUTOAPPLY") and not _catch_up(shell):
            return False
        if not check_stale(shell, query):
            return False
    if connection.status == "idle" and not variables.on("AUTOCOMMIT") and not runs_outside_block(query):
        if not _quietly(shell, "BEGIN"):
            return False
    savepoint = connection.status == "in transaction" and _rolls_back_errors(shell)
    if savepoint and not _quietly(shell, f"SAVEPOINT {_SAVEPOINT}"):
        return False

    # \timing that the query itself sets counts from the next one on
    timing = shell.timing
    run = QueryRun(shell, query, send_query)
    ok = run.describe() if shell.next.describe else run.execute(copies) > 0
    if variables.on("AUTOAPPLY") and names_subscription(query) and connection.status == "idle":
        if _catch_up(shell):  # a server's workers would begin at once with changed subscriptions
            check_stale(shell, "")
    if not ok and variables.word("ECHO") == "errors":
        shell.info(f"STATEMENT:  {query}")
    if savepoint:
        if connection.status == "failed":
            ok = _quietly(shell, f"ROLLBACK TO {_SAVEPOINT}") and ok
        elif connection.status == "in transaction" and not run.savepoint_gone:
            ok = _quietly(shell, f"RELEASE {_SAVEPOINT}") and ok
    if timing:
        print_timing(shell, run.elapsed)
    encoding = connection.setting("client_encoding")
    if encoding != variables.get("ENCODING"):
        variables.set("ENCODING", encoding)
    _print_notifications(shell)
    return ok


def _print_notifications(shell: Shell) -> None:
    """As PrintNotifications: what has come in the meantime is printed after a query."""
    connection = shell.connection
    if connection is None or connection.lost is not None:
        return
    notifications = connection.session.transaction.notifications
    for notification in [] if notifications is None else notifications.take():
        payload = f' with payload "{notification.payload}"' if notification.payload else ""
        shell.query_out.write(
            f'Asynchronous notification "{notification.channel}"{payload} received from server process with PID '
            f"{notification.pid}.\n"
        )
        shell.query_out.flush()


def _catch_up(shell: Shell) -> bool:
    """Have the subscriptions catch up; False: Ctrl-C interrupted it."""
    assert shell.connection is not None
    try:
        with interrupt.stops_waiting(), statement_bar(shell):
            shell.connection.catch_up()
    except KeyboardInterrupt:
        shell.cancelled = True
        error = interrupt.cancelled()
        remember_error(shell, error, "")
        set_error_variables(shell, error)
        shell.on_notice(error.report)
        return False
    return True


def _rolls_back_errors(shell: Shell) -> bool:
    """Does an error undo its statement only, not the transaction? (ON_ERROR_ROLLBACK)"""
    if shell.variables.word("ON_ERROR_ROLLBACK") == "interactive":
        return shell.interactive
    return shell.variables.on("ON_ERROR_ROLLBACK")


def _confirmed(shell: Shell, query: str) -> bool:
    shell.stdout.write(
        "/**(Single step mode: verify command)******************************************/\n"
        f"{query}\n"
        "/**(press return to proceed or enter x and return to cancel)*******************/\n"
    )
    shell.stdout.flush()
    answer = standard_input().read_line()
    return not (answer or "").startswith("x") and not shell.cancelled


def run_hidden(shell: Shell, query: str) -> Result | None:
    """Run a query of the shell's own (PSQLexec), which -E shows; None: it failed, or is only shown."""
    if shell.connection is None:
        shell.error(NOT_CONNECTED)
        return None
    if not shell.echo_hidden(query):
        return None
    try:
        with interrupt.cancels_query():
            results = list(shell.connection.run(query))
    except PgError as error:
        remember_error(shell, error, query)
        shell.report(error.report, query)
        check_connection(shell, error)
        return None
    return results[-1] if results else None


def run_secret(shell: Shell, query: str) -> bool:
    """Run a query with a password in it, which neither -E nor `\\errverbose` shows (PQchangePassword)."""
    return _quietly(shell, query, remembered=False)


def _quietly(shell: Shell, command: str, *, remembered: bool = True) -> bool:
    """Run a command of the shell's own, such as a BEGIN before the person's query; only its error is printed."""
    assert shell.connection is not None
    try:
        with interrupt.cancels_query():
            for _ in shell.connection.run(command):
                pass
    except PgError as error:
        if remembered:
            remember_error(shell, error, command)
        shell.report(error.report, command if remembered else None)
        check_connection(shell, error)
        return False
    return True


def watch_query(shell: Shell, query: str, options: PrintOptions, stream: Stream | None, min_rows: int) -> int:
    """One round of `\\watch`: 1 to go on, 0 to stop, -1 after an error."""
    if shell.connection is None:
        shell.error(NOT_CONNECTED)
        return 0
    run = QueryRun(shell, query, send_query, options=options, stream=stream)
    status = run.execute(None, min_rows)
    if shell.timing:
        print_timing(shell, run.elapsed)
    _print_notifications(shell)
    return status
