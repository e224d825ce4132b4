"""The files that a subscription has read: rows of the catalog, written with its origin; and the batch of `pgrepl apply
--from`.

The last ones are remembered one by one, older ones by one checksum of names and sizes, so that a file that has
changed, disappeared or come too late is noticed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, one, rows, update
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.replication.conninfo import FILES, parse_conninfo
from pgrepl.replication.publisher.files.listing import STANDARD_INPUT, ListedFile, Order

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

RECORD_BITS = 32  # of an LSN: the number of a record in its file
MOST = 1000  # files that are remembered one by one


@frozen
class ReadFile:
    """The part of a file that was read: `checked` bytes, with this checksum. `at_end`: nothing is left to apply of what
    it was then."""

    number: int
    name: str
    size: int
    modified: int
    checked: int
    checksum: int
    at_end: bool = False

    @property
    def is_accepted(self) -> bool:
        """Whether the file, and all before it, are taken as they are (see `accept`)."""
        return self.size < 0

    def is_same(self, file: ListedFile) -> bool:
        return (self.size, self.modified) == (file.size, file.modified)


@frozen
class Older:
    """All files up to number `number`, the last of which was `name`."""

    number: int
    name: str
    checksum: int  # of their names and sizes


@frozen
class Memory:
    files: tuple[ReadFile, ...]  # in their order, without gaps
    older: Older | None

    @property
    def last(self) -> ReadFile | None:
        return self.files[-1] if self.files else None


@frozen
class NumberedFile:
    number: int
    file: ListedFile
    known: ReadFile | None  # None: nothing of it was read

    def lsn(self, record: int) -> int:
        return self.number << RECORD_BITS | record

    @property
    def end(self) -> int:
        """The LSN behind all records of the file."""
        return (self.number + 1) << RECORD_BITS


def file_of(lsn: int) -> int:
    return lsn >> RECORD_BITS


def first_lsn(number: int = 1) -> int:
    return number << RECORD_BITS


def remembered(session: Session, subid: int) -> Memory:
    listed = sorted(rows(session, tables.pgrepl_change_file, subid=subid), key=lambda row: row.number)
    older = [Older(row.number, row.name, row.checksum) for row in listed if row.checked is None]
    files = [
        ReadFile(row.number, row.name, row.size, row.modified, row.checked, row.checksum, bool(row.at_end))
        for row in listed
        if row.checked is not None
    ]
    return Memory(tuple(files), older[0] if older else None)


def remember(session: Session, subid: int, files: Iterable[ReadFile]) -> None:
    """Store what was read of these files; in the transaction that moves the origin."""
    known = {row.number for row in rows(session, tables.pgrepl_change_file, subid=subid)}
    for file in files:
        values = {
            "name": file.name, "size": file.size, "modified": file.modified, "checked": file.checked,
            "checksum": file.checksum, "at_end": file.at_end,
        }  # fmt: skip
        if file.number in known:
            update(session, tables.pgrepl_change_file, {"subid": subid, "number": file.number}, **values)
        else:
            insert(session, tables.pgrepl_change_file, subid=subid, number=file.number, **values)
            known.add(file.number)
    if len(known) > 2 * MOST:
        _fold(session, subid)


def _fold(session: Session, subid: int) -> None:
    """Remember all but the last files together."""
    memory = remembered(session, subid)
    checksum = 0 if memory.older is None else memory.older.checksum
    folded = memory.files[:-MOST]
    for file in folded:
        checksum = _chained(file.name, file.size, checksum)
        delete(session, tables.pgrepl_change_file, subid=subid, number=file.number)
    if memory.older is not None:
        delete(session, tables.pgrepl_change_file, subid=subid, number=memory.older.number)
    last = folded[-1]
    insert(
        session, tables.pgrepl_change_file, subid=subid, number=last.number, name=last.name, size=0, modified=0,
        checked=None, checksum=checksum, at_end=True,
    )  # fmt: skip


def _chained(name: str, size: int, checksum: int) -> int:
    return zlib.crc32(f"{name}\0{size}\n".encode("utf-8", "surrogateescape"), checksum)


def accept(session: Session, subid: int) -> None:
    """Take the files that were read as they are now: only the name and the number of the last one stay known."""
    last = remembered(session, subid).last
    if last is not None:
        delete(session, tables.pgrepl_change_file, subid=subid)
        insert(
            session, tables.pgrepl_change_file, subid=subid, number=last.number, name=last.name, size=-1, modified=-1,
            checked=0, checksum=0, at_end=last.at_end,
        )  # fmt: skip


def count(session: Session, subid: int, more: int, *, reject_size: int) -> None:
    """Add to the counter of rejected records."""
    known = one(session, tables.pgrepl_change_files, subid=subid)
    values = {"rejected": more, "reject_size": reject_size}
    if known is None:
        insert(session, tables.pgrepl_change_files, subid=subid, **values)
    else:
        values["rejected"] += int(known.rejected)
        update(session, tables.pgrepl_change_files, {"subid": subid}, **values)


def rejected(session: Session, subid: int) -> int:
    """The number of rejected records."""
    known = one(session, tables.pgrepl_change_files, subid=subid)
    return 0 if known is None else int(known.rejected)


def reject_size(session: Session, subid: int) -> int:
    known = one(session, tables.pgrepl_change_files, subid=subid)
    return 0 if known is None else int(known.reject_size)


# --- what is there, and what was --------------------------------------------------------------------------------------


def numbered(memory: Memory, files: Sequence[ListedFile], order: Order, *, may_be_removed: bool) -> list[NumberedFile]:
    """The files that were read last, as far as they are there, and those that follow. Raises for a file that has
    changed its size or disappeared, and for one that has come too late."""
    last = memory.last
    if last is None:
        return [NumberedFile(number, file, None) for number, file in enumerate(files, 1)]
    known = {file.name: file for file in memory.files}
    bound = order(last.name)
    before = [file for file in files if order(file.name) <= bound]
    if memory.files[0].is_accepted:
        before = [file for file in before if order(file.name) >= bound]
    elif memory.older is not None:
        before = _after_older(memory.older, before, order, may_be_removed=may_be_removed)
    read_files = []
    for file in before:
        read = known.pop(file.name, None)
        if read is None:
            raise _too_late(file.name, last.name)
        read_files.append(NumberedFile(read.number, file, read))
    if known and not may_be_removed:
        raise _gone(next(iter(known)))
    for read_file in read_files:
        if read_file.known is not None and read_file.known is not last and read_file.known.size != read_file.file.size:
            raise changed(read_file.file.name)
    rest = [file for file in files if order(file.name) > bound]
    return read_files + [NumberedFile(number, file, None) for number, file in enumerate(rest, last.number + 1)]


def _after_older(older: Older, before: Sequence[ListedFile], order: Order, *, may_be_removed: bool) -> list[ListedFile]:
    """The files behind the older ones, which must be the same as they were."""
    bound = order(older.name)
    there = [file for file in before if order(file.name) <= bound]
    if not may_be_removed:
        checksum = 0
        for file in there:
            checksum = _chained(file.name, file.size, checksum)
        if checksum != older.checksum:
            raise PgError(
                "55000",
                f'files of changes up to "{older.name}" are not what they were when they were read',
                detail=f"There were {older.number} files, and there are {len(there)}; or their names or sizes differ.",
                hint=_RECREATE,
            )
    return list(before[len(there) :])


_RECREATE = (
    "Restore the files. Or drop the subscription, empty its tables and create it again, or accept the difference with "
    "ALTER SUBSCRIPTION ... SET (slot_name = ...), after which the files are remembered as they are."
)


def _too_late(name: str, last: str) -> PgError:
    return PgError(
        "55000",
        f'file "{name}" has come too late',
        detail=f'It sorts before "{last}", which has been read already.',
        hint="Files are read in the order of their names. Give it a name that sorts behind them, if its changes may be "
        "applied now.",
    )


def _gone(name: str) -> PgError:
    return PgError(
        "55000",
        f'file "{name}" has disappeared after it was read',
        hint="Restore it; or set removed=allow in the connection string, if files are taken away once they have been "
        "read.",
    )


def changed(name: str) -> PgError:
    return PgError("55000", f'file "{name}" has changed after it was read', hint=_RECREATE)


# --- given ------------------------------------------------------------------------------------------------------------


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
            status = os.stat(path)
            if not os.path.isfile(path):
                raise PgError("42809", f'could not open file "{path}": it is not a regular file')
        except OSError as problem:
            raise PgError("58P01", f'could not open file "{path}": {problem.strerror}') from None
        self._file = ListedFile(name, os.path.abspath(path), status.st_size, status.st_mtime_ns, name)

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
