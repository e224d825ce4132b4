"""Processes that work for this one, where threads would wait for Python's lock.

A process with threads, connections and open databases is not forked. So a program calls `prepare` before anything
else, which forks a bare process; when work comes, that one forks the workers. In another's Python nobody calls it,
and threads do the work. A worker ends with its parent, however that ends.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn, cast

from pgrepl.ground.interrupts import check_for_interrupts, hold_interrupts

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_LOOK = 0.1  # seconds between two checks for interrupts
_REQUEST = 1 << 14  # bytes at most
_MOST = 64  # workers


class WorkersLost(Exception):
    """A worker has ended, or met an error: its part has to be done otherwise."""


class Workers:
    """Some processes, each of which does one part at a time."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._connections: list[Connection] = [Connection(end.detach()) for end in sockets]
        self._pids: dict[Connection, int] = {}
        self.are_lost = False

    def __len__(self) -> int:
        return len(self._connections)

    def play(
        self,
        kernel: Callable[[Any, Any], Any],
        parts: Sequence[Any],
        count_rows: Callable[[int, int], None],
        check: Callable[[], None],
    ) -> list[Any]:
        """The answers, in the order of the parts; WorkersLost. `check` raises what ends the work."""
        waiting, answers = deque(enumerate(parts)), dict[int, Any]()
        idle, busy = list(self._connections), dict[Any, int]()
        try:
            while waiting or busy:
                while waiting and idle:
                    number, part = waiting.popleft()
                    connection = idle.pop(0)
                    busy[connection] = number
                    connection.send_bytes(pickle.dumps((kernel, part)))
                for connection in cast("list[Connection]", wait(list(busy), _LOOK)):
                    word, value = pickle.loads(connection.recv_bytes())  # of our own process
                    if word == "pid":
                        self._pids[connection] = value
                    elif word == "rows":
                        count_rows(*value)
                    elif word == "done":
                        answers[busy.pop(connection)] = value
                        idle.append(connection)
                    else:
                        raise WorkersLost(value)
                check_for_interrupts()
                check()
        except BaseException as problem:
            self.close(busy)
            if isinstance(problem, (EOFError, OSError)):
                raise WorkersLost("a process that copied rows has ended") from problem
            raise
        return [answers[number] for number in range(len(parts))]

    def close(self, busy: Sequence[Connection] | dict[Connection, int] = ()) -> None:
        """End the processes: idle ones by themselves; `busy` ones may wait for a server that does not answer."""
        self.are_lost = True
        for connection in busy:
            if connection in self._pids:
                with suppress(OSError):
                    os.kill(self._pids[connection], signal.SIGKILL)
        for connection in self._connections:
            connection.close()
        self._connections.clear()


class _Watch:
    """The watch of a part in a worker."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def check(self) -> None:
        return

    def add(self, rows: int, size: int) -> None:
        _say(self._connection, "rows", (rows, size))


# --- the process that waits -------------------------------------------------------------------------------------------

_lock = threading.Lock()
_waiting: tuple[int, socket.socket] | None = None  # of which process, and how it is asked
_expected: Workers | None = None  # that nobody has asked for yet


def prepare() -> None:
    """Fork the process that waits, before this one has any thread."""
    global _waiting
    if sys.platform != "linux" or threading.active_count() > 1:
        return
    with hold_interrupts():
        here, there = socket.socketpair()
        parent = os.getpid()
        if not os.fork():
            _live(_wait, there, parent)
        there.close()
        _waiting = parent, here


def are_prepared() -> bool:
    return _waiting is not None and _waiting[0] == os.getpid()


def expect(count: int, load: Callable[[], None]) -> None:
    """Begin workers for the next one who asks for as many."""
    global _expected
    _expected = workers(count, load)


def workers(count: int, load: Callable[[], None]) -> Workers | None:
    """Processes that have called `load` before they were divided, or are about to; None: there are none."""
    global _expected
    with _lock:
        expected, _expected = _expected, None
    if expected is not None and len(expected) == count:
        return expected
    if expected is not None:
        expected.close()
    if not are_prepared() or _waiting is None:
        return None
    pairs = [socket.socketpair() for _ in range(min(count, _MOST))]
    try:
        with _lock:
            socket.send_fds(_waiting[1], [pickle.dumps(load)], [there.fileno() for _, there in pairs])
    except OSError:  # somebody has killed it
        for here, _ in pairs:
            here.close()
        return None
    finally:
        for _, there in pairs:
            there.close()
    return Workers([here for here, _ in pairs])


def end_with_parent(parent: int, number: signal.Signals) -> None:
    """Have this process end by a signal when its parent does, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, number)
    if os.getppid() != parent:
        os._exit(2)


def _live(work: Callable[..., None], *given: Any) -> NoReturn:
    """The life of a forked process."""
    try:
        work(*given)
    except BaseException:
        os._exit(1)
    os._exit(0)


def _wait(asked: socket.socket, parent: int) -> None:
    end_with_parent(parent, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; this one's parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.closerange(3, asked.fileno())
    os.closerange(asked.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    here = os.getpid()
    while True:
        request, descriptors, _, _ = socket.recv_fds(asked, _REQUEST, _MOST)
        if not request:
            return
        if not os.fork():
            asked.close()
            _live(_first, here, request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _first(parent: int, request: bytes, descriptors: Sequence[int]) -> None:
    """Load once for all workers, and be one of them."""
    end_with_parent(parent, signal.SIGKILL)
    pickle.loads(request)()  # of the process that we work for
    here = os.getpid()
    for number in range(1, len(descriptors)):
        if not os.fork():
            end_with_parent(here, signal.SIGKILL)
            _serve(descriptors, number)
            return
    _serve(descriptors, 0)


def _serve(descriptors: Sequence[int], number: int) -> None:
    for other, descriptor in enumerate(descriptors):
        if other != number:
            os.close(descriptor)
    connection = Connection(descriptors[number])
    _say(connection, "pid", os.getpid())
    while True:
        try:
            kernel, part = pickle.loads(connection.recv_bytes())  # of the process that we work for
        except EOFError:
            return
        try:
            answer = kernel(part, _Watch(connection))
        except Exception as problem:
            _say(connection, "failed", f"{type(problem).__name__}: {problem}")
        else:
            _say(connection, "done", answer)


def _say(connection: Connection, word: str, value: Any) -> None:
    connection.send_bytes(pickle.dumps((word, value)))
