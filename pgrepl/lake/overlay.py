"""A transaction's pending changes of tables (pending.py), laid over the catalog's rows when it reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.data_file import DataFile
    from pgrepl.lake.table import LakeTable

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
    _with_value: dict[int, dict[Any, dict[int, None]]] = field(default_factory=dict)  # row ids by column and value

    def copied(self) -> TableOverlay:
        dead = {file: dict(positions) for file, positions in self.dead_positions.items()}
        return TableOverlay(
            dict(self.rows), dict(self.snapshots), set(self.dead_rows), dead, list(self.files), set(self.row_ids)
        )

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
    found = pending.overlay(table.table_id, snapshot)
    return found if found is not None and snapshot > pending.first_snapshot else None


def own_rows(session: Session, table_id: int) -> set[int]:
    """The ids of rows that the transaction has changed or deleted."""
    pending = session.transaction.pending
    found = pending.overlay(table_id) if isinstance(pending, Overlays) else None
    return found.row_ids if found is not None else set()
