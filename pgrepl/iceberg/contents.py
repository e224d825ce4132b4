"""What a table has at the last snapshots: data files and delete files in ranges, and inlined rows.

A manifest has the files of one range of ids. Ranges end at ids that a hash chooses, so that a new file changes the
last one only.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pgrepl.ground.errors import unsupported
from pgrepl.iceberg import tables
from pgrepl.lake.read.data_file import PARQUET, PUFFIN
from pgrepl.lake.read.inlined import deletes_table, exists
from pgrepl.lake.table import inlined_tables

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.iceberg.schema import Field
    from pgrepl.lake.table import LakeTable

_IN_RANGE = 160  # files, on average
_IN_INLINED_RANGE = 128  # rows: with a commit a load writes only those beside its own anew
_T = TypeVar("_T")
_HASH = 0x9E3779B97F4A7C15  # spreads numbers (Knuth's multiplicative method)


class Data(NamedTuple):
    """A data file."""

    id: int
    begin: int
    end: int | None
    path: str
    rows: int
    size: int
    row_id_start: int | None
    mapping: int | None
    partial: int | None  # the last of the snapshots whose rows were merged in it

    @property
    def sequence(self) -> int:
        return self.begin if self.partial is None else self.partial


class Deletes(NamedTuple):
    """A delete file."""

    id: int
    data_file: int
    begin: int
    end: int | None
    path: str
    rows: int
    size: int
    format: str
    partial: int | None

    @property
    def sequence(self) -> int:
        return self.begin if self.partial is None else self.partial

    def has_later(self, snapshot: int, next_file: int) -> bool:
        """May it hold deletes that are later than the snapshot, at which `next_file` was to be the next file? DuckDB
        does not always say that it does, but then it has written the file later."""
        return self.sequence > snapshot or self.id >= next_file


class Part:
    """The files of a range that are there at a snapshot."""

    def __init__(self, data: list[Data], deletes: list[tuple[Deletes, Data]]) -> None:
        self.data = data
        self.deletes = deletes
        self.rows = sum(file.rows for file in data)
        self.known = digest([(file.id, file.path, file.sequence, file.row_id_start) for file in data])


class InlinedRow(NamedTuple):
    row_id: int
    begin: int
    end: int | None
    known: tuple[object, ...]  # what identifies it


class InlinedPart(NamedTuple):
    """The inlined rows of a range of row ids that are there at a snapshot."""

    first: int  # of the row ids
    last: int
    rows: int
    changed: int  # the snapshot that last changed them
    known: str


def digest(*of: object) -> str:
    """For names: what is the same has the same name, whoever makes it and when."""
    return hashlib.blake2b(repr(of).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _is_alive(file: Data | Deletes, snapshot: int) -> bool:
    return file.begin <= snapshot and (file.end is None or file.end > snapshot)


class Range:
    """Data files of one range of ids, with their delete files."""

    def __init__(self, data: list[Data], deletes: list[Deletes]) -> None:
        self._data = data
        self._deletes = deletes
        self._by_id = {file.id: file for file in data}
        self._changes = sorted(
            {when for each in (data, deletes) for file in each for when in (file.begin, file.end) if when is not None}
        )
        self._known: dict[int, Part] = {}

    def at(self, snapshot: int) -> Part:
        version = bisect_right(self._changes, snapshot)
        if version not in self._known:
            data = [file for file in self._data if _is_alive(file, snapshot)]
            there = {file.id for file in data}
            deletes = [
                (file, self._by_id[file.data_file])
                for file in self._deletes
                if file.data_file in there and _is_alive(file, snapshot)
            ]
            self._known[version] = Part(data, deletes)
        return self._known[version]


class InlinedRange:
    """Inlined rows of one range of row ids."""

    def __init__(self, rows: list[InlinedRow]) -> None:
        self._rows = rows
        self._changes = sorted({when for row in rows for when in (row.begin, row.end) if when is not None})
        self._known: dict[int, InlinedPart | None] = {}

    def at(self, snapshot: int) -> InlinedPart | None:
        version = bisect_right(self._changes, snapshot)
        if version not in self._known:
            there = [row for row in self._rows if row.begin <= snapshot and (row.end is None or row.end > snapshot)]
            self._known[version] = None if not there else InlinedPart(
                there[0].row_id, there[-1].row_id, len(there), self._changes[version - 1],
                digest([row.known for row in there]),
            )  # fmt: skip
        return self._known[version]


class Contents:
    """The contents of one of a table's members since a snapshot."""

    def __init__(self, session: Session, table: LakeTable, since: int) -> None:
        self.table = table
        self._session = session
        self._since = since
        self._without: dict[int, set[int]] = {}  # of a column, the files without statistics of it
        given = (table.table_id, since)
        data = [_data(table, row) for row in session.link.execute(tables.DATA_FILES, given)]
        deletes = [_deletes(table, row) for row in session.link.execute(tables.DELETE_FILES, given)]
        self.mappings = {file.mapping for file in data}
        self._data = data
        self._merged = [file for file in data if file.partial is not None]
        self.ranges = _ranges(data, deletes)
        rows = sorted(_inlined_rows(session, table, since), key=lambda row: row[:2])
        self._inlined = [InlinedRange(some) for some in _divided(rows, [row.row_id for row in rows], _IN_INLINED_RANGE)]
        self._inlined_deletes = _inlined_deletes(session, table)

    def hides(self, snapshot: int) -> bool:
        """Has a file of the snapshot rows of later ones, too?"""
        return any(file.sequence > snapshot and _is_alive(file, snapshot) for file in self._merged)

    def has_vectors(self, snapshot: int) -> bool:
        """Are there deletion vectors, which are of version 3 only?"""
        return any(file.format == PUFFIN for each in self.ranges for file, _ in each.at(snapshot).deletes)

    def have(self, column: Field, snapshot: int) -> bool:
        """Have all files of the snapshot the column? DuckDB writes a file without it anew without it."""
        without: set[int] = set()
        if not column.fields:
            if column.id not in self._without:
                given = (self.table.table_id, self._since, column.id)
                found = self._session.link.execute(tables.FILES_WITHOUT, given)
                self._without[column.id] = {number for (number,) in found}
            without = self._without[column.id]
        return not any(
            (file.begin < column.since or file.id in without) and _is_alive(file, snapshot) for file in self._data
        )

    def inlined_rows(self, snapshot: int) -> list[InlinedPart]:
        found = [each.at(snapshot) for each in self._inlined]
        return [each for each in found if each is not None]

    def inlined_deletes(self, snapshot: int) -> list[tuple[Data, list[tuple[int, int]]]]:
        """The positions with their snapshots, of each data file that is there."""
        if not self._inlined_deletes:
            return []
        found = []
        for part in (each.at(snapshot) for each in self.ranges):
            for file in part.data:
                positions = [each for each in self._inlined_deletes.get(file.id, ()) if each[1] <= snapshot]
                if positions:
                    found.append((file, sorted(positions)))
        return found


def _data(table: LakeTable, row: tuple[Any, ...]) -> Data:
    number, begin, end, path, relative, rows, size, start, mapping, partial, file_format, key = row
    if file_format not in (None, PARQUET):
        raise unsupported(f"a data file in format {file_format}")
    if key is not None:
        raise unsupported("an encrypted data file")
    return Data(number, begin, end, table.location + path if relative else path, rows, size, start, mapping, partial)


def _deletes(table: LakeTable, row: tuple[Any, ...]) -> Deletes:
    number, data_file, begin, end, path, relative, rows, size, file_format, partial, key = row
    if key is not None:
        raise unsupported("an encrypted delete file")
    whole = table.location + path if relative else path
    return Deletes(number, data_file, begin, end, whole, rows, size, file_format or PARQUET, partial)


def _ranges(data: Sequence[Data], deletes: Iterable[Deletes]) -> list[Range]:
    by_file: dict[int, list[Deletes]] = {}
    for each in deletes:
        by_file.setdefault(each.data_file, []).append(each)
    return [
        Range(some, [each for file in some for each in by_file.get(file.id, ())])
        for some in _divided(data, [file.id for file in data], _IN_RANGE)
    ]


def _divided(every: Sequence[_T], ids: Sequence[int], size: int) -> Iterator[list[_T]]:
    """Ranges of what has these ids, which ascend. All of one id are in one range."""
    begin = 0
    for at, number in enumerate(ids):
        is_end = ((number + 1) * _HASH & 0xFFFFFFFFFFFFFFFF) >> 32 < (1 << 32) // size
        if at + 1 == len(ids) or (is_end and ids[at + 1] != number):
            yield list(every[begin : at + 1])
            begin = at + 1


def _inlined_rows(session: Session, table: LakeTable, since: int) -> Iterator[InlinedRow]:
    for inlined in inlined_tables(session, table.table_id):
        for row in session.link.execute(tables.inlined_rows(inlined.name, inlined.prefix), (since,)):
            values = row[3:]
            if not session.link.is_sqlite:
                values = tuple([bytes(value) if isinstance(value, memoryview) else value for value in values])
            yield InlinedRow(row[0], row[1], row[2], (inlined.schema_version, *row[:2], values))


def _inlined_deletes(session: Session, table: LakeTable) -> dict[int, list[tuple[int, int]]]:
    name = deletes_table(table.table_id)
    found: dict[int, list[tuple[int, int]]] = {}
    if exists(session.link, name):
        for file_id, position, when in session.link.execute(tables.inlined_deletes(name)):
            found.setdefault(file_id, []).append((position, when))
    return found


def changes(session: Session, table: LakeTable, most: int) -> set[int]:
    """The last snapshots that changed the table, at most so many."""
    link = session.link
    found = {at for (at,) in link.execute(tables.CHANGES, (*[table.table_id] * tables.CHANGES_PARAMETERS, most))}
    for inlined in inlined_tables(session, table.table_id):
        found.update(at for (at,) in link.execute(tables.inlined_changes(inlined.name, inlined.prefix), (most,)))
    name = deletes_table(table.table_id)
    if exists(link, name):
        found.update(at for (at,) in link.execute(tables.inlined_delete_changes(name), (most,)))
    return found


def state(session: Session, table: LakeTable) -> Iterator[object]:
    """What is other than before if the table's rows or columns are, at whatever snapshot."""
    link = session.link
    found = [link.execute(query, (table.table_id,))[0] for query in tables.STATES]
    for inlined in inlined_tables(session, table.table_id):
        found += link.execute(tables.inlined_state(inlined.name, inlined.prefix))
    for row in found:
        yield from row
    name = deletes_table(table.table_id)
    deletes = link.execute(tables.inlined_deletes_state(name))[0] if exists(link, name) else (0, None, None)
    yield from deletes
    last = max((when for row in (*((r[2], r[3]) for r in found), deletes[2:]) for when in row if when), default=0)
    yield link.execute(tables.SNAPSHOT_TIME, (last,))  # numbers may come again when a backup is restored


# --- names ------------------------------------------------------------------------------------------------------------


class FileNames(NamedTuple):
    mapping: list[dict[str, Any]]  # as schema.name-mapping.default has it
    unreadable: Mapping[int, str]  # columns that it cannot tell, and why


class _Name(NamedTuple):
    """A row of ducklake_name_mapping."""

    mapping: int
    name: str
    field: int
    parent: int | None
    column: int
    in_path: bool


def of_files(session: Session, mappings: Iterable[int | None]) -> FileNames:
    rows = [
        _Name(*row) for number in sorted({each for each in mappings if each is not None})
        for row in session.link.execute(tables.NAMES, (number,))
    ]  # fmt: skip
    unreadable = {row.field: "its values are in the paths of some files" for row in rows if row.in_path}
    fields: dict[str, set[int]] = {}
    for row in rows:
        if row.parent is None and not row.in_path:
            fields.setdefault(row.name, set()).add(row.field)
    for name, there in fields.items():
        if len(there) > 1:
            unreadable |= dict.fromkeys(there, f'files without field ids mean several columns by "{name}"')
    return FileNames(_mapping(rows, {(row.mapping, None) for row in rows}), unreadable)


def _mapping(rows: Sequence[_Name], parents: set[tuple[int, int | None]]) -> list[dict[str, Any]]:
    """The fields in these parents, each of a mapping of its own."""
    by_field: dict[int, list[_Name]] = {}
    for row in rows:
        if (row.mapping, row.parent) in parents and not row.in_path:
            by_field.setdefault(row.field, []).append(row)
    found = []
    for field, same in by_field.items():
        made: dict[str, Any] = {"field-id": field, "names": sorted({row.name for row in same})}
        inner = _mapping(rows, {(row.mapping, row.column) for row in same})
        found.append(made | {"fields": inner} if inner else made)
    return found
