r"""`\c \conninfo \encoding \password \restrict \unrestrict`; and `\apply \sync`: subscriptions catch up now, with
AUTOAPPLY off, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.api.rounds import applied_of
from pgrepl.catalog.facts.passwords import encrypt_password
from pgrepl.ground.errors import PgError
from pgrepl.replication.log import log_beside
from pgrepl.replication.subscriber.launcher import Launcher
from pgrepl.shell import shell as interrupt
from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.connection import ConnectFailure, Connection, ConnectTarget, at_host, from_conninfo, is_conninfo
from pgrepl.shell.formats.table import TableContent
from pgrepl.shell.progress import ProgressLines
from pgrepl.shell.scripts.execute import NOT_CONNECTED, run_hidden, run_secret
from pgrepl.shell.scripts.results import remember_error
from pgrepl.shell.scripts.slash_lexer import Argument
from pgrepl.shell.shell import Shell, quote_literal
from pgrepl.shell.variables import parse_bool

if TYPE_CHECKING:
    from pgrepl.replication.subscriber.attach import Round
    from pgrepl.replication.subscriber.worker import Worker

_REUSE = "-reuse-previous="


@command("c", "connect")
def connect(c: BackslashCommand) -> bool:
    first = _connect_argument(c)
    reuse: bool | None = None
    if first is not None and first.startswith(_REUSE):
        value = first.removeprefix(_REUSE)
        reuse = parse_bool(value)
        if reuse is None:
            c.shell.error(f'unrecognized value "{value}" for "-reuse-previous": Boolean expected')
            return False
        first = _connect_argument(c)
    user, host, port = _connect_argument(c), _connect_argument(c), _connect_argument(c)
    conninfo = first is not None and is_conninfo(first)
    if conninfo and (user or host or port):
        c.shell.error("Do not give user, host, or port separately when using a connection string")
        return False
    if reuse is None:
        reuse = not conninfo
    if reuse and c.shell.connection is None:
        c.shell.error("No database connection exists to re-use parameters from")
        return False
    try:
        target = _target(c, first, user, host, port, reuse=reuse)
        connection = c.shell.connect(target)
    except ConnectFailure as failure:
        _keep_or_drop(c, str(failure))
        return False
    _switch(c, connection)
    return True


def _connect_argument(c: BackslashCommand) -> str | None:
    """An argument of `\\connect`; None: it is missing, or `-`, which keeps the value."""
    argument = c.argument(Argument.SQL_IDENTIFIER_HACK, semicolon=True)
    if argument is None or (not argument.quote and argument.text in ("", "-")):
        return None
    return argument.text


def _target(
    c: BackslashCommand, database: str | None, user: str | None, host: str | None, port: str | None, *, reuse: bool
) -> ConnectTarget:
    old = c.shell.connection
    base = old.target if reuse and old is not None else c.shell.defaults
    if host is not None or port is not None:
        base = at_host(base, c.shell.defaults, {"host": host or "", "port": port or ""})
    if database is not None:
        base = (
            from_conninfo(base, c.shell.defaults, database)
            if is_conninfo(database)
            else replace(base, database=database)
        )
    return replace(base, user=user) if user is not None else base


def _keep_or_drop(c: BackslashCommand, message: str) -> None:
    """Keep a person's connection after a failed `\\connect`; close a script's, which must not go on with it."""
    shell = c.shell
    if shell.interactive:
        shell.info(message)
        if shell.connection is not None:
            shell.info("Previous connection kept")
        return
    shell.error(f"\\connect: {message}")
    if shell.connection is not None:
        shell.connection.close()
        shell.connection = None
        shell.sync_variables()


def _switch(c: BackslashCommand, connection: Connection) -> None:
    shell, old = c.shell, c.shell.connection
    shell.connection = connection
    shell.sync_variables()
    if not shell.quiet:
        where = "" if old is not None and old.host == connection.host else f" in catalog {connection.described}"
        shell.say(f'You are now connected to database "{connection.database}" as user "{connection.user}"{where}.')
    if old is not None:
        old.close()


@command("conninfo")
def connection_information(c: BackslashCommand) -> bool:
    connection = c.shell.connection
    if connection is None:
        c.shell.say("You are currently not connected to a database.")
    elif connection.session.settings.release >= 18:
        setting = connection.setting
        rows = [
            ("Database", connection.database),
            ("Client User", connection.user),
            ("Catalog", connection.place),
            ("Backend PID", str(connection.session.pid)),
            ("Superuser", setting("is_superuser")),
            ("Hot Standby", setting("in_hot_standby")),
        ]
        return c.shell.print_table(TableContent(("Parameter", "Value"), rows, "ll", title="Connection Information"))
    else:
        c.shell.say(
            f'You are connected to database "{connection.database}" as user "{connection.user}"'
            f" in catalog {connection.described}."
        )
    return True


@command("encoding")
def encoding(c: BackslashCommand) -> bool:
    shell = c.shell
    name = c.word()
    if name is None:
        shell.say(shell.variables.get("ENCODING") or "UTF8")
    elif shell.connection is None or not _set_encoding(shell.connection, name):
        shell.error(f"{name}: invalid encoding name or conversion procedure not found")
    else:
        shell.variables.set("ENCODING", shell.connection.setting("client_encoding"))
    return True


def _set_encoding(connection: Connection, name: str) -> bool:
    """Tells the server the client's encoding (PQsetClientEncoding)."""
    try:
        for _ in connection.run(f"SET client_encoding TO {quote_literal(name)}"):
            pass
    except PgError:
        return False
    return True


@command("password")
def password(c: BackslashCommand) -> bool:
    shell = c.shell
    user = c.word(Argument.SQL_IDENTIFIER, semicolon=True)
    if user is None:
        result = run_hidden(shell, "SELECT CURRENT_USER")
        if result is None:
            return False
        user = result.rows[0][0] or ""
    try:
        first = shell.ask(f'Enter new password for user "{user}": ', echo=False)
        second = shell.ask("Enter it again: ", echo=False)
    except KeyboardInterrupt:
        return False
    if first != second:
        shell.error("Passwords didn't match.")
        return False
    if shell.connection is None:
        shell.error(NOT_CONNECTED)
        return False
    method, rounds = (shell.connection.setting(name) for name in ("password_encryption", "scram_iterations"))
    name = user.replace('"', '""')
    return run_secret(shell, f"ALTER USER \"{name}\" PASSWORD '{encrypt_password(method, user, first, int(rounds))}'")


@command("restrict")
def restrict(c: BackslashCommand) -> bool:
    key = c.word(semicolon=True)
    if not key:
        return c.missing_argument()
    c.shell.restrict_key = key
    return True


@command("unrestrict", rest=Argument.WHOLE_LINE)
def unrestrict(c: BackslashCommand) -> bool:
    key = c.word(Argument.WHOLE_LINE, semicolon=True)
    if not key:
        return c.missing_argument()
    if c.shell.restrict_key is None:
        c.shell.error("\\unrestrict: not currently in restricted mode")
        return False
    if key != c.shell.restrict_key:
        c.shell.error("\\unrestrict: wrong key")
        return False
    c.shell.restrict_key = None
    return True


# --- applying ---------------------------------------------------------------------------------------------------------


@command("apply")
def apply(c: BackslashCommand) -> bool:
    return _work(c.shell, c.name, c.words(semicolon=True), lambda worker: worker.round(wait=True))


@command("sync")
def sync(c: BackslashCommand) -> bool:
    return _work(c.shell, c.name, c.words(semicolon=True), lambda worker: worker.synchronize(wait=True))


def _work(shell: Shell, name: str, names: Sequence[str], work: Callable[[Worker], Round]) -> bool:
    if shell.connection is None:
        shell.error(NOT_CONNECTED)
        return False
    if shell.connection.status != "idle":
        shell.error(f"\\{name} cannot be used in a transaction block")
        return False
    try:
        with interrupt.stops_waiting():
            errors = _rounds(shell, names, work)
    except KeyboardInterrupt:
        errors = [interrupt.cancelled()]
    except PgError as problem:
        errors = [problem]
    for error in errors:
        remember_error(shell, error, "")
        shell.on_notice(error.report)
    return not errors


def _rounds(shell: Shell, names: Sequence[str], work: Callable[[Worker], Round]) -> list[PgError]:
    assert shell.connection is not None
    session, database = shell.connection.session, shell.connection.database
    shell.stdout.flush()
    lines = ProgressLines(shell.say)
    launcher = Launcher(session, log_beside(session), names=names, observer=lines)
    errors = []
    try:
        for subscription in launcher.subscriptions():
            done = work(launcher.worker(subscription))
            lines.summary(applied_of(database, subscription.name, done))
            if done.error is not None:
                errors.append(done.error)
    finally:
        launcher.close()
    return errors
