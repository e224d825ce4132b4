"""What endangers a publisher, or its slot: warnings for the log, `status` and monitoring, each with a limit and with
what helps.

A worker that does not stay looks once; for a follower a thread looks now and then, over a connection of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pgrepl.catalog.session.transaction import reading
from pgrepl.expr.functions.misc import pg_size_pretty
from pgrepl.ground.errors import PgError, Report
from pgrepl.ground.frozen import frozen
from pgrepl.replication.conninfo import ConnectionFailure
from pgrepl.replication.publisher.protocol import PublisherError, Slots
from pgrepl.replication.publisher.senders import LOST, OpenTransaction, Retained

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.log import LogOf
    from pgrepl.replication.publisher.senders import SlotProbe

_OVER = 0.9  # of a limit: below that a danger is over
_READ = "Let pgrepl apply --follow or pgrepl serve run, or disable and drop the subscription."


@frozen
class Limits:
    """The settings from which on there is a danger; 0: never."""

    size: int  # bytes that the slot retains
    left: float  # per cent of max_slot_wal_keep_size or idle_replication_slot_timeout that are left
    transaction: float  # seconds for which a transaction is open

    def lower(self) -> Limits:
        """The limits below which a danger is over."""
        return Limits(int(self.size * _OVER), self.left / _OVER, self.transaction * _OVER)


def limits(session: Session) -> Limits:
    value = session.settings.value
    return Limits(
        int(value("pgrepl.publisher_warn_retained")) * 1024,
        int(value("pgrepl.publisher_warn_left")),
        int(value("pgrepl.publisher_warn_transaction")),
    )


@frozen
class Danger:
    """A danger. `kind` tells it from others of the same subscription."""

    kind: str
    message: str
    detail: str
    hint: str

    def report(self, subscription: str) -> Report:
        return Report("WARNING", "01000", f'subscription "{subscription}": {self.message}', self.detail, self.hint)


def dangers(slot: str, retained: Retained, limit: Limits) -> list[Danger]:
    """The dangers for a slot and its server."""
    if retained.status == LOST or retained.snapshots is not None:
        return []
    checks = (_retains_much(slot, retained, limit), _little_left(slot, retained, limit), _idle(slot, retained, limit))
    return [danger for danger in (*checks, _open_long(retained, limit)) if danger is not None]


def _retains_much(slot: str, retained: Retained, limit: Limits) -> Danger | None:
    if not limit.size or retained.size < limit.size:
        return None
    message = f'the publisher retains {pg_size_pretty(retained.size)} of WAL for replication slot "{slot}"'
    return Danger("retained", message, *_cause(retained))


def _little_left(slot: str, retained: Retained, limit: Limits) -> Danger | None:
    if (
        not limit.left
        or retained.left is None
        or not retained.limit
        or retained.left * 100 > limit.left * retained.limit
    ):
        return None
    left, most = pg_size_pretty(max(0, retained.left)), pg_size_pretty(retained.limit)
    message = f'replication slot "{slot}" is lost when {left} more of WAL have been written at the publisher'
    detail, hint = _cause(retained)
    detail = f"max_slot_wal_keep_size is {most} there, wal_status {retained.status}. {detail}"
    return Danger("left", message, detail, f"{hint} Or set a higher max_slot_wal_keep_size there.")


def _idle(slot: str, retained: Retained, limit: Limits) -> Danger | None:
    if retained.idle is None or not retained.idle_limit or not limit.left:
        return None
    left = max(0.0, retained.idle_limit - retained.idle)
    if left * 100 > limit.left * retained.idle_limit:
        return None
    message = f'replication slot "{slot}" is lost in {duration(left)} unless it is read from'
    detail = f"idle_replication_slot_timeout is {duration(retained.idle_limit)} at the publisher."
    return Danger("idle", message, detail, _READ)


def _open_long(retained: Retained, limit: Limits) -> Danger | None:
    transaction = retained.transaction
    if transaction is None or not limit.transaction or transaction.seconds < limit.transaction:
        return None
    message = f"a transaction with changes has been open at the publisher for {duration(transaction.seconds)}"
    detail = f"It is that of {described(transaction)}; the publisher retains all WAL since it began."
    return Danger(f"transaction {transaction.name}", message, detail, _ended(transaction))


def _cause(retained: Retained) -> tuple[str, str]:
    """Why so much is retained, and what helps."""
    held = retained.size - retained.unconfirmed
    if held > retained.unconfirmed and retained.transaction is not None:
        detail = f"The oldest transaction with changes there is that of {described(retained.transaction)}, open for "
        return f"{detail}{duration(retained.transaction.seconds)}.", _ended(retained.transaction)
    if held > retained.unconfirmed:
        told = "" if retained.sees_all else " Only roles with pg_monitor see which."
        return f"A transaction with changes holds it.{told}", "End transactions that are open for long."
    what = pg_size_pretty(retained.unconfirmed)
    return f"{what} of it are not confirmed by the subscription, which is behind or copies tables.", _READ


def _ended(transaction: OpenTransaction) -> str:
    if transaction.gid is not None:
        return "At the publisher, COMMIT PREPARED or ROLLBACK PREPARED it."
    return f"Let it end, or end it at the publisher: SELECT pg_terminate_backend({transaction.pid});"


def described(transaction: OpenTransaction) -> str:
    """Whose transaction it is, and what it does."""
    known = (("role", transaction.user), ("database", transaction.database), ("application", transaction.application))
    about = [f"{what} {value}" for what, value in known if value]
    about += [transaction.state] if transaction.state and transaction.gid is None else []
    return transaction.name + (f" ({', '.join(about)})" if about else "")


def duration(seconds: float) -> str:
    """Seconds as `12.3 s`, minutes and hours as `1:02:03`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, left = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{left:02}"


class Warned:
    """The dangers of which the log has been told, each once until it is over."""

    def __init__(self) -> None:
        self._known: dict[str, Danger] = {}

    def news(self, subscription: str, slot: str, retained: Retained, limit: Limits) -> list[Report]:
        """What the log has to be told of now."""
        remaining = {danger.kind for danger in dangers(slot, retained, limit.lower())}
        over = [self._known.pop(kind) for kind in list(self._known) if kind not in remaining]
        told = [
            Report("LOG", "00000", f'subscription "{subscription}": it is over that {danger.message}')
            for danger in over
        ]
        for danger in dangers(slot, retained, limit):
            if danger.kind not in self._known:
                told.append(danger.report(subscription))
                self._known[danger.kind] = danger
        return told


# --- publisher watch --------------------------------------------------------------------------------------------------


INTERVAL = 10.0  # seconds between two looks
_PATIENCE = 2.0  # seconds for a look that is interrupted to end


class PublisherWatch:
    """The watch of one worker. It remembers what it has told when it is started again."""

    def __init__(self, session: Session, log: LogOf) -> None:
        self._session = session
        self._log = log
        self._warned = Warned()
        self._running: _Looks | None = None

    def start(self, slots: Slots, slot: str, subscription: str) -> None:
        probe = None
        with suppress(PublisherError):
            probe = slots.probe(slot)
        if probe is None:
            return
        tell = self._teller(slot, subscription)
        self._running = _Looks(probe, lambda: tell(probe.look()))

    def look(self, slots: Slots, slot: str, subscription: str) -> None:
        """Look once, over the publisher's own connection."""
        with suppress(PublisherError):
            if slots.probe(slot) is not None:
                self._teller(slot, subscription)(slots.retained(slot))

    def _teller(self, slot: str, subscription: str) -> Callable[[Retained | None], None]:
        """A function that tells the log what is new; it asks no session, as a thread may call it."""
        with reading(self._session):
            limit = limits(self._session)
        heard = {severity for severity in ("WARNING", "LOG") if self._log.hears(severity)}

        def tell(retained: Retained | None) -> None:
            news = [] if retained is None else self._warned.news(subscription, slot, retained, limit)
            for report in news:
                if report.severity in heard:
                    self._log.server_log.report(report)

        return tell

    def stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.stop()


class _Looks(threading.Thread):
    """Looks from now on until it is stopped."""

    def __init__(self, probe: SlotProbe, look: Callable[[], None]) -> None:
        super().__init__(name="pgrepl-watch", daemon=True)
        self._probe = probe
        self._look = look
        self._is_looking = False
        self._over = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self._is_looking = True
                with suppress(PublisherError, ConnectionFailure, PgError):  # the worker meets the same error, and tells
                    self._look()
                self._is_looking = False
                self._over.wait(INTERVAL)
        finally:
            self._probe.close()

    def stop(self) -> None:
        self._over.set()
        if self._is_looking:
            self._probe.interrupt()
        self.join(_PATIENCE)
