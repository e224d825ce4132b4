"""The process that answers over HTTP, which ends after all others of the server."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from pgrepl.catalog import activity
from pgrepl.server.http import HttpServer
from pgrepl.server.state import ServerState

if TYPE_CHECKING:
    import ssl

    from pgrepl.catalog.session import Session
    from pgrepl.replication.log import ServerLog
    from pgrepl.server.iceberg.access import Access
    from pgrepl.server.settings import ServerSettings


@contextmanager
def while_starting(listening: socket.socket | None, state: ServerState) -> Iterator[None]:
    """A block in which the server loads what it needs, and says so to whoever asks."""
    if listening is None:
        yield
        return
    from pgrepl.server.monitoring.answers import respond_at_once

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
        from pgrepl.catalog.opening import open_catalog

        return open_session(open_catalog(catalog, folder=str(settings.folder)), "postgres", "postgres")

    def run(place: int) -> None:
        from pgrepl.api.overview_history import MINUTE, History, history_path
        from pgrepl.server.iceberg.process import Desk, open_outside
        from pgrepl.server.monitoring import collect
        from pgrepl.server.monitoring.answers import Answers, Collector
        from pgrepl.server.page import PageRoutes, Watched

        watched = Watched(History(history_path(catalog)))
        collectors = [
            Collector("catalog", collect.of_catalog, open_session, log),
            Collector("publishers", watched.collect, open_session, log, every=MINUTE),
        ]
        desk = Desk(PageRoutes(access, watched), lambda: open_outside(catalog, settings), log)
        answers = Answers(
            state, lambda: collect.of_processes(state, started, settings.max_connections), collectors, desk.respond
        )
        server = HttpServer(listening, answers.respond, tls=tls)

        def stop(_signal: int, _frame: FrameType | None) -> None:
            server.stop()

        def renew(_signal: int, _frame: FrameType | None) -> None:
            desk.renew()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGHUP, renew)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        desk.on_done = server.wake
        for each in collectors:
            each.on_done = server.wake
            each.start()
        activity.show_process(place, "pgrepl monitor")
        server.run()

    return run
