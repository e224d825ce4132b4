r"""`\apply \sync`: the subscriptions of the database catch up now, with AUTOAPPLY off, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.shell import interrupt
from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.execute import NOT_CONNECTED
from pgrepl.shell.results import remember_error
from pgrepl.shell.shell import Shell

if TYPE_CHECKING:
    from pgrepl.replication.subscriber.round import Round
    from pgrepl.replication.subscriber.worker import Worker


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
    from pgrepl.api.rounds import applied_of
    from pgrepl.replication.log import log_beside
    from pgrepl.replication.subscriber.launcher import Launcher
    from pgrepl.shell.applying_progress import ProgressLines

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
