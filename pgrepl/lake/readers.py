"""Who is reading files at a snapshot for longer than a moment: VACUUM leaves such a snapshot its files.

A reader leaves a mark in the lake's folder, named by machine, process and chance, that holds the snapshot's number. A
mark whose process is gone counts no longer; one of another machine counts for a day.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.lake import storage

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

FOLDER = ".readers/"
_LONGEST = timedelta(days=1)


@contextmanager
def reading_files(session: Session, snapshot: int | None = None) -> Iterator[None]:
    """The files of the snapshot (None: the newest) stay while this lasts."""
    at = session.transaction.numbering.last_snapshot() if snapshot is None else snapshot
    folder = session.catalog.data_path + FOLDER
    path = f"{folder}{_machine()}-{os.getpid()}-{storage.uuid7()}"
    try:
        storage.make_folder(folder)
        with storage.writing(path), storage.open_output(path) as mark:
            mark.write(str(at).encode())
    except PgError:  # a lake that cannot be written: nobody can remove its files either
        yield
        return
    try:
        yield
    finally:
        storage.remove(path)


def oldest_reader(session: Session) -> int | None:
    """The oldest snapshot that somebody reads."""
    found = []
    for path, age in storage.listed(session.catalog.data_path + FOLDER):
        if _is_gone(path.rpartition("/")[2], age):
            storage.remove(path)
            continue
        with suppress(PgError, ValueError), storage.reading(path), storage.open_input(path) as mark:
            found.append(int(mark.read()))
    return min(found, default=None)


def _is_gone(name: str, age: timedelta) -> bool:
    machine, _, rest = name.partition("-")
    pid = rest.partition("-")[0]
    if machine != _machine() or not pid.isdigit():
        return age > _LONGEST
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _machine() -> str:
    return socket.gethostname().replace("-", "_").replace("/", "_")
