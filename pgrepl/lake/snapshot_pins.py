"""Snapshot pins, by which a reader keeps VACUUM from removing the files of its snapshot.

A pin is a small file in the data folder with the snapshot's number; its name has the machine and the process. The pin
of a process that has ended does not count; one of another machine counts for a day. A promise is a pin for readers
that nobody knows, who were told of the snapshot's files: its name has the time until which it counts.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pgrepl.catalog.processes import is_alive, machine
from pgrepl.errors import PgError
from pgrepl.lake import storage

if TYPE_CHECKING:
    from pgrepl.catalog.data_folder import DataFolder
    from pgrepl.catalog.session import Session

FOLDER = ".readers/"
_LONGEST = timedelta(days=1)


_pins: WeakKeyDictionary[Session, dict[int, str]] = WeakKeyDictionary()


def pin(session: Session, snapshot: int) -> None:
    """Keep the files of the snapshot until the transaction ends."""
    held = _pins.setdefault(session, {})
    if snapshot in held:
        return
    folder = session.catalog.data_path + FOLDER
    path = f"{folder}{_machine()}-{os.getpid()}-{storage.uuid7()}"
    try:
        storage.make_folder(folder)
        storage.write(path, str(snapshot).encode())
    except PgError:  # the lake is read-only, so that its files cannot be removed either
        return
    held[snapshot] = path

    def let_go() -> None:
        held.pop(snapshot, None)
        storage.remove(path)

    session.transaction.callbacks.append(let_go)
    session.transaction.undo.append(let_go)


_PROMISE = "until-"
_STEPS = 8  # in the time of a promise, so that not every reader is promised something new
_promised: dict[DataFolder, int] = {}  # the end of the last promise


def promise(session: Session, snapshot: int, seconds: int) -> None:
    """Keep the files of the snapshot for so many seconds."""
    step = max(seconds // _STEPS, 1)
    until = (int(time.time()) // step + 1) * step + seconds
    folder = session.catalog.data_path + FOLDER
    if not seconds or _promised.get(session.catalog.folder, 0) >= until:
        return  # an older snapshot is promised for as long
    path = f"{folder}{_PROMISE}{until}-{_machine()}-{os.getpid()}"
    with suppress(PgError):  # see `pin`
        storage.make_folder(folder)
        storage.write(path, str(snapshot).encode())
        _promised[session.catalog.folder] = until


def pin_for_block(session: Session, snapshot: int) -> None:
    """Pin the snapshot in a transaction that keeps it: others may VACUUM between its statements."""
    if session.in_block and session.settings.get("transaction_isolation") in ("repeatable read", "serializable"):
        pin(session, snapshot)


def oldest_pin(session: Session) -> int | None:
    """The oldest pinned snapshot."""
    found = []
    for path, age in storage.listed(session.catalog.data_path + FOLDER):
        if _is_gone(path.rpartition("/")[2], age):
            storage.remove(path)
            continue
        with suppress(PgError, ValueError), storage.reading(path), storage.open_input(path) as file:
            found.append(int(file.read()))
    return min(found, default=None)


def _is_gone(name: str, age: timedelta) -> bool:
    if name.startswith(_PROMISE):
        return int(name.split("-")[1]) < time.time()
    where, _, rest = name.partition("-")
    pid = rest.partition("-")[0]
    if where != _machine() or not pid.isdigit():
        return age > _LONGEST
    return not is_alive(int(pid))


def _machine() -> str:
    return machine().replace("-", "_").replace("/", "_")
