"""The process that a client knows by its PID: it keeps the connection while processes with the session come and go.

A session that has answered a question has some 15 MB of memory of its own: every object of the postmaster's that it has
looked at is on a page that it had to copy. When it has been idle for `pgrepl.idle_session_release` its process notes
what makes the session (rest.py), and ends. The keeper has hardly touched anything, and takes 3 MB. When the client
speaks again it forks the next process, which goes on with what is noted.

Signals go to the keeper, which passes them on.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import FrameType

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_TERMINATE = b"X\0\0\0\4"  # the message with which a client leaves


@dataclass(frozen=True)
class Life:
    """One of the processes that a session has, one after the other."""

    pid: int  # by which the session is known
    postmaster: int
    state: bytes = b""  # what the one before has left; empty: the session begins
    reloads: bool = False  # SIGHUP has come since the one before began
    left: int = -1  # the descriptor of the file for what is left to the next one; -1: there is no next one

    def leave(self, state: bytes) -> None:
        """Leave the session to the next process; this one ends."""
        os.pwrite(self.left, state, 0)


class Keeper:
    """Keeps one connection."""

    def __init__(self, connection: socket.socket, work: Callable[[Life], None], terminate: Callable[[], None]) -> None:
        """`work` is the life of a session's process. `terminate` tells the client that an administrator has ended a
        session that was at rest."""
        self._connection = connection
        self._work = work
        self._terminate = terminate
        self._worker = 0
        self._terminated = False
        self._hangups = 0  # counted, so that none is forgotten that comes while they are looked at
        self._hangups_before = 0  # when the last process began

    def keep(self) -> None:
        """Keep the connection until the session has ended. Raises SystemExit in the session's processes."""
        postmaster = os.getppid()
        if not hasattr(os, "memfd_create"):
            self._work(Life(os.getpid(), postmaster))
            return
        self._wake, waker = os.pipe()
        for descriptor in (self._wake, waker):
            os.set_blocking(descriptor, False)
        self._left = os.memfd_create("session")
        for number in SIGNALS:
            signal.signal(number, self._pass_on)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        life = Life(os.getpid(), postmaster, left=self._left)
        while self._is_left_by(life, waker) and self._is_asked():
            state = os.pread(self._left, os.fstat(self._left).st_size, 0)
            os.ftruncate(self._left, 0)
            life = Life(os.getpid(), postmaster, state, left=self._left)

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        """A session that listens, or has locks, is never at rest: it needs no other signal then. A process that is
        about to leave takes no notice of SIGHUP: the next one will."""
        self._terminated |= number == signal.SIGTERM
        self._hangups += number == signal.SIGHUP
        if self._worker:
            with suppress(ProcessLookupError):
                os.kill(self._worker, number)

    def _is_left_by(self, life: Life, waker: int) -> bool:
        """Have a process live; False: the session has ended with it."""
        with _blocked():
            hangups, before = self._hangups, self._hangups_before
            pid = os.fork()
            self._worker = pid
            if not pid:
                self._live(replace(life, reloads=hangups != before), waker)
        self._hangups_before = hangups
        if self._hangups != hangups:  # it came while there was no process to pass it on to
            os.kill(pid, signal.SIGHUP)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # a PID that is not collected is no other process's
        with _blocked():
            self._worker = 0
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            with suppress(OSError):
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        if code:
            raise SystemExit(code)
        return os.fstat(self._left).st_size > 0

    def _live(self, life: Life, waker: int) -> None:
        """In the session's process. One that goes on takes no signal before it can answer it, and none takes SIGHUP
        before it can read its settings again."""
        end_with_parent(life.pid, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        for descriptor in (self._wake, waker):
            os.close(descriptor)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else signal.SIG_DFL)
        if not life.state:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, set(SIGNALS) - {signal.SIGHUP})
        self._work(life)
        raise SystemExit(0)

    def _is_asked(self) -> bool:
        """Wait until the client says something; False: the session has ended."""
        waiting = select.poll()
        waiting.register(self._connection, select.POLLIN)
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
            begin = self._connection.recv(len(_TERMINATE), socket.MSG_PEEK)
            return begin not in (b"", _TERMINATE)
        return False


@contextmanager
def _blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent(parent: int, number: signal.Signals) -> None:
    """Have this process end by a signal when its parent does, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, number)
    if os.getppid() != parent:
        os._exit(2)
