"""Threads that work for another one, or one step ahead, or play the parts of a work by kernels, as Arrow computes and
reads without Python's lock. And waiting until a file changes, by inotify on Linux.

The folder is watched, so that a file may come, go, or be replaced by another of its name.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from pgrepl.ground.interrupts import check_for_interrupts, hold_interrupts

Done = TypeVar("Done")


class ThreadPool(ThreadPoolExecutor):
    """An interrupt amid `submit` could leave a lock of the pool taken, for which its threads would wait for ever."""

    def submit(self, work: Callable[..., Done], /, *given: Any, **named: Any) -> Future[Done]:
        with hold_interrupts():
            future = super().submit(work, *given, **named)
        check_for_interrupts()
        return future


Item = TypeVar("Item")


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The items, each computed by another thread while the caller works with the one before it."""
    with ThreadPool(1) as worker:
        coming = worker.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = worker.submit(next, items, None)
            yield item


# --- kernels ----------------------------------------------------------------------------------------------------------


_PAUSE = 0.1  # seconds between two checks for interrupts


class _Stopped(Exception):
    """The work has been cancelled."""


class _Watch:
    """The `PartWatch` of a kernel in a thread."""

    def __init__(self, count_rows: Callable[[int, int], None] | None) -> None:
        self.over = Event()
        self._count_rows = count_rows

    def check(self) -> None:
        if self.over.is_set():
            raise _Stopped

    def add(self, rows: int, size: int) -> None:
        if self._count_rows is not None:
            self._count_rows(rows, size)


def parallelism() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_parts(
    parts: Sequence[Any],
    kernel: Callable[..., Any],
    check: Callable[[], None] = lambda: None,
    count_rows: Callable[[int, int], None] | None = None,
) -> list[Any]:
    """The answers, in the order of the parts; the first error ends them all. `check` raises what ends the work."""
    watch = _Watch(count_rows)
    with ThreadPool(parallelism(), "pgrepl-kernel") as threads:
        tasks = [threads.submit(kernel, part, watch) for part in parts]
        try:
            waiting: set[Any] = set(tasks)
            while waiting:
                done, waiting = wait(waiting, _PAUSE, FIRST_EXCEPTION)
                for task in done:
                    task.result()
                check_for_interrupts()
                check()
        except BaseException:
            watch.over.set()
            for task in tasks:
                task.cancel()
            raise
    return [task.result() for task in tasks]


# --- file watch -------------------------------------------------------------------------------------------------------


_CHANGES = 0x2 | 0x80 | 0x100  # IN_MODIFY, IN_MOVED_TO, IN_CREATE
_NONBLOCKING = 0o4000 | 0o2000000  # IN_NONBLOCK, IN_CLOEXEC
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
_LOOK = 0.02  # seconds between two looks without inotify


class FileWatch:
    """Watches some files of a folder, as they are from now on."""

    def __init__(self, folder: Path, names: Collection[str]) -> None:
        self._folder = folder
        self._names = frozenset(names)
        self._near, self._far = socket.socketpair()
        for end in (self._near, self._far):
            end.setblocking(False)
        self._events = _inotify(folder)
        self._seen = self._looked()

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; whether a file has changed since the watch or the last wait began."""
        until = time.monotonic() + seconds
        while True:
            left = max(0.0, until - time.monotonic())
            poll = select.poll()
            poll.register(self._far, select.POLLIN)
            if self._events is not None:
                poll.register(self._events, select.POLLIN)
            come = dict(poll.poll((left if self._events is not None else min(left, _LOOK)) * 1000))
            if self._has_changed():
                return True
            if self._far.fileno() in come:
                with suppress(BlockingIOError):
                    self._far.recv(4096)
                return False
            if not left:
                return False

    def wake(self) -> None:
        """End a wait, or the next one; called from another thread."""
        with suppress(OSError):
            self._near.send(b"!")

    def close(self) -> None:
        self._near.close()
        self._far.close()
        if self._events is not None:
            os.close(self._events)
            self._events = None

    def _has_changed(self) -> bool:
        if self._events is None:
            before, self._seen = self._seen, self._looked()
            return self._seen != before
        changed = False
        with suppress(BlockingIOError):
            while data := os.read(self._events, 1 << 16):
                changed = changed or self._concern(data)
        return changed

    def _concern(self, data: bytes) -> bool:
        at = 0
        while at < len(data):
            *_, length = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            if os.fsdecode(name) in self._names:
                return True
            at += _EVENT.size + length
        return False

    def _looked(self) -> list[tuple[int, int, int]]:
        looked = []
        for name in sorted(self._names):
            with suppress(OSError):
                now = os.stat(self._folder / name)
                looked.append((now.st_ino, now.st_size, now.st_mtime_ns))
        return looked


def _inotify(folder: Path) -> int | None:
    """A descriptor from which changes in the folder are read; None: the system has none."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        events = int(library.inotify_init1(_NONBLOCKING))
    except (OSError, AttributeError, TypeError):
        return None
    if events < 0:
        return None
    if library.inotify_add_watch(events, os.fsencode(folder), _CHANGES) < 0:
        os.close(events)
        return None
    return events
