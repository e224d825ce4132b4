"""The kernel of INSERT … SELECT, UPDATE and DELETE: rows that pass a condition become rows, get new versions, or go.

A portion that fails is done again row by row (condition, values, NOT NULL, CHECK), so that the first error is
PostgreSQL's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pgrepl.engine.copy_rows import CopyPart, KernelColumn, KeySpan, RowsCopy
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.lake.read.data_file import PositionSet, RowPlace
from pgrepl.lake.read.part import ForeignRows, PlacedRows
from pgrepl.types.lake.arrays import plain_array, storage_type

if TYPE_CHECKING:
    from pgrepl.engine.copy_rows import KernelCondition
    from pgrepl.lake.read.data_file import NewFile
    from pgrepl.lake.read.part import PartWatch

Row = tuple[Any, ...]


@frozen
class ChangePart:
    """`copied`: the rows to read and the columns of the new rows; without columns no row is written. `leaves`: the rows
    read are deleted, and new rows are their new versions. Up to `few` new rows are answered instead of written."""

    copied: CopyPart
    leaves: bool
    few: int


@frozen
class ChangedPart:
    """The answer for a part. `error`: the first error; or `failing`: the first new row that breaks a rule of the table,
    by attribute number; `declined`: why the kernel could not do the part."""

    count: int = 0
    positions: tuple[tuple[int, PositionSet], ...] = ()  # of deleted rows, by data file
    row_ids: tuple[int, ...] = ()  # of deleted rows that stood in the catalog
    files: tuple[NewFile, ...] = ()
    spans: tuple[KeySpan | None, ...] = ()  # of the keys
    few: tuple[tuple[RowPlace | None, Row], ...] = ()  # new rows in no file, with the places of their old versions
    error: PgError | None = None
    failing: Row | None = None
    declined: str = ""


class BrokenRule(Exception):
    """A new row breaks a rule."""

    def __init__(self, row: Row) -> None:
        super().__init__("a rule of the table")
        self.row = row


def modify_rows(part: ChangePart, watch: PartWatch) -> ChangedPart:
    change = Change(part, watch)
    try:
        change.run()
        return change.changed()
    except Declined as reason:
        return ChangedPart(declined=str(reason))
    except BrokenRule as problem:
        return ChangedPart(failing=problem.row)
    except PgError as error:
        if error.is_of_machine:
            raise
        return ChangedPart(error=error)
    finally:
        change.discard()


class Change(RowsCopy):
    def __init__(self, part: ChangePart, watch: PartWatch) -> None:
        super().__init__(part.copied, watch)
        self.leaves = part.leaves
        self.writes = bool(part.copied.columns)
        self.replaces = self.leaves and self.writes
        self.few = part.few
        self.positions: dict[int, PositionSet] = {}
        self.row_ids: list[int] = []
        self.total = 0
        self.places: list[RowPlace | None] = []  # of the first `few` rows
        self.reached = 0  # the row at which by_rows is

    def run(self) -> None:
        for rows in self.part.rows:
            assert not isinstance(rows, ForeignRows), "what is changed stands in the lake"
            for arrays, count, placed in rows.placed(self.part.read, row_ids=self.replaces):
                self.watch.check()
                kept, arrays_made = self.rows_made(arrays, count)
                self.go(placed, kept, arrays_made, count)

    def rows_made(self, arrays: Mapping[int, Any], count: int) -> tuple[Any, list[Any]]:
        """A mask of the rows that pass the filter (None: all do), and the columns of the new rows."""
        try:
            return self.by_columns(arrays, count)
        except (PgError, pa.ArrowException) as problem:  # Arrow's own: of the filter
            if isinstance(problem, PgError) and problem.is_of_machine:
                raise
            return self.by_rows(arrays, count)

    def by_columns(self, arrays: Mapping[int, Any], count: int) -> tuple[Any, list[Any]]:
        mask, kept, left = self.passing(arrays, count)
        arrays_made = self.made(kept, left) if left and self.writes else []
        return None if mask is None else mask.to_numpy(zero_copy_only=False), arrays_made

    def by_rows(self, arrays: Mapping[int, Any], count: int) -> tuple[Any, list[Any]]:
        """The answer of by_columns, computed row by row. Raises the first error."""
        part, target = self.part, self.part.target
        columns = {attnum: part.source.column(attnum).form.from_array(array) for attnum, array in arrays.items()}
        row: list[Any] = [None] * max(columns, default=0)
        new: list[Any] = [None] * max((column.attnum for column in target.columns), default=0)
        test, check = _exact(part.filter), _exact(part.check)
        makers = [
            (column.attnum - 1, column.not_null, _maker(part, column), new if column.generated else row)
            for column in sorted(part.columns, key=lambda column: column.generated)
        ]
        kept = np.zeros(count, np.bool_)
        new_rows: list[Row] = []
        for number in range(count):
            self.reached = number
            for attnum, values in columns.items():
                row[attnum - 1] = values[number]
            if test is not None and test(row) is not True:
                continue
            kept[number] = True
            if not makers:
                continue
            for place, _, make, of in makers:
                new[place] = make(of)
            breaks = any(not_null and new[place] is None for place, not_null, *_ in makers)
            if breaks or (check is not None and check(new) is not True):
                raise BrokenRule(tuple(new))
            new_rows.append(tuple(new))
        if not new_rows:
            return kept, []
        new_arrays = []
        for column in part.columns:
            form = target.column(column.attnum).form
            array = plain_array(form.to_array([new_row[column.attnum - 1] for new_row in new_rows]))
            new_arrays.append(array.cast(storage_type(form.arrow())))
        return kept, new_arrays

    def go(self, placed: PlacedRows, kept: Any, new_arrays: list[Any], count: int) -> None:
        """Note the places of the deleted rows, and hold the new rows until they are written."""
        count = count if kept is None else int(kept.sum())
        if not count:
            return
        self.total += count
        positions, row_ids = placed.positions, placed.row_ids
        if kept is not None:
            positions = None if positions is None else positions[kept]
            row_ids = None if row_ids is None else row_ids[kept]
        if self.leaves and placed.file_id is None:
            self.row_ids += row_ids.tolist()
        elif self.leaves:
            self.note(placed.file_id or 0, positions)
        if not self.writes:
            return
        if self.total <= self.few:
            self.places += _places(placed.file_id, positions, row_ids) if self.leaves else [None] * count
        self.hold([*new_arrays, pa.array(row_ids, pa.int64())] if self.replaces else new_arrays, count)

    def note(self, file_id: int, positions: Any) -> None:
        """Note the positions of deleted rows of a data file."""
        self.positions.setdefault(file_id, PositionSet()).add(positions)

    def changed(self) -> ChangedPart:
        gone = tuple(self.positions.items()), tuple(self.row_ids)
        if self.writes and self.total <= self.few:
            return ChangedPart(self.total, *gone, few=self.few_rows())
        copied = self.end()
        return ChangedPart(self.total, *gone, copied.files, copied.spans)

    def few_rows(self) -> tuple[tuple[RowPlace | None, Row], ...]:
        rows: list[Row] = []
        for arrays in self.held:
            columns = [
                self.part.target.column(column.attnum).form.from_array(array)
                for column, array in zip(self.part.columns, arrays, strict=False)
            ]
            rows += zip(*columns, strict=True)
        return tuple(zip(self.places, rows, strict=True))


def _places(file_id: int | None, positions: Any, row_ids: Any) -> list[RowPlace | None]:
    at = [None] * len(row_ids) if file_id is None else positions.tolist()
    return [RowPlace(file_id, position, row_id) for position, row_id in zip(at, row_ids.tolist(), strict=True)]


def _exact(condition: KernelCondition | None) -> Callable[[Sequence[Any]], Any] | None:
    return None if condition is None else condition.exact()


def _maker(part: CopyPart, column: KernelColumn) -> Callable[[Sequence[Any]], Any]:
    """A function from a row of the source to the column's value."""
    if column.computed is not None:
        return column.computed.exact()
    if column.source:
        return itemgetter(column.source - 1)
    (value,) = part.target.column(column.attnum).form.from_array(column.value)
    return lambda row: value
