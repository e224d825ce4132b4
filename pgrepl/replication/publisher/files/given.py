"""The batch of `pgrepl apply --from`: a file, or standard input, as the next file of a subscription with files=-."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from pgrepl.catalog import tables
from pgrepl.catalog.store import one
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.replication.libpq.conninfo import FILES, parse_conninfo
from pgrepl.replication.publisher.files.listing import ListedFile
from pgrepl.replication.publisher.files.memory import Memory, NumberedFile
from pgrepl.replication.publisher.files.options import STANDARD_INPUT

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_COPIED = 1 << 20


def check_takes_batches(session: Session, subids: Sequence[int]) -> None:
    """Raise for a subscription whose changes come from elsewhere."""
    with reading(session):
        for row in [one(session, tables.pg_subscription, oid=subid) for subid in subids]:
            if row is not None and parse_conninfo(row.subconninfo).get(FILES) != STANDARD_INPUT:
                raise PgError(
                    "55000",
                    f'subscription "{row.subname}" takes no batches of --from',
                    hint="Only a subscription with files=- in its connection string does.",
                )


class GivenBatch:
    """The file, and its number as soon as that is known: a worker that connects again reads the same batch."""

    def __init__(self, path: str, standard_input: BinaryIO | None = None) -> None:
        self._temporary: str | None = None
        self._number: int | None = None
        name = path
        if name == STANDARD_INPUT:
            name = "standard input"
            path = self._temporary = _copied(standard_input or sys.stdin.buffer)
        try:
            found = os.stat(path)
            if not os.path.isfile(path):
                raise PgError("42809", f'could not open file "{path}": it is not a regular file')
        except OSError as problem:
            raise PgError("58P01", f'could not open file "{path}": {problem.strerror}') from None
        self._file = ListedFile(name, os.path.abspath(path), found.st_size, found.st_mtime_ns, name)

    def numbered(self, memory: Memory, position: int) -> NumberedFile:
        """The batch as a file: the next one, or the last one if that was interrupted."""
        last = memory.last
        if self._number is None:
            interrupted = last is not None and position < NumberedFile(last.number, self._file, None).end
            self._number = 1 if last is None else last.number + (not interrupted)
        known = last if last is not None and last.number == self._number else None
        return NumberedFile(self._number, self._file, known)

    def close(self) -> None:
        if self._temporary is not None:
            with suppress(OSError):
                os.unlink(self._temporary)


def _copied(source: BinaryIO) -> str:
    handle, path = tempfile.mkstemp(prefix="pgrepl-batch-")
    try:
        with open(handle, "wb") as copy:
            shutil.copyfileobj(source, copy, _COPIED)
    except OSError as problem:
        os.unlink(path)
        raise PgError("53100", f'could not write file "{path}": {problem.strerror}') from None
    except BaseException:
        os.unlink(path)
        raise
    return path
