"""What one statement does to one table: collected, then staged as files, then committed (lake.commit).

write = Write(session, table, snapshot)
write.insert([(1, 'a'), (2, 'b')])
write.delete([place])
write.stage()                   # writes files: nothing refers to them yet
commit.apply(session, [write])  # in the write transaction
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pgrepl.catalog.session import Session
    from pgrepl.lake.place import Place
    from pgrepl.lake.table import LakeTable


@frozen
class ColumnStatistics:
    """Of one column in one file; `low` and `high` in DuckLake's text form, None: not known."""

    size: int
    values: int  # not counting NULLs
    nulls: int
    low: str | None
    high: str | None
    has_nan: bool | None = None  # of floats


@frozen
class NewFile:
    """A data file that has been written into the table's folder and that nothing refers to yet."""

    name: str  # in the table's folder
    record_count: int
    file_size_bytes: int
    footer_size: int | None
    statistics: dict[int, ColumnStatistics]  # by column id
    has_row_ids: bool = False  # it has _ducklake_internal_row_id: its rows replace others
    mapping: dict[Any, Any] | None = None  # Spark's nested columns have no field ids: found by name (map_by_name)


class Write:
    """One statement's changes of one table. `snapshot` is where its places were read (None: the statement holds the
    write lock, nobody can have changed the table)."""

    def __init__(self, session: Session, table: LakeTable, snapshot: int | None = None) -> None:
        self.session = session
        self.table = table
        self.snapshot = snapshot

    def insert(self, rows: Iterable[Sequence[Any]]) -> None:
        """New rows: Python values in the order of table.columns."""
        raise NotImplementedError

    def insert_files(self, files: Iterable[NewFile]) -> None:
        """Files with new rows, or, where has_row_ids, with new versions of rows that are deleted by their places."""
        raise NotImplementedError

    def delete(self, places: Iterable[Place]) -> None:
        raise NotImplementedError

    def delete_positions(self, file_id: int, positions: npt.NDArray[np.int64]) -> None:
        raise NotImplementedError

    def delete_inlined(self, row_ids: Iterable[int]) -> None:
        raise NotImplementedError

    def update(self, place: Place, row: Sequence[Any]) -> None:
        """The row becomes this one and keeps its row id."""
        raise NotImplementedError

    def truncate(self) -> None:
        """All rows go."""
        raise NotImplementedError

    def stage(self) -> None:
        """Write the files that this takes; before or after the write lock is held. Small changes take none."""
        raise NotImplementedError

    def discard(self) -> None:
        """The statement failed: remove what stage() has written. (Staged files are also removed by themselves when the
        transaction rolls back while the process lives; a killed process leaves them to VACUUM.)"""
        raise NotImplementedError
