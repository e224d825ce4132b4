"""The process that answers Iceberg's readers: one thread speaks HTTP, a few have sessions and look up what is asked."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from pgrepl.backend import HOOKS
from pgrepl.catalog.facts import activity
from pgrepl.catalog.session import login
from pgrepl.catalog.session.session import Session, SessionIdentity
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.server.channel import ConnectionLost
from pgrepl.server.http import Answer, HttpServer, Limits, Request
from pgrepl.server.iceberg.routes import METHODS, Routes, complaint

if TYPE_CHECKING:
    import ssl

    from pgrepl.replication.log import ServerLog
    from pgrepl.server.settings import ServerSettings

_THREADS = 4
_MOST_WAITING = 32  # requests; a reader is told to ask again
_WRONG = 1.0  # seconds until it is said that a password is wrong
_LIMITS = Limits(METHODS, body=1 << 20, sending=10.0, waiting=300.0)
_NICENESS = 5  # sessions come first
_ANY_DATABASE = 5  # postgres: roles belong to no database


class Answering(Protocol):
    """What a path means, and how its errors are told."""

    def answer(self, outside: Session, request: Request) -> Answer: ...

    def failure(self, request: Request, error: PgError) -> Answer: ...

    def complaint(self, status: int, text: str) -> Answer: ...

    def has_password(self, request: Request) -> bool:
        """Has the request a password, which may be a guess?"""


class Desk:
    """Answers requests by threads with a session each."""

    def __init__(self, routes: Answering, open_session: Callable[[], Session], log: ServerLog) -> None:
        self.on_done: Callable[[], None] = lambda: None
        self._routes, self._open, self._log = routes, open_session, log
        self._threads = ThreadPoolExecutor(_THREADS, "pgrepl-iceberg")
        self._mine = threading.local()
        self._asked: WeakKeyDictionary[Request, Future[Answer]] = WeakKeyDictionary()
        self._generation = 0  # of settings

    def serve(self, server: HttpServer) -> None:
        """Answer what a server is asked. SIGTERM ends it; SIGHUP has sessions begin anew with new settings."""
        self.on_done = server.wake
        signal.signal(signal.SIGTERM, lambda *_: server.stop())
        signal.signal(signal.SIGHUP, lambda *_: self.renew())
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def renew(self) -> None:
        self._generation += 1

    def respond(self, request: Request) -> Answer | None:
        future = self._asked.get(request)
        if future is None:
            if sum(not each.done() for each in self._asked.values()) >= _MOST_WAITING:
                return self._routes.complaint(503, "the server has too much to do")
            future = self._asked[request] = self._threads.submit(self._answer, request)
            future.add_done_callback(lambda _: self.on_done())
        if not future.done():
            return None
        answer = future.result()
        if answer.status == 401 and self._routes.has_password(request) and time.monotonic() < request.asked + _WRONG:
            return None
        return answer

    def _answer(self, request: Request) -> Answer:
        try:
            return self._routes.answer(self._session(), request)
        except PgError as error:
            answer = self._routes.failure(request, error)
            if answer.status >= 500:  # the catalog may have gone, and come again
                self._forget()
            if answer.status >= 500 or error.report.severity == "FATAL":
                self._log.report(error.report)
            return answer
        except ConnectionLost:
            return self._routes.complaint(500, "there is nobody to tell")
        except Exception as problem:  # a mistake of ours: the next request finds another session
            self._forget()
            self._log.log(f"could not answer a request by HTTP: {problem!r}")
            return self._routes.complaint(500, "the request could not be answered")

    def _session(self) -> Session:
        session: Session | None = getattr(self._mine, "session", None)
        if session is None or self._mine.generation != self._generation:
            self._forget()
            self._mine.generation = self._generation
            session = self._mine.session = self._open()
        return session

    def _forget(self) -> None:
        session: Session | None = getattr(self._mine, "session", None)
        self._mine.session = None
        if session is not None:
            with suppress(PgError):
                session.close(keep=True)
                session.catalog.close()


def open_outside(catalog: str, settings: ServerSettings) -> Session:
    """A session that has entered no database."""
    opened = open_catalog(catalog, folder=str(settings.folder))
    session = Session(HOOKS, opened, SessionIdentity(database=_ANY_DATABASE))
    with reading(session):
        login.start(session)
    for name, text in settings.given.items():
        session.settings.set_by_system(name, text)  # which sessions elsewhere take over
    return session


def iceberg_process(
    listening: socket.socket, routes: Routes, settings: ServerSettings, catalog: str, log: ServerLog,
    tls: ssl.SSLContext | None,
) -> Callable[[int], None]:  # fmt: skip
    """The function that the process runs: it is given its place in the table of activity."""

    def run(place: int) -> None:
        desk = Desk(routes, lambda: open_outside(catalog, settings), log)
        server = HttpServer(listening, desk.respond, _LIMITS, complain=complaint, tls=tls)
        desk.serve(server)
        os.nice(_NICENESS)
        activity.show_process(place, "pgrepl iceberg")
        server.run()

    return run
