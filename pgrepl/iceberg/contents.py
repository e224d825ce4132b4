"""What a table has at the last snapshots: data files and delete files in ranges, and inlined rows.

A manifest has the files of one range of ids. Ranges end at ids that a hash chooses, so that a new file changes the
last one only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pgrepl.ground.errors import unsupported
from pgrepl.iceberg import tables
from pgrepl.iceberg.place import digest
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
        self.has_vectors = any(file.format == PUFFIN for file, _ in deletes)
        self.plans: dict[tuple[object, ...], Any] = {}  # its manifests

    @cached_property
    def known(self) -> str:
        return digest([(file.id, file.path, file.sequence, file.row_id_start) for file in self.data])


class InlinedRow(NamedTuple):
    row_id: int
    begin: int
    known: str  # what identifies it
    end: int | None


class InlinedPart:
    """The inlined rows of a range of row ids that are there at a snapshot, of which `changed` is the last change."""

    def __init__(self, rows: list[InlinedRow], changed: int) -> None:
        self.first, self.last = rows[0].row_id, rows[-1].row_id
        self.rows = len(rows)
        self.changed = changed
        self.known = digest([row.known for row in rows])
        self.plans: dict[tuple[object, ...], Any] = {}


def _is_alive(file: Data | Deletes, snapshot: int) -> bool:
    return file.begin <= snapshot and (file.end is None or file.end > snapshot)


class Range:
    """Data files of one range of ids, with their delete files."""

    def __init__(self, data: list[Data], deletes: list[Deletes]) -> None:
        self.has = data, deletes
        self._known: dict[int, Part] = {}

    @cached_property
    def _changes(self) -> list[int]:
        return _changes(file for files in self.has for file in files)

    def at(self, snapshot: int) -> Part:
        version = bisect_right(self._changes, snapshot)
        if version not in self._known:
            files, every = self.has
            data = [file for file in files if _is_alive(file, snapshot)]
            by_id = {file.id: file for file in data}
            deletes = [
                (file, by_id[file.data_file]) for file in every if file.data_file in by_id and _is_alive(file, snapshot)
            ]
            self._known[version] = Part(data, deletes)
        return self._known[version]


class InlinedRange:
    """Inlined rows of one range of row ids."""

    def __init__(self, rows: list[InlinedRow]) -> None:
        self.has = rows
        self._known: dict[int, InlinedPart | None] = {}

    @cached_property
    def _changes(self) -> list[int]:
        return _changes(self.has)

    def at(self, snapshot: int) -> InlinedPart | None:
        version = bisect_right(self._changes, snapshot)
        if version not in self._known:
            there = [row for row in self.has if row.begin <= snapshot and (row.end is None or row.end > snapshot)]
            self._known[version] = InlinedPart(there, self._changes[version - 1]) if there else None
        return self._known[version]


def _changes(rows: Iterable[Data | Deletes | InlinedRow]) -> list[int]:
    return sorted({when for row in rows for when in (row.begin, row.end) if when is not None})


class Contents:
    """The contents of one of a table's members since a snapshot."""

    def __init__(self, since: int) -> None:
        self._since = since
        self._until = -1
        self._data: list[Data] = []
        self._deletes: dict[int, list[Deletes]] = {}  # of a data file
        self._rows: list[InlinedRow] = []
        self._inlined_deletes: dict[int, list[tuple[int, int]]] = {}
        self._merged: list[Data] = []
        self.mappings: set[int | None] = set()
        self.ranges: list[Range] = []
        self._inlined: list[InlinedRange] = []

    def read(self, session: Session, table: LakeTable, until: int) -> set[int]:
        """Read what has changed since the last reading, and tell in which snapshots. What was there before may have
        ended since; it is not others."""
        self.table, self._session = table, session
        self._without: dict[int, set[int]] = {}  # of a column, the files without statistics of it
        given = (table.table_id, self._since, self._until, self._until)
        data = [_data(table, row) for row in session.link.execute(tables.DATA_FILES, given)]
        deletes = [_deletes(table, row) for row in session.link.execute(tables.DELETE_FILES, given)]
        rows = sorted(_inlined_rows(session, table, given[1:]), key=itemgetter(0, 1, 2))
        _put(self._data, data, 1)
        for file in deletes:
            _put(self._deletes.setdefault(file.data_file, []), [file], 1)
        _put(self._rows, rows, 3)
        positions = _inlined_deletes(session, table, self._until)
        for file_id, position, when in positions:
            self._inlined_deletes.setdefault(file_id, []).append((position, when))
        if data or deletes:
            self.mappings = {file.mapping for file in self._data}
            self._merged = [file for file in self._data if file.partial is not None]
            self.ranges = _as_before(self.ranges, _ranges(self._data, self._deletes))
        if rows:
            parts = _divided(self._rows, [row.row_id for row in self._rows], _IN_INLINED_RANGE)
            self._inlined = _as_before(self._inlined, map(InlinedRange, parts))
        snapshots = {file.partial for some in (data, deletes) for file in some if file.partial}
        snapshots |= {when for some in (data, deletes, rows) for row in some for when in (row.begin, row.end) if when}
        snapshots |= {when for _, _, when in positions}
        self._until, since = until, self._until
        return {when for when in snapshots if when > since}

    @property
    def weight(self) -> int:
        """How much there is to remember."""
        return len(self._data) + len(self._rows) + sum(map(len, self._deletes.values()))

    def hides(self, snapshot: int) -> bool:
        """Has a file of the snapshot rows of later ones, too?"""
        return any(file.sequence > snapshot and _is_alive(file, snapshot) for file in self._merged)

    def has_vectors(self, snapshot: int) -> bool:
        """Are there deletion vectors, which are of version 3 only?"""
        return any(part.at(snapshot).has_vectors for part in self.ranges)

    def have(self, column: Field, snapshot: int) -> bool:
        """Have all files of the snapshot the column? DuckDB writes a file without it anew without it."""
        without: set[int] = set()
        if not column.fields:
            if column.id not in self._without:
                given = (self.table.table_id, self._since, column.id)
                lacking = self._session.link.execute(tables.FILES_WITHOUT, given)
                self._without[column.id] = {number for (number,) in lacking}
            without = self._without[column.id]
        return not any(
            (file.begin < column.since or file.id in without) and _is_alive(file, snapshot) for file in self._data
        )

    def inlined_rows(self, snapshot: int) -> list[InlinedPart]:
        parts = [inlined.at(snapshot) for inlined in self._inlined]
        return [part for part in parts if part is not None]

    def inlined_deletes(self, snapshot: int) -> list[tuple[Data, list[tuple[int, int]]]]:
        """The positions with their snapshots, of each data file that is there."""
        deletes = []
        for file_id, every in sorted(self._inlined_deletes.items()):
            at = bisect_left(self._data, (file_id,))
            positions = sorted([delete for delete in every if delete[1] <= snapshot])
            if positions and self._data[at : at + 1] and self._data[at].id == file_id:
                if _is_alive(self._data[at], snapshot):
                    deletes.append((self._data[at], positions))
        return deletes


_R = TypeVar("_R", Data, Deletes, InlinedRow)
_S = TypeVar("_S", Range, InlinedRange)


def _put(known: list[_R], changed: Sequence[_R], key: int) -> None:
    """Put rows in their places, by their first `key` values; one that is there already is replaced."""
    if not known:
        known.extend(changed)
        return
    for row in changed:
        at = bisect_left(known, row[:key])
        is_there = at < len(known) and known[at][:key] == row[:key]
        known[at : at + is_there] = [row]


def _as_before(known: Sequence[_S], ranges: Iterable[_S]) -> list[_S]:
    """Ranges; one that has what it had is the same as before, so that its manifests are known."""
    before = {part.has[0][0]: part for part in known}
    return [same if (same := before.get(part.has[0][0])) and same.has == part.has else part for part in ranges]


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


def _ranges(data: Sequence[Data], deletes: Mapping[int, list[Deletes]]) -> list[Range]:
    return [
        Range(some, [delete_file for file in some for delete_file in deletes.get(file.id, ())])
        for some in _divided(data, [file.id for file in data], _IN_RANGE)
    ]


def _divided(every: Sequence[_T], ids: Sequence[int], size: int) -> Iterator[list[_T]]:
    """Ranges of what has these ids, which ascend. All of one id are in one range."""
    last, begin = ((1 << 32) // size) << 32, 0
    ends = [at for at, number in enumerate(ids) if (number + 1) * _HASH & 0xFFFFFFFFFFFFFFFF < last]
    for at in ends:
        if ids[at + 1 : at + 2] != [ids[at]]:
            yield list(every[begin : at + 1])
            begin = at + 1
    if begin < len(ids):
        yield list(every[begin:])


def _inlined_rows(session: Session, table: LakeTable, given: tuple[int, ...]) -> Iterator[InlinedRow]:
    for inlined in inlined_tables(session, table.table_id):
        for row in session.link.execute(tables.inlined_rows(inlined.name, inlined.prefix), given):
            values = row[3:]
            if not session.link.is_sqlite:
                values = tuple([bytes(value) if isinstance(value, memoryview) else value for value in values])
            yield InlinedRow(row[0], row[1], digest(inlined.schema_version, *row[:2], values), row[2])


def _inlined_deletes(session: Session, table: LakeTable, after: int) -> list[tuple[int, int, int]]:
    """The data files, positions and snapshots of those that are later than a snapshot."""
    name = deletes_table(table.table_id)
    return session.link.execute(tables.inlined_deletes(name), (after,)) if exists(session.link, name) else []


def changes(session: Session, table: LakeTable, most: int) -> set[int]:
    """The last snapshots that changed the table, at most so many."""
    link = session.link
    snapshots = {at for (at,) in link.execute(tables.CHANGES, (*[table.table_id] * tables.CHANGES_PARAMETERS, most))}
    for inlined in inlined_tables(session, table.table_id):
        snapshots.update(at for (at,) in link.execute(tables.inlined_changes(inlined.name, inlined.prefix), (most,)))
    name = deletes_table(table.table_id)
    if exists(link, name):
        snapshots.update(at for (at,) in link.execute(tables.inlined_delete_changes(name), (most,)))
    return snapshots


def state(session: Session, table: LakeTable, snapshot: int) -> Iterator[object]:
    """What is other than before if the rows or columns that were there at a snapshot are, whatever came later."""
    link = session.link
    states = [link.execute(query, (snapshot, table.table_id, snapshot))[0] for query in tables.STATES]
    for inlined in inlined_tables(session, table.table_id):
        rows = link.execute(tables.inlined_state(inlined.name, inlined.prefix), (snapshot, snapshot))
        states += [row for row in rows if row[0]]  # it may have been made later
    for row in states:
        yield from row
    name = deletes_table(table.table_id)
    deletes = (
        link.execute(tables.inlined_deletes_state(name), (snapshot,))[0] if exists(link, name) else (0, None, None)
    )
    yield from deletes
    last = max((when for row in (*((r[2], r[5]) for r in states), deletes[2:]) for when in row if when), default=0)
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
        _Name(*row) for number in sorted({mapping for mapping in mappings if mapping is not None})
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
    fields = []
    for field, same in by_field.items():
        entry: dict[str, Any] = {"field-id": field, "names": sorted({row.name for row in same})}
        inner = _mapping(rows, {(row.mapping, row.column) for row in same})
        fields.append(entry | {"fields": inner} if inner else entry)
    return fields
