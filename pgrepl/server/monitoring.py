"""The process that answers `/`, `/metrics` and `/healthz` over HTTP, and the threads that collect what they tell."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

from pgrepl.api import overview_history
from pgrepl.api.overview_history import MINUTE, History, history_path
from pgrepl.catalog.facts import activity
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.server import metrics
from pgrepl.server.http import Answer, HttpServer, Request
from pgrepl.server.metrics import CONTENT_TYPE, Family, text
from pgrepl.server.settings import RUNNING, ServerState

if TYPE_CHECKING:
    import ssl

    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.log import ServerLog
    from pgrepl.server.iceberg_access import Access
    from pgrepl.server.settings import ServerSettings

PATIENCE = 2.0  # seconds that an answer waits for fresh numbers
_FRESH = 1.0  # seconds for which collected numbers are fresh

OpenSession: TypeAlias = "Callable[[], Session]"


class Collector:
    """A thread that collects one part of the numbers when it is asked to, and `every` so many seconds, and keeps the
    last that it has found."""

    def __init__(
        self, part: str, collect: Callable[[Session], list[Family]], open_session: OpenSession, log: ServerLog,
        every: float | None = None,
    ) -> None:  # fmt: skip
        self.part = part
        self._every = every
        self.families: list[Family] = []
        self.collected: float | None = None  # when, in seconds since 1970
        self.failures = 0
        self.on_done: Callable[[], None] = lambda: None
        self._collect, self._open, self._log = collect, open_session, log
        self._session: Session | None = None
        self._asked = threading.Event()
        self._tried_at = float("-inf")  # when the last attempt began
        self._done_at = float("-inf")  # when the last attempt that has ended began
        self._said = ""

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"pgrepl-metrics-{self.part}", daemon=True).start()

    def is_fresh(self, asked: float) -> bool:
        """Whether an attempt has ended that began when it was asked, or shortly before; if none has, one begins."""
        if self._done_at >= asked - _FRESH:
            return True
        if self._tried_at < asked - _FRESH:
            self._asked.set()
        return False

    def _run(self) -> None:
        while True:
            self._asked.wait(self._every)
            self._asked.clear()
            began = self._tried_at = time.monotonic()
            try:
                if self._session is None:
                    self._session = self._open()
                self.families = self._collect(self._session)
                self.collected = time.time()
                self._said = ""
            except PgError as error:
                self._fail(error)
            finally:
                self._done_at = began
                self.on_done()

    def _fail(self, error: PgError) -> None:
        """Count the failure, say it once, and begin with another session."""
        self.failures += 1
        session, self._session = self._session, None
        if session is not None:
            with suppress(PgError):
                session.close()
                session.catalog.close()
        if error.message != self._said:
            self._said = error.message
            self._log.log(f"could not collect statistics: {error.message}")


class Answers:
    """Answers to the paths of a server that is up."""

    def __init__(
        self, state: ServerState, of_processes: Callable[[], list[Family]], collectors: Sequence[Collector],
        page: Callable[[Request], Answer | None],
    ) -> None:  # fmt: skip
        self._state = state
        self._page = page
        self._of_processes = of_processes
        self._collectors = collectors

    def respond(self, request: Request) -> Answer | None:
        if request.path not in ("/", "/metrics"):
            return respond_at_once(self._state, request.path)
        fresh = [collector.is_fresh(request.asked) for collector in self._collectors]
        if not all(fresh) and time.monotonic() < request.asked + PATIENCE:
            return None
        if request.path == "/":
            return self._page(request)
        families = [*self._of_processes(), *self._of_collectors()]
        families += [family for collector in self._collectors for family in collector.families]
        return Answer(200, text(families), CONTENT_TYPE)

    def _of_collectors(self) -> list[Family]:
        collected = Family("pgrepl_collected_timestamp_seconds", "When these numbers were collected.")
        failures = Family("pgrepl_collect_failures_total", "Attempts to collect numbers that have failed.")
        for collector in self._collectors:
            collected.add(None if collector.collected is None else round(collector.collected, 3), part=collector.part)
            failures.add(collector.failures, part=collector.part)
        return [collected, failures]


def respond_at_once(state: ServerState, path: str) -> Answer:
    """An answer that needs no numbers; there are none while the server starts."""
    name = state.get()
    if path == "/healthz":
        return Answer(200, "ok\n") if name == RUNNING else Answer(503, f"{name}\n")
    if path in ("/", "/metrics"):
        return Answer(503, f"{name}\n")
    return Answer(404, "there are /, /metrics and /healthz\n")


# --- process ----------------------------------------------------------------------------------------------------------


@contextmanager
def while_starting(listening: socket.socket | None, state: ServerState) -> Iterator[None]:
    """A block in which the server loads what it needs, and says so to whoever asks."""
    if listening is None:
        yield
        return

    server = HttpServer(listening, lambda request: respond_at_once(state, request.path))
    thread = threading.Thread(target=server.run, name="pgrepl-starting")
    thread.start()
    try:
        yield
    finally:
        server.stop()
        thread.join()


def monitoring_process(
    listening: socket.socket, state: ServerState, settings: ServerSettings, catalog: str, log: ServerLog,
    access: Access, tls: ssl.SSLContext | None,
) -> Callable[[int], None]:  # fmt: skip
    """The function that the process runs: it is given its place in the table of activity."""
    started = time.time()

    def open_session() -> Session:
        from pgrepl.backend import open_session

        return open_session(open_catalog(catalog, folder=str(settings.folder)), "postgres", "postgres")

    def run(place: int) -> None:
        from pgrepl.server.iceberg import Desk, open_outside
        from pgrepl.server.page import PageRoutes, Watched

        watched = Watched(History(history_path(catalog)), overview_history.facts_path(catalog))
        collectors = [
            Collector("catalog", metrics.of_catalog, open_session, log),
            Collector("publishers", watched.collect, open_session, log, every=MINUTE),
        ]
        desk = Desk(PageRoutes(access, watched), lambda: open_outside(catalog, settings), log)
        answers = Answers(
            state, lambda: metrics.of_processes(state, started, settings.max_connections), collectors, desk.respond
        )
        server = HttpServer(listening, answers.respond, tls=tls)
        desk.serve(server)
        for collector in collectors:
            collector.on_done = server.wake
            collector.start()
        activity.show_process(place, "pgrepl monitor")
        server.run()
        overview_history.keep(watched.spark_file, None)

    return run
