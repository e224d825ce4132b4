"""Snapshot pins: whoever reads files at a snapshot for longer than a moment pins it, and VACUUM leaves it its files.

A pin is a small file in the lake's folder that holds the snapshot's number; its name says machine and process. A pin
whose process is gone counts no longer; one of another machine counts for a day.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pgrepl.catalog.processes import is_alive
from pgrepl.errors import PgError
from pgrepl.lake import storage

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

FOLDER = ".readers/"
_LONGEST = timedelta(days=1)


_pins: WeakKeyDictionary[Session, dict[int, str]] = WeakKeyDictionary()


def pin(session: Session, snapshot: int) -> None:
    """The files of the snapshot stay until the transaction ends."""
    held = _pins.setdefault(session, {})
    if snapshot in held:
        return
    folder = session.catalog.data_path + FOLDER
    path = f"{folder}{_machine()}-{os.getpid()}-{storage.uuid7()}"
    try:
        storage.make_folder(folder)
        with storage.writing(path), storage.open_output(path) as file:
            file.write(str(snapshot).encode())
    except PgError:  # a lake that cannot be written: nobody can remove its files either
        return
    held[snapshot] = path

    def let_go() -> None:
        held.pop(snapshot, None)
        storage.remove(path)

    session.transaction.callbacks.append(let_go)
    session.transaction.undo.append(let_go)


def pin_for_block(session: Session, snapshot: int) -> None:
    """The same where a transaction keeps its first snapshot: others may VACUUM between its statements."""
    if session.in_block and session.settings.get("transaction_isolation") in ("repeatable read", "serializable"):
        pin(session, snapshot)


def oldest_pin(session: Session) -> int | None:
    """The oldest snapshot that somebody reads."""
    found = []
    for path, age in storage.listed(session.catalog.data_path + FOLDER):
        if _is_gone(path.rpartition("/")[2], age):
            storage.remove(path)
            continue
        with suppress(PgError, ValueError), storage.reading(path), storage.open_input(path) as file:
            found.append(int(file.read()))
    return min(found, default=None)


def _is_gone(name: str, age: timedelta) -> bool:
    machine, _, rest = name.partition("-")
    pid = rest.partition("-")[0]
    if machine != _machine() or not pid.isdigit():
        return age > _LONGEST
    return not is_alive(int(pid))


def _machine() -> str:
    return socket.gethostname().replace("-", "_").replace("/", "_")
