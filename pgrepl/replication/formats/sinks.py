"""The sinks of written changes: standard output, a file of lines, a folder of Parquet files.

A sink is flushed before the slot moves on. After a crash in between the slot sends again what is already there: so a
file is cut where the slot stands (`resume`) before it is written on, and no change is in it twice.
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

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.replication.formats.written import LineWriter, check_phase, old_places
from pgrepl.replication.wire.messages import (
    TRUNCATE,
    UNCHANGED,
    Message,
    Row,
    SentRelation,
    TruncateMessage,
    WireTransaction,
)
from pgrepl.types.dates import UNIX_EPOCH_USECS
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    import pyarrow as pa

    from pgrepl.writing.copy.parquet_writer import ParquetColumn

_LOOK = 1 << 20
_ROWS = 50_000  # of a table, that are held in memory
_BYTES = 1 << 16  # of lines, that are written together


class Sink(Protocol):
    @property
    def name(self) -> str: ...

    def resume(self, start: int, *, is_new: bool) -> None:
        """Remove what belongs to commits at this LSN or behind it. A new slot has written none of it: an error."""
        ...

    def write(self, transaction: WireTransaction) -> int:
        """Write a transaction; returns about how many bytes it takes."""
        ...

    def flush(self) -> None:
        """All that was written is safe, when this returns."""
        ...

    def abandon(self) -> None:
        """Remove what was written since the last flush, if possible."""
        ...


def _of_another_slot(name: str, lsn: int, start: int) -> PgError:
    return PgError(
        "55000", f'"{name}" has changes at LSN {lsn_text(lsn)}, the new replication slot begins at {lsn_text(start)}',
        detail="What is there at this LSN and behind it was written with another slot.",
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

    def resume(self, start: int, *, is_new: bool) -> None:
        if not self._is_regular:
            return
        size = self._file.seek(0, os.SEEK_END)
        end = size
        for begin, line in _lines_backwards(self._file, size):
            at = self._writer.position(line) if line.endswith(b"\n") else None if is_new else start
            if at is None:
                raise PgError(
                    "55000", f'file "{self.name}" has other lines than these changes',
                    hint="Name a file that does not exist, or that earlier runs have written.",
                )  # fmt: skip
            if at < start:
                break
            if is_new:
                raise _of_another_slot(self.name, at, start)
            end = begin
        self._file.truncate(end)
        self._end = self._file.seek(end)

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

_FILE = re.compile(r"([0-9A-F]{16})-(\d+)\.parquet(\.part)?\Z")
OP, XID, LSN, AT, OLD = "_op", "_xid", "_lsn", "_at", "_old"


class ParquetSink:
    """A folder with a folder for each table. A file has the changes of one table from one flush to the next; its name
    begins with the LSN of its first commit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = str(folder)
        self._open: dict[SentRelation, _TableFile] = {}
        self._closed: list[_TableFile] = []

    def resume(self, start: int, *, is_new: bool) -> None:
        if not self._folder.exists():
            return
        for path in sorted(self._folder.glob("*/*")):
            found = _FILE.match(path.name)
            if found is None:
                continue
            lsn = int(found[1], 16)
            if lsn >= start and is_new:
                raise _of_another_slot(self.name, lsn, start)
            if found[3] or lsn >= start:
                path.unlink()

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
            for other in [each for each in self._open if each.relid == relation.relid]:
                self._closed.append(self._open.pop(other))
            folder = self._folder / quote(f"{relation.schema}.{relation.name}", safe="")
            folder.mkdir(parents=True, exist_ok=True)
            number = sum(each.path.parent == folder for each in self._closed)
            path = folder / f"{transaction.finish_lsn:016X}-{number}.parquet"
            self._open[relation] = _TableFile(relation, path)
        return self._open[relation]

    def flush(self) -> None:
        done = [*self._closed, *self._open.values()]
        for file in done:
            file.close()
        self._closed, self._open = [], {}
        for file in done:
            os.replace(file.part, file.path)
        for folder in {file.path.parent for file in done}:
            _sync_folder(folder)

    def abandon(self) -> None:
        for file in [*self._closed, *self._open.values()]:
            file.remove()
        self._closed, self._open = [], {}


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
    def __init__(self, relation: SentRelation, path: Path) -> None:
        from pgrepl.writing.copy.parquet_writer import parquet_columns

        self._relation = relation
        self.path, self.part = path, path.with_name(path.name + ".part")
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
        import pyarrow as pa
        import pyarrow.parquet as pq

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
        self._writer.write_table(table)

    def _old(self, rows: list[_Waiting]) -> pa.Array | None:
        """The old keys or rows; None: the table has no columns."""
        import pyarrow as pa

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
    import pyarrow as pa

    kind = column.form.arrow()
    array = column.form.to_array(values)
    if array.type == kind:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array.cast(kind.storage_type))
    return array.cast(kind)
