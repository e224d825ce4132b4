"""Data files and delete files, as the catalog has them and with a transaction's pending changes; places of rows in them
(ctid), and sets of positions in little memory.

A place is valid while the snapshot at which it was read is the one that the statement changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.table import LakeTable
    from pgrepl.lake.write.statistics import ColumnStatistics

    Positions = npt.NDArray[np.int64]


class RowPlace(NamedTuple):
    """The place of a row: its file (None: it is inlined, and its row id finds it), its position in the file, counted
    from 0, and its row id."""

    file: int | None
    pos: int | None
    row: int


def once(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The distinct numbers, ascending. np.unique hashes them, which takes many times as long."""
    steps = np.diff(numbers)
    if bool((steps > 0).all()):
        return numbers
    if not bool((steps >= 0).all()):
        numbers = np.sort(numbers)
    first = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=first[1:])
    return numbers[first]


def row_ids(first: int | None, positions: npt.NDArray[np.int64], own: Any = None) -> npt.NDArray[np.int64]:
    """The ids of rows of a file: their `own` ids, an Arrow array, else the file's first id and their position."""
    by_position = (first or 0) + positions
    if own is None:
        return by_position
    return np.where(own.is_valid().to_numpy(zero_copy_only=False), own.fill_null(0).to_numpy(), by_position)


_BITS = 32  # of a position in the list


class PositionSet:
    """A set of positions."""

    def __init__(self) -> None:
        self._listed: list[Any] = []
        self._count = 0  # of positions in the list
        self._top = 0  # behind the last position
        self._bits: Any = None  # eight rows in a byte

    @classmethod
    def of(cls, positions: Positions) -> PositionSet:
        position_set = cls()
        position_set.add(positions)
        return position_set

    def add(self, positions: Positions) -> None:
        if not len(positions):
            return
        self._top = max(self._top, int(positions.max()) + 1)
        if self._bits is not None:
            self._set(positions)
            return
        self._listed.append(positions.astype(np.uint32 if self._top <= 1 << _BITS else np.int64))
        self._count += len(positions)
        if self._count * _BITS > self._top:
            self._bits = np.zeros(0, np.uint8)
            listed, self._listed, self._count = self._listed, [], 0
            for part in listed:
                self._set(part.astype(np.int64))

    def _set(self, positions: Positions) -> None:
        missing = -(-self._top // 8) - len(self._bits)
        if missing > 0:
            self._bits = np.concatenate([self._bits, np.zeros(missing, np.uint8)])
        first = int(positions.min()) // 8
        flags = np.zeros(int(positions.max()) + 1 - 8 * first, np.uint8)
        flags[positions - 8 * first] = 1
        packed = np.packbits(flags)
        self._bits[first : first + len(packed)] |= packed

    @property
    def positions(self) -> Positions:
        """The distinct positions, ascending."""
        if self._bits is not None:
            return np.flatnonzero(np.unpackbits(self._bits))
        return once(np.concatenate([np.empty(0, np.int64), *self._listed]))

    def __len__(self) -> int:
        return len(self.positions)


PARQUET, PUFFIN = "parquet", "puffin"  # the format of a delete file: positions, or deletion vectors


@frozen
class SourceNames:
    """The names of a file's columns that are found by name, by column id. Values of `partitions` are in the file's
    path, as `name=value`."""

    names: dict[int, str]
    partitions: dict[int, str]

    @property
    def all(self) -> dict[int, str]:
        return {**self.names, **self.partitions}

    def partition_text(self, path: str, column_id: int) -> str | None:
        """The value of a partition column in a path, with %-escapes decoded."""
        for part in path.split("/")[:-1]:
            name, equals, value = part.partition("=")
            if equals and unquote(name) == self.partitions[column_id]:
                return None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
        return None


@frozen
class DeleteFile:
    """A row of ducklake_delete_file."""

    delete_file_id: int
    data_file_id: int
    begin_snapshot: int
    path: str  # absolute, or a URI
    delete_count: int
    file_size_bytes: int
    partial_max: int | None  # not NULL: the file has the snapshot of each deletion
    footer_checksum: int | None = None  # of a file that pgrepl has written; of a deletion vector's whole file
    checksum: int | None = None  # of the whole file
    format: str = PARQUET

    holds_deletes = True

    @property
    def rows(self) -> int:
        return self.delete_count


@frozen
class DataFile:
    """A row of ducklake_data_file with its delete file at a snapshot."""

    data_file_id: int
    begin_snapshot: int
    end_snapshot: int | None
    path: str  # absolute, or a URI
    record_count: int
    file_size_bytes: int
    row_id_start: int | None
    mapping_id: int | None  # not NULL: columns are found by name, not by field id
    partial_max: int | None  # not NULL: the file has the snapshot of each insertion
    delete_files: tuple[DeleteFile, ...]  # one, unless DuckDB has flushed inlined deletes from before another
    names: SourceNames | None = None  # with mapping_id
    footer_checksum: int | None = None  # of a file that pgrepl has written
    checksum: int | None = None  # of the whole file

    holds_deletes = False

    @property
    def rows(self) -> int:
        return self.record_count


@frozen
class NewFile:
    """A data file that has been written into the table's folder, and that the catalog does not have yet."""

    name: str  # in the table's folder
    record_count: int
    file_size_bytes: int
    footer_size: int | None
    statistics: dict[int, ColumnStatistics]  # by column id
    has_row_ids: bool = False  # it has _ducklake_internal_row_id: its rows replace others
    mapping: tuple[NameMapping, ...] = ()  # columns without field ids are found by name (map_by_name)
    footer_checksum: int | None = None
    checksum: int | None = None  # of the whole file; None: not known, as the file is in an object store


@frozen
class NameMapping:
    """The name in a file of a column, or of a field nested in it."""

    source_name: str
    column_id: int
    fields: tuple[NameMapping, ...] = ()


@frozen
class NewDeletes:
    """A delete file that has been written, with all deleted positions of a data file, old and new."""

    name: str
    begin_snapshot: int | None  # of the delete file that it replaces
    snapshot: int | None  # of the new positions, if the file has snapshots
    delete_count: int
    file_size_bytes: int
    footer_size: int
    footer_checksum: int
    checksum: int
    format: str = PARQUET


# --- overlay ----------------------------------------------------------------------------------------------------------


PROVISIONAL = 1 << 60


@dataclass
class TableOverlay:
    """The pending changes of one table."""

    rows: dict[int, Sequence[Any]] = field(default_factory=dict)  # new rows and new versions, by row id
    snapshots: dict[int, int] = field(default_factory=dict)  # the snapshot of each of them
    dead_rows: set[int] = field(default_factory=set)  # of those inlined in the catalog
    dead_positions: dict[int, dict[int, int]] = field(default_factory=dict)  # file: position: snapshot
    files: list[DataFile] = field(default_factory=list)
    row_ids: set[int] = field(default_factory=set)  # of the catalog's rows that have been changed or deleted
    replaced: set[int] = field(default_factory=set)  # rows that have been changed again or deleted since
    _with_value: dict[int, dict[Any, dict[int, None]]] = field(default_factory=dict)  # row ids by column and value

    def copied(self) -> TableOverlay:
        dead = {file: dict(positions) for file, positions in self.dead_positions.items()}
        files, row_ids, replaced = list(self.files), set(self.row_ids), set(self.replaced)
        return TableOverlay(dict(self.rows), dict(self.snapshots), set(self.dead_rows), dead, files, row_ids, replaced)

    def put(self, row_id: int, row: Sequence[Any], snapshot: int) -> None:
        self.remove(row_id)
        self.rows[row_id] = row
        self.snapshots[row_id] = snapshot
        for place, known in self._with_value.items():
            known.setdefault(row[place], {})[row_id] = None

    def remove(self, row_id: int) -> bool:
        row = self.rows.pop(row_id, None)
        if row is None:
            return False
        for place, known in self._with_value.items():
            del known[row[place]][row_id]
        return True

    def with_values(self, place: int, values: Iterable[Any]) -> Iterator[tuple[int, Sequence[Any]]]:
        """The rows that have one of the values at this place; an index serves transactions of many small statements."""
        known = self._with_value.get(place)
        if known is None:
            known = self._with_value[place] = {}
            for row_id, row in self.rows.items():
                known.setdefault(row[place], {})[row_id] = None
        for value in values:
            for row_id in known.get(value, ()):
                yield row_id, self.rows[row_id]


class Overlays:
    """A transaction's overlays, by table."""

    def __init__(self, first_snapshot: int) -> None:
        self.first_snapshot = first_snapshot  # the catalog's last one when the first change was made
        self.replayed = False  # the transaction has taken the write lock since, and has written all into the catalog
        self._tables: dict[int, TableOverlay] = {}
        self._kept: dict[int, dict[int, TableOverlay]] = {}

    def overlay(self, table_id: int, snapshot: int | None = None) -> TableOverlay | None:
        """A table's changes now, or at a snapshot that is kept."""
        if self.replayed:
            return None
        tables = self._tables if snapshot is None else self._kept.get(snapshot, self._tables)
        return tables.get(table_id)

    @contextmanager
    def keeping(self, snapshot: int) -> Iterator[None]:
        """Keep the changes as they are now, at this snapshot, beside those that are made meanwhile."""
        known = self._kept.get(snapshot)
        if known is None:
            self._kept[snapshot] = {table: own.copied() for table, own in self._tables.items()}
        try:
            yield
        finally:
            if known is None:
                self._kept.pop(snapshot, None)


def overlay(session: Session, table: LakeTable, snapshot: int) -> TableOverlay | None:
    """The transaction's pending changes of a table, if the table is read as it is now."""
    pending = session.transaction.pending
    if pending is None:
        return None
    assert isinstance(pending, Overlays)
    overlay_of_table = pending.overlay(table.table_id, snapshot)
    return overlay_of_table if overlay_of_table is not None and snapshot > pending.first_snapshot else None


def own_rows(session: Session, table_id: int) -> set[int]:
    """The ids of rows that the transaction has changed or deleted."""
    pending = session.transaction.pending
    own = pending.overlay(table_id) if isinstance(pending, Overlays) else None
    return own.row_ids if own is not None else set()


def was_own_version(session: Session, table_id: int, place: RowPlace) -> bool:
    """Whether a row that a pending statement has changed was this transaction's at the place where the statement found
    it."""
    pending = session.transaction.pending
    own = pending.overlay(table_id) if isinstance(pending, Overlays) else None
    return own is not None and (place.row >= PROVISIONAL or place.row in own.replaced)
