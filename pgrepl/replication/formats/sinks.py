"""The sinks of written changes: standard output, a file of lines, a folder of Parquet files.

A sink is flushed before the slot moves on. After a crash the slot sends again what is already there: a file is cut
where the slot stands (`resume`), but only of what the slot has written itself (written.py).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol
from urllib.parse import quote

from pgrepl.catalog.store import files
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa, pq
from pgrepl.replication.formats.written import (
    LineWriter,
    Mark,
    SinkOwner,
    check_phase,
    locked,
    old_places,
    read_mark,
    write_mark,
)
from pgrepl.replication.wire.messages import (
    TRUNCATE,
    UNCHANGED,
    Message,
    Row,
    SentRelation,
    TruncateMessage,
    WireTransaction,
)
from pgrepl.types.plain import lsn_text
from pgrepl.types.times.dates import UNIX_EPOCH_USECS
from pgrepl.writing.copy.parquet_files import parquet_columns

if TYPE_CHECKING:
    from pgrepl.writing.copy.parquet_files import ParquetColumn

_LOOK = 1 << 20
_ROWS = 50_000  # of a table, that are held in memory
_BYTES = 1 << 16  # of lines, that are written together


class Sink(Protocol):
    @property
    def name(self) -> str: ...

    def resume(self, start: int, owner: SinkOwner, *, is_new: bool) -> None:
        """Remove what this slot has written of commits at this LSN or behind it. It is an error if another one has
        written some there; a new slot has written nothing yet."""

    def write(self, transaction: WireTransaction) -> int:
        """Write a transaction; returns about how many bytes it takes."""

    def flush(self) -> None:
        """All that was written is safe, when this returns."""

    def abandon(self) -> None:
        """Remove what was written since the last flush, if possible."""

    def close(self) -> None:
        """Let others write there."""


def _of_another_slot(name: str, lsn: int, start: int, wrote: SinkOwner | None, *, is_new: bool) -> PgError:
    slot = "the new replication slot begins" if is_new else "the replication slot stands"
    told = "with another replication slot, or with one of this name in another catalog"
    return PgError(
        "55000", f'"{name}" has changes at LSN {lsn_text(lsn)}, {slot} at {lsn_text(start)}',
        detail=f"What is there at this LSN and behind it was written {told if wrote is None else wrote.told()}.",
        hint="Name that slot (--slot), or another output.",
    )  # fmt: skip


# --- lines ------------------------------------------------------------------------------------------------------------


class LineSink:
    """Lines, to standard output or appended to a file."""

    def __init__(self, writer: LineWriter, file: BinaryIO, name: str) -> None:
        self._writer, self._file, self.name = writer, file, name
        self._is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.seekable() and file.readable()
        self._end = 0  # of what was flushed
        self._waiting: list[bytes] = []  # lines; a buffer of Python's would be written when the file is closed
        self._size = 0  # of these
        self._unmarked: SinkOwner | None = None  # who marks the file before it is written on

    def resume(self, start: int, owner: SinkOwner, *, is_new: bool) -> None:
        if not self._is_regular:
            return
        locked(self._file.fileno(), self.name)
        size = self._file.seek(0, os.SEEK_END)
        mark = read_mark(self.name, self._file.fileno())
        own = mark.begin if mark is not None and mark.owner == owner and mark.begin <= size else None
        end = size
        for begin, line in _lines_backwards(self._file, size):
            is_own = own is not None and begin >= own and not is_new
            whole = line.endswith(b"\n")
            at = self._writer.position(line) if whole else start if is_own else None
            if at is None:
                raise PgError(
                    "55000", f'file "{self.name}" has other lines than these changes',
                    hint="Name a file that does not exist, or that earlier runs have written.",
                )  # fmt: skip
            if at < start:
                break
            if not is_own:
                wrote = mark.owner if mark is not None and begin >= mark.begin else None
                raise _of_another_slot(self.name, at, start, wrote, is_new=is_new)
            end = begin
        self._file.truncate(end)
        self._end = self._file.seek(end)
        self._unmarked = owner if own is None or own > end else None

    def write(self, transaction: WireTransaction) -> int:
        size = 0
        for line in self._writer.lines(transaction):
            self._waiting.append(line)
            self._size += len(line)
            size += len(line)
            if self._size >= _BYTES:
                self._write_out()
        return size

    def _write_out(self) -> None:
        if self._unmarked is not None and self._waiting:
            write_mark(self.name, Mark(self._unmarked, os.fstat(self._file.fileno()).st_ino, self._end))
            self._unmarked = None
        rest = memoryview(b"".join(self._waiting))
        self._waiting, self._size = [], 0
        while rest:
            rest = rest[self._file.write(rest) :]

    def flush(self) -> None:
        self._write_out()
        self._file.flush()
        if self._is_regular:
            os.fsync(self._file.fileno())
            self._end = self._file.tell()

    def abandon(self) -> None:
        self._waiting, self._size = [], 0
        if self._is_regular:
            self._file.truncate(self._end)
            self._file.seek(self._end)

    def close(self) -> None:
        """The lock ends when the file is closed."""


def _lines_backwards(file: BinaryIO, size: int) -> Iterator[tuple[int, bytes]]:
    """The lines from the last to the first, with their offsets."""
    tail = b""
    while size > 0:
        start = max(0, size - _LOOK)
        file.seek(start)
        data = file.read(size - start) + tail
        first = 0 if start == 0 else data.find(b"\n") + 1
        if first or start == 0:
            end = len(data)
            while end > first:
                begin = data.rfind(b"\n", first, end - 1) + 1 or first
                yield start + begin, data[begin:end]
                end = begin
            data = data[:first]
        tail, size = data, start


# --- Parquet ----------------------------------------------------------------------------------------------------------

_PART = ".part"
_FILE = re.compile(r"[0-9A-F]{16}-\d+\.parquet(\.part)?\Z")
_OWNER = b"pgrepl.written_by"
OP, XID, LSN, AT, OLD = "_op", "_xid", "_lsn", "_at", "_old"


class ParquetSink:
    """A folder with a folder for each table. A file has the changes of one table from one flush to the next; its name
    begins with the LSN of its first commit; its metadata have the slot."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = str(folder)
        self._open: dict[SentRelation, _TableFile] = {}
        self._closed: list[_TableFile] = []
        self._owner: SinkOwner | None = None
        self._lock: int | None = None

    def resume(self, start: int, owner: SinkOwner, *, is_new: bool) -> None:
        self._owner = owner
        self._lock = _opened_folder(self._folder)
        locked(self._lock, self.name)
        parts, behind = [], []
        for folder in sorted(self._folder.glob("*/")):
            paths = [path for path in sorted(folder.iterdir()) if _FILE.match(path.name)]
            whole = [path for path in paths if not path.name.endswith(_PART)]
            parts += [path for path in paths if path.name.endswith(_PART)]
            behind += [path for path in whole if _first_lsn(path) >= start]
            self._check_before([path for path in whole if _first_lsn(path) < start][-1:], start, is_new=is_new)
        for path in behind:
            wrote = _owner_of(path)
            if is_new or wrote != owner:
                raise _of_another_slot(self.name, _first_lsn(path), start, wrote, is_new=is_new)
        for path in parts + behind:  # nobody has confirmed a part of a file
            path.unlink()

    def _check_before(self, last: list[Path], start: int, *, is_new: bool) -> None:
        """The last file that begins before the start ends there, too."""
        for path in last:
            if (lsn := _last_lsn(path)) >= start:
                raise _of_another_slot(self.name, lsn, start, _owner_of(path), is_new=is_new)

    def write(self, transaction: WireTransaction) -> int:
        check_phase(transaction)
        count = 0
        for message in transaction.messages:
            count += 1
            if isinstance(message, TruncateMessage):
                for relation in message.relations:
                    self._file(relation, transaction).add(TRUNCATE, None, None, transaction)
            else:
                new, old = message.new, None if message.old is None else _known(message)
                self._file(message.relation, transaction).add(message.operation, new, old, transaction)
        return 100 * count

    def _file(self, relation: SentRelation, transaction: WireTransaction) -> _TableFile:
        if relation not in self._open:
            for other in [opened for opened in self._open if opened.relid == relation.relid]:
                self._closed.append(self._open.pop(other))
            folder = self._folder / quote(f"{relation.schema}.{relation.name}", safe="")
            folder.mkdir(parents=True, exist_ok=True)
            number = sum(closed.path.parent == folder for closed in self._closed)
            path = folder / f"{transaction.finish_lsn:016X}-{number}.parquet"
            self._open[relation] = _TableFile(relation, path, self._owner)
        return self._open[relation]

    def flush(self) -> None:
        done = [*self._closed, *self._open.values()]
        for file in done:
            file.close()
        self._closed, self._open = [], {}
        for file in done:
            os.replace(file.part, file.path)
        for folder in {file.path.parent for file in done}:
            files.sync_folder(folder)

    def abandon(self) -> None:
        for file in [*self._closed, *self._open.values()]:
            file.remove()
        self._closed, self._open = [], {}

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _opened_folder(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder, os.O_RDONLY)
    except OSError as problem:
        raise PgError("58P01", f'could not open folder "{folder}": {problem.strerror}') from None


def _first_lsn(path: Path) -> int:
    return int(path.name[:16], 16)


def _last_lsn(path: Path) -> int:
    """The last LSN in a file, by its footer."""
    footer = _footer(path)
    place = footer.schema.names.index(LSN)
    groups = [footer.row_group(number).column(place).statistics for number in range(footer.num_row_groups)]
    return max([int(group.max) for group in groups if group is not None and group.has_min_max], default=0)


def _owner_of(path: Path) -> SinkOwner | None:
    return SinkOwner.read((_footer(path).metadata or {}).get(_OWNER, b""))


def _footer(path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as problem:
        raise PgError("58030", f'could not read file "{path}": {problem}') from None


def _known(message: Message) -> Row:
    places = set(old_places(message))
    return tuple([value if at in places else None for at, value in enumerate(message.old or ())])


@frozen
class _Waiting:
    """A change that is not in the file yet."""

    op: str
    new: Row | None
    old: Row | None
    xid: int
    lsn: int
    at: int


class _TableFile:
    def __init__(self, relation: SentRelation, path: Path, owner: SinkOwner | None) -> None:
        self._relation = relation
        self.path, self.part = path, path.with_name(path.name + _PART)
        self._metadata = {} if owner is None else {_OWNER: owner.text}
        names = [column.name for column in relation.columns]
        kinds = [(column.type, column.typmod) for column in relation.columns]
        self._columns = parquet_columns(names, kinds) if names else []
        taken = next((name for name in names if name in (OP, XID, LSN, AT, OLD)), None)
        if taken is not None:
            raise PgError(
                "0A000",
                f'table "{relation.qualified_name}" has a column "{taken}", as Parquet files of changes have',
                hint="Leave it out by the publication's column list, or write another format.",
            )  # fmt: skip
        whole = relation.replident == "f"
        keys = [at for at, column in enumerate(relation.columns) if whole or column.is_key]
        self._old_places = keys or list(range(len(relation.columns)))  # without a key there are no old rows
        self._waiting: list[_Waiting] = []
        self._file = self.part.open("wb")
        self._writer: Any = None

    def add(self, op: str, new: Row | None, old: Row | None, transaction: WireTransaction) -> None:
        if new is not None and any(value is UNCHANGED for value in new):
            raise PgError(
                "0A000", f'an unchanged TOAST value of table "{self._relation.qualified_name}" cannot be written to '
                f"Parquet, at LSN {lsn_text(transaction.finish_lsn)}",
            )  # fmt: skip
        at = transaction.committed_at - UNIX_EPOCH_USECS
        self._waiting.append(_Waiting(op, new, old, transaction.xid, transaction.finish_lsn, at))
        if len(self._waiting) >= _ROWS:
            self._write()

    def _write(self) -> None:
        rows, self._waiting = self._waiting, []
        arrays = {
            OP: pa.array([row.op for row in rows], pa.string()),
            XID: pa.array([row.xid for row in rows], pa.int64()),
            LSN: pa.array([row.lsn for row in rows], pa.int64()),
            AT: pa.array([row.at for row in rows], pa.timestamp("us", "UTC")),
            OLD: self._old(rows),
        }
        for at, column in enumerate(self._columns):
            arrays[column.name] = _array(column, [None if row.new is None else row.new[at] for row in rows])
        table = pa.table({name: array for name, array in arrays.items() if array is not None})
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, table.schema, compression="snappy", store_schema=False)
            self._writer.add_key_value_metadata(self._metadata)
        self._writer.write_table(table)

    def _old(self, rows: list[_Waiting]) -> pa.Array | None:
        """The old keys or rows; None: the table has no columns."""
        if not self._old_places:
            return None
        parts = [
            _array(self._columns[at], [None if row.old is None else row.old[at] for row in rows])
            for at in self._old_places
        ]
        fields = [pa.field(self._columns[at].name, part.type) for at, part in zip(self._old_places, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=pa.array([row.old is None for row in rows]))

    def close(self) -> None:
        if self._waiting or self._writer is None:
            self._write()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def remove(self) -> None:
        self._writer = None
        with suppress(OSError):  # it writes what is left
            self._file.close()
        self.part.unlink(missing_ok=True)


def _array(column: ParquetColumn, values: list[Any]) -> pa.Array:
    """Values as the file has them: in the lake form of their type."""
    kind = column.form.arrow()
    array = column.form.to_array(values)
    if array.type == kind:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array.cast(kind.storage_type))
    return array.cast(kind)
