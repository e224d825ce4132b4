"""The process that a client knows by its PID: it keeps the connection while processes with the session come and go.

A session that is idle for `pgrepl.idle_session_release` notes what makes it and ends its process; the connection's
process, which takes 3 MB, forks the next one when the client speaks again, and passes signals on. A session that has
more than that is never released: a transaction, a cursor, temporary relations, channels, locks, a replication origin,
a seed, a Spark of its own, TLS.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import sequences as sequence_positions
from pgrepl.catalog.session.context import Block
from pgrepl.catalog.session.session import Session, SessionIdentity
from pgrepl.expr.functions.misc import is_seeded
from pgrepl.ground import interrupts
from pgrepl.ground.processes import end_with_parent

if TYPE_CHECKING:
    from pgrepl.catalog.store.connection import Catalog
    from pgrepl.statements.prepared import PreparedStatement


@cache
def setter() -> Callable[[str], None] | None:
    """The package's function; None: it is not there. It is looked for before the first process is forked."""
    try:
        from setproctitle import setproctitle
    except ImportError:
        return None
    function: Callable[[str], None] = setproctitle
    return function


def show(title: str) -> None:
    """Have `ps` show it instead of the command line (set_ps_display)."""
    function = setter()
    if function is not None:
        function(f"pgrepl: {title}")


def of_session(about: Mapping[str, Any], database: str) -> str:
    """What stays the same in a session's title: who is connected to what, and from where (init_ps_display)."""
    kind = "walsender " if about.get("backend_type") == "walsender" else ""
    place = f"{about['client_addr']}({about['client_port']})" if "client_addr" in about else "[local]"
    return f"{kind}{about['usename']} {database} {place}"


# --- connection process -----------------------------------------------------------------------------------------------


SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_TERMINATE = b"X\0\0\0\4"  # the message with which a client leaves


@dataclass(frozen=True)
class SessionProcess:
    """One of the processes that a session has, one after the other."""

    pid: int  # by which the session is known
    postmaster: int
    state: bytes = b""  # what the one before has left; empty: the session begins
    reloads: bool = False  # SIGHUP has come since the one before began
    left: int = -1  # the descriptor of the file for what is left to the next one; -1: there is no next one

    def leave(self, state: bytes) -> None:
        """Leave the session to the next process; this one ends."""
        os.pwrite(self.left, state, 0)


class ConnectionProcess:
    """The process of one connection; it forks the processes of the session."""

    def __init__(
        self,
        connection: Callable[[], socket.socket],
        serve: Callable[[SessionProcess], None],
        terminate: Callable[[], None],
    ) -> None:
        """`connection` is asked for when a process has released the session. `serve` is what a process of the session
        does. `terminate` tells the client that an administrator has ended a released session."""
        self._connection = connection
        self._serve = serve
        self._terminate = terminate
        self._session_pid = 0
        self._terminated = False
        self._hangups = 0  # counted, so that none is forgotten that comes while they are looked at
        self._hangups_before = 0  # when the last process began

    def run(self) -> None:
        """Run the session until it has ended. Raises SystemExit in the session's processes."""
        postmaster = os.getppid()
        show("client connection")
        if not hasattr(os, "memfd_create"):
            self._serve(SessionProcess(os.getpid(), postmaster))
            return
        self._wake, waker = os.pipe()
        for descriptor in (self._wake, waker):
            os.set_blocking(descriptor, False)
        self._left = os.memfd_create("session")
        for number in SIGNALS:
            signal.signal(number, self._pass_on)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        process = SessionProcess(os.getpid(), postmaster, left=self._left)
        while self._is_released_by(process, waker) and self._client_speaks():
            state = os.pread(self._left, os.fstat(self._left).st_size, 0)
            os.ftruncate(self._left, 0)
            process = SessionProcess(os.getpid(), postmaster, state, left=self._left)

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        """A session that listens, or has locks, is never released: it needs no other signal then. A process that is
        about to leave takes no notice of SIGHUP: the next one will."""
        self._terminated |= number == signal.SIGTERM
        self._hangups += number == signal.SIGHUP
        if self._session_pid:
            with suppress(ProcessLookupError):
                os.kill(self._session_pid, number)

    def _is_released_by(self, process: SessionProcess, waker: int) -> bool:
        """Run a process of the session. True: it has released the session; False: the session has ended with it."""
        with _blocked():
            hangups, before = self._hangups, self._hangups_before
            pid = os.fork()
            self._session_pid = pid
            if not pid:
                self._run(replace(process, reloads=hangups != before), waker)
        self._hangups_before = hangups
        if self._hangups != hangups:  # it came while there was no process to pass it on to
            os.kill(pid, signal.SIGHUP)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # a PID that is not collected is no other process's
        with _blocked():
            self._session_pid = 0
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            with suppress(OSError):
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        if code:
            raise SystemExit(code)
        return os.fstat(self._left).st_size > 0

    def _run(self, process: SessionProcess, waker: int) -> None:
        """Run the session, in its own process. One that resumes it takes no signal before it can answer it, and none
        takes SIGHUP before it can read its settings again."""
        end_with_parent(process.pid, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        for descriptor in (self._wake, waker):
            os.close(descriptor)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else signal.SIG_DFL)
        if not process.state:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, set(SIGNALS) - {signal.SIGHUP})
        self._serve(process)
        raise SystemExit(0)

    def _client_speaks(self) -> bool:
        """Wait until the client says something; False: the session has ended."""
        connection = self._connection()
        waiting = select.poll()
        waiting.register(connection, select.POLLIN)
        waiting.register(self._wake, select.POLLIN)
        asked = False
        while not asked:
            if self._terminated:
                self._terminate()
                return False
            asked = any(descriptor != self._wake for descriptor, _ in waiting.poll())
            with suppress(BlockingIOError):
                os.read(self._wake, 4096)
        with suppress(OSError):
            begin = connection.recv(len(_TERMINATE), socket.MSG_PEEK)
            return begin not in (b"", _TERMINATE)
        return False


@contextmanager
def _blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- idle session -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IdleSession:
    """A session, and what its client knows of it."""

    database: int
    authenticated_user: int
    settings: tuple[Any, ...]
    prepared: dict[str, Any]
    sequences: tuple[dict[int, int], int | None]  # currval and lastval
    unnamed: PreparedStatement | None  # by the protocol
    told: dict[str, str]  # the settings that the client has been told
    about: Mapping[str, Any]  # what stays the same in pg_stat_activity

    def dumped(self) -> bytes:
        return pickle.dumps(self)

    @staticmethod
    def loaded(data: bytes) -> IdleSession:
        idle = pickle.loads(data)
        assert isinstance(idle, IdleSession)
        return idle

    def session(self, hooks: Any, catalog: Catalog) -> Session:
        """The session, which was let in long ago."""
        session = Session(hooks, catalog, SessionIdentity(self.database, self.authenticated_user))
        session.settings.take_kept(self.settings)
        session.prepared.update(self.prepared)
        used = sequence_positions.used(session)
        used.values, used.last = dict(self.sequences[0]), self.sequences[1]
        return session


def may_be_released(session: Session) -> bool:
    """Is there nothing in the session that only its process has?"""
    transaction = session.transaction
    return (
        transaction.block is Block.NONE
        and not transaction.portals
        and not (transaction.notifications is not None and transaction.notifications.channels)
        and not transaction.locks.of_session
        and not session.temporary_schema
        and not session.at_close
        and session.origin is None
        and not is_seeded(session)
        and (interrupts.is_shared() or not interrupts.started())
    )


def idle_session_of(
    session: Session, unnamed: PreparedStatement | None, told: dict[str, str], about: Mapping[str, Any]
) -> IdleSession:
    used = sequence_positions.used(session)
    sequences, settings = (used.values, used.last), session.settings.kept()
    who = session.database_oid, session.authenticated_user
    prepared = {name: replace(statement, valid=None) for name, statement in session.prepared.items()}
    unnamed = None if unnamed is None else replace(unnamed, valid=None)
    return IdleSession(*who, settings, prepared, sequences, unnamed, told, about)
