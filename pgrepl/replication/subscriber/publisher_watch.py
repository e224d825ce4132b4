"""The watch of a worker over its publisher: it warns of what is retained for the slot before it is too late
(dangers.py). A worker that does not stay looks once, when it begins. For a follower a thread looks now and then, over a
connection of its own: while tables are copied, too, and no batch waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.replication.libpq.endpoints import ConnectionFailure
from pgrepl.replication.publisher.protocol import PublisherError, Slots
from pgrepl.replication.subscriber.dangers import Warned, limits

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.log import LogOf
    from pgrepl.replication.publisher.retained import Retained, SlotProbe

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

        def tell(found: Retained | None) -> None:
            news = [] if found is None else self._warned.news(subscription, slot, found, limit)
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
