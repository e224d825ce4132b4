"""The process that a client knows by its PID: it keeps the connection while processes with the session come and go.

A session that has answered a question has some 15 MB of memory of its own: every object of the postmaster's that it has
looked at is on a page that it had to copy. When it has been idle for `pgrepl.idle_session_release` its process notes
what makes the session (idle_session.py), and ends: the session is released. The connection's process has hardly touched
anything, and takes 3 MB. When the client speaks again it forks the next process, which resumes the session.

Signals go to the connection's process, which passes them on.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import FrameType

from pgrepl.processes import end_with_parent
from pgrepl.server import process_title

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
        process_title.show("client connection")
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
