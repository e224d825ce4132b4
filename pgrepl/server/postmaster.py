"""The postmaster: listens, forks a backend for each connection, collects those that have ended (postmaster.c).

It does nothing else, so that nothing else can stop it: it reads no message of a client and opens no catalog once it
listens. What backends need is loaded before the first one is forked. One backend is always forked ahead (a spare), and
waits for its client: to fork two processes that share so much takes longer than all else that a new client waits for.

    SIGTERM  refuses new connections; ends when the last client has left, and walsenders have sent all (smart shutdown)
    SIGINT   sessions are ended, their transactions rolled back (fast)
    SIGQUIT  all processes end at once (immediate)
    SIGHUP   settings are read again
"""

from __future__ import annotations

import errno
import fcntl
import gc
import marshal
import os
import secrets
import select
import signal
import socket
import stat
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from pgrepl.catalog.facts import activity
from pgrepl.catalog.facts.activity import ActivityTable
from pgrepl.ground.errors import PgError
from pgrepl.ground.processes import end_with_parent
from pgrepl.replication.log import ServerLog
from pgrepl.server import connection_process
from pgrepl.server import settings as huge_pages
from pgrepl.server.settings import RUNNING, STOPPING, ServerSettings, ServerState, notify

_BACKLOG = 256  # connections that wait to be accepted
_SPARE = 2.0  # times as many processes as connections: those that are being refused
_GRACE = 5.0  # seconds after SIGQUIT until SIGKILL
_LAUNCH_AGAIN = 5.0  # seconds until a process of the server's own that has ended is started again
_AGAIN = 0.5  # seconds until processes that are to end are told so again
_KEY_BYTES = 32
_SPARE_AGAIN = 1.0  # seconds until there is another spare, after one has ended by itself
_MOST_TOLD = 1 << 18  # bytes of what a spare is told
_OVERLAP = 2.0  # seconds in which the processes of a killed server may still hold its locks


@dataclass
class Child:
    """A process of the server's."""

    pid: int
    place: int  # in the activity table
    key: bytes = b""  # what a cancel request must know; empty: it is no client's
    is_spare: bool = False
    only_refuses: bool = False  # a client that has come too late


@dataclass(frozen=True)
class Incoming:
    """A new connection, with what its backend needs of the postmaster."""

    connection: socket.socket
    key: bytes
    place: int
    keys: dict[int, bytes]  # of the backends, by PID
    clients: int  # other backends
    stopping: bool  # it is only told so


class Arrival:
    """The client of a backend."""

    def __init__(self, incoming: Incoming) -> None:
        self._incoming: Incoming | None = incoming

    def incoming(self) -> Incoming | None:
        """The connection, when it has come; None: none will come."""
        return self._incoming


class LaterArrival(Arrival):
    """The client of a spare, which the postmaster tells it of: once in the process of the connection, and once in that
    of the session, which is the first to hear."""

    def __init__(self, channel: socket.socket, key: bytes, place: int) -> None:
        self._incoming = None
        self._channel = channel
        self._key = key
        self._place = place

    def incoming(self) -> Incoming | None:
        if self._incoming is None:
            told, descriptors, _, _ = socket.recv_fds(self._channel, _MOST_TOLD, 1)
            if told:
                connection = socket.socket(fileno=descriptors[0])
                keys: dict[int, bytes] = marshal.loads(told)
                self._incoming = Incoming(connection, self._key, self._place, keys, len(keys), stopping=False)
        return self._incoming


@dataclass
class Spare:
    """A backend that waits for its client. `channel` is closed when it is to wait no longer."""

    pid: int
    key: bytes
    channel: socket.socket


@dataclass
class AuxiliaryProcess:
    """A process that the server keeps running beside the backends."""

    name: str
    run: Callable[[int], None]
    socket: socket.socket | None = None  # which only this process needs
    lasts: bool = False  # it ends after all others
    pid: int = 0
    not_before: float = 0.0


@dataclass
class Postmaster:
    settings: ServerSettings
    log: ServerLog
    backend: Callable[[Arrival], None]
    own: Sequence[AuxiliaryProcess] = ()
    state: ServerState = field(default_factory=ServerState)
    accepts: bool = True  # are PostgreSQL's clients answered?
    _children: dict[int, Child] = field(default_factory=dict)
    _free: list[int] = field(default_factory=list)
    _spare: Spare | None = None
    _spare_after: float = 0.0  # when there may be one again
    _stopping: str = ""  # smart, fast or immediate
    _listening: list[socket.socket] = field(default_factory=list)
    _files: list[Path] = field(default_factory=list)  # to remove at the end

    def run(self, ready: Callable[[], None]) -> int:
        """Serve until told to stop; returns the exit code. `ready` is called once connections are accepted."""
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._waker, False)
        places = int(self.settings.max_connections * _SPARE) + len(self.own) + 8
        activity.serve(ActivityTable(places))
        self._free = list(range(places))[::-1]
        try:
            self._take_signals()
            if self.accepts:
                self._listen()
            self.log.log("database system is ready to accept connections")
            self.state.set(RUNNING)
            notify("READY=1")
            ready()
            self._attend()
        finally:
            self._end()
        self.log.log("database system is shut down")
        return 0

    # --- sockets --------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        port = self.settings.port
        for folder in self.settings.socket_folders:
            path = folder / f".s.PGSQL.{port}"
            self._take_lock(Path(f"{path}.lock"), f"port {port}")
            with suppress(FileNotFoundError):
                path.unlink()
            listening = socket.socket(socket.AF_UNIX)
            try:
                listening.bind(str(path))
            except OSError as problem:
                raise _fatal(f'could not bind Unix address "{path}": {problem.strerror or problem}') from None
            self._files.append(path)
            path.chmod(self.settings.socket_permissions)
            self._open(listening, f'Unix socket "{path}"')
        for address in self.settings.addresses:
            self._listen_at(address, port)
        if not self._listening:
            raise _fatal("no socket created for listening")

    def _listen_at(self, address: str, port: int) -> None:
        host = None if address == "*" else address
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError as problem:
            raise _fatal(f'could not translate host name "{address}" to address: {problem.strerror}') from None
        for family, kind, protocol, _, where in addresses:
            listening = socket.socket(family, kind, protocol)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                listening.bind(where)
            except OSError as problem:
                hint = None
                if problem.errno == errno.EADDRINUSE:
                    hint = f"Is another server already running on port {port}? If not, wait a few seconds and retry."
                raise _fatal(f'could not bind address "{where[0]}": {problem.strerror}', hint) from None
            self._open(listening, f'address "{where[0]}", port {port}')

    def _open(self, listening: socket.socket, what: str) -> None:
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        self._listening.append(listening)
        self.log.log(f"listening on {what}")

    def _take_lock(self, path: Path, what: str) -> None:
        """Keep a lock on a file with this process's number, for as long as the process lives."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        until = time.monotonic() + _OVERLAP
        while not _locked(descriptor) and time.monotonic() < until:
            time.sleep(0.05)
        if not _locked(descriptor):
            pid = os.read(descriptor, 32).split(b"\n")[0].decode() or "?"
            raise _fatal(f'lock file "{path}" already exists', f"Is another server (PID {pid}) using {what}?") from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._files.append(path)

    def lock_catalog(self, path: Path) -> None:
        """One server for a catalog."""
        self._take_lock(path, "this catalog")

    # --- the loop -------------------------------------------------------------------------------------------------

    def _take_signals(self) -> None:
        signals = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD)
        for number in signals:
            signal.signal(number, self._note)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)

    def _attend(self) -> None:
        gc.collect()
        gc.freeze()
        huge_pages.use()
        while not self._stopping or not all(child.only_refuses for child in self._children.values()):
            self._start_own()
            self._make_spare()
            listening = self._listening if self._stopping in ("", "smart") else []
            seconds = min((own.not_before for own in self.own if not own.pid), default=0.0) - time.monotonic()
            wait = max(seconds, 0.01) if any(not own.pid for own in self.own) and not self._stopping else None
            if self._stopping:
                wait = _AGAIN
                self._tell_to_end()
            watched: list[Any] = [self._wake, *listening]
            ready = select.select(watched, [], [], wait)[0]
            with suppress(BlockingIOError):
                for byte in os.read(self._wake, 4096):
                    self._signalled(byte)
            for source in ready:
                if isinstance(source, socket.socket):
                    self._accept(source)

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        """The number of the signal comes through the wakeup descriptor."""

    def _signalled(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._collect()
        elif number == signal.SIGHUP:
            self.log.log("received SIGHUP, reloading configuration files")
            self._forget_spare()
            self._send(signal.SIGHUP, self._children)
        elif number == signal.SIGTERM and not self._stopping:
            self._stop("smart")
        elif number == signal.SIGINT and self._stopping in ("", "smart"):
            self._stop("fast")
        elif number == signal.SIGQUIT and self._stopping != "immediate":
            self._stop("immediate")
            self._send(signal.SIGQUIT, self._children)
            self._kill_after(_GRACE)

    def _stop(self, how: str) -> None:
        self._stopping = how
        self._forget_spare()
        self.state.set(STOPPING)
        notify("STOPPING=1")
        self.log.log(f"received {how} shutdown request")
        if how != "smart":
            for listening in self._listening:
                listening.close()

    def _tell_to_end(self) -> None:
        """Tell processes to end, again and again: a signal may come when one is not ready for it. What others need ends
        after them: the server's own processes after the clients, for which a smart shutdown waits; then walsenders,
        which have all that was committed to send; last what all work with (PostmasterStateMachine)."""
        own = {process.pid: process for process in self.own if process.pid}  # 0 would be the whole process group
        senders = self._walsenders()
        clients = self._children.keys() - own.keys() - senders
        workers = {pid for pid, process in own.items() if not process.lasts}
        if self._stopping == "fast":
            self._send(signal.SIGTERM, clients | workers)
        if any(not self._children[pid].only_refuses for pid in clients):
            return
        if workers:
            self._send(signal.SIGTERM, workers)
        elif senders:
            self._send(signal.SIGUSR2, senders)
        else:
            self._send(signal.SIGTERM, own)

    def _walsenders(self) -> set[int]:
        table = activity.table()
        assert table is not None
        return {
            entry["pid"] for entry in table.entries() if entry["backend_type"] == "walsender"
        } & self._children.keys()

    def _send(self, number: signal.Signals, pids: Iterable[int]) -> None:
        for pid in list(pids):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _kill_after(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._children and time.monotonic() < until:
            self._collect()
            time.sleep(0.02)
        self._send(signal.SIGKILL, self._children)

    def _collect(self) -> None:
        table = activity.table()
        assert table is not None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            child = self._children.pop(pid, None)
            if child is None:
                continue
            table.write(child.place, None)
            self._free.append(child.place)
            if self._spare is not None and self._spare.pid == pid:
                self._forget_spare()
                self._spare_after = time.monotonic() + _SPARE_AGAIN
            code = os.waitstatus_to_exitcode(status)
            expected = child.is_spare or self._stopping == "immediate"
            expected |= bool(self._stopping) and code == -signal.SIGTERM
            if code < 0 and not expected:
                self.log.log(f"server process (PID {pid}) was terminated by signal {-code}: {signal.strsignal(-code)}")
            for own in self.own:
                if own.pid == pid:
                    own.pid, own.not_before = 0, time.monotonic() + _LAUNCH_AGAIN

    # --- children -------------------------------------------------------------------------------------------------

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError, InterruptedError):
            return
        except OSError as problem:  # no descriptor left: a client that leaves makes room
            self.log.log(f"could not accept new connection: {problem.strerror}")
            time.sleep(0.1)
            return
        with connection:
            if not self._free and self._spare is None:
                return
            connection.setblocking(True)
            if connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            keys = {child.pid: child.key for child in self._children.values() if child.key}
            if self._hand_over(connection, keys) or not self._free:
                return
            place, key = self._free.pop(), secrets.token_bytes(_KEY_BYTES)
            arrival = Arrival(Incoming(connection, key, place, keys, len(keys), bool(self._stopping)))
            pid = self._fork(place, key, lambda: self.backend(arrival))
            if pid:
                self._children[pid].only_refuses = bool(self._stopping)

    def _make_spare(self) -> None:
        if self._spare or self._stopping or len(self._free) < 2 or time.monotonic() < self._spare_after:
            return
        if not self._listening or sys.platform != "linux":
            return
        channel, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        place, key = self._free.pop(), secrets.token_bytes(_KEY_BYTES)

        def work() -> None:
            channel.close()
            self.backend(LaterArrival(its, key, place))

        with its:
            pid = self._fork(place, b"", work)
        if pid:
            self._children[pid].is_spare = True
            self._spare = Spare(pid, key, channel)
        else:
            channel.close()
            self._spare_after = time.monotonic() + _SPARE_AGAIN

    def _hand_over(self, connection: socket.socket, keys: dict[int, bytes]) -> bool:
        """Give the connection to the spare, if there is one."""
        self._collect()  # it may have ended just now
        spare, self._spare = self._spare, None
        if spare is None:
            return False
        told = marshal.dumps(keys)
        with spare.channel:
            try:
                for _ in range(2):
                    socket.send_fds(spare.channel, [told], [connection.fileno()])
            except OSError:  # it has ended
                return False
        child = self._children[spare.pid]
        child.key, child.is_spare = spare.key, False
        return True

    def _forget_spare(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.channel.close()

    def _start_own(self) -> None:
        for own in self.own:
            if not own.pid and not self._stopping and time.monotonic() >= own.not_before and self._free:
                place = self._free.pop()
                own.pid = self._fork(place, b"", partial(_run, own, place), own)

    def _fork(self, place: int, key: bytes, work: Callable[[], None], its: AuxiliaryProcess | None = None) -> int:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as problem:
            self._free.append(place)
            self.log.log(f"could not fork new process for connection: {problem.strerror}")
            return 0
        if pid:
            self._children[pid] = Child(pid, place, key)
            return pid
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGQUIT, lambda *_: os._exit(2))
            end_with_parent(parent, signal.SIGQUIT)
            for inherited in [*self._listening, *(own.socket for own in self.own if own.socket and own is not its)]:
                inherited.close()
            self._forget_spare()
            os.close(self._wake)
            os.close(self._waker)
            work()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _end(self) -> None:
        for path in self._files:
            with suppress(OSError):
                if stat.S_ISSOCK(path.stat().st_mode) or path.suffix in (".lock", ".pid"):
                    path.unlink()


def _run(own: AuxiliaryProcess, place: int) -> None:
    connection_process.show(own.name)
    own.run(place)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _fatal(message: str, hint: str | None = None) -> PgError:
    return PgError("58000", message, hint=hint, severity="FATAL")
