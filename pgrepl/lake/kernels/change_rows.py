"""The kernel of an UPDATE or DELETE: the rows of a table that pass a condition go, or get new versions.

Columns are computed whole. A portion of rows in which anything is wrong is done again row by row, each as PostgreSQL
does it: condition, new values, NOT NULL, CHECK. So the first error in the order of the rows is found, or that there is
none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.lake.kernels.copy_rows import DATA_ERRORS, CopyPart, KernelCondition, KernelValue, RowsCopy
from pgrepl.lake.kernels.part import ForeignRows, PlacedRows, Unfit
from pgrepl.lake.place import RowPlace
from pgrepl.lake.position_set import PositionSet
from pgrepl.types.lake_arrays import plain_array

if TYPE_CHECKING:
    from pgrepl.lake.data_file import NewFile
    from pgrepl.lake.kernels.part import PartWatch

Row = tuple[Any, ...]


class _Exact(Protocol):
    def exact(self) -> Callable[[Sequence[Any]], Any]: ...


class ChangeCondition(KernelCondition, _Exact, Protocol):
    """A condition that single rows can be asked, too."""


class ChangeValue(KernelValue, _Exact, Protocol):
    """A value that single rows can be asked for, too."""


@frozen
class ChangePart:
    """`copied`: which rows, and what becomes of them in the same table. `deletes`: nothing does. Of up to `few` rows no
    file is made."""

    copied: CopyPart
    deletes: bool
    few: int


@frozen
class ChangedPart:
    """What became of a part. `error`: the first one; or `failing`: the first new version that breaks a rule of the
    table, by attribute number; `unfit`: why the kernel could not do it."""

    count: int = 0
    positions: tuple[tuple[int, PositionSet], ...] = ()  # of rows that went, by data file
    row_ids: tuple[int, ...] = ()  # of those that stood in the catalog
    files: tuple[NewFile, ...] = ()
    few: tuple[tuple[RowPlace, Row], ...] = ()  # new versions in no file, and where the rows stood
    error: PgError | None = None
    failing: Row | None = None
    unfit: str = ""


class _Breaks(Exception):
    """A new version breaks a rule."""

    def __init__(self, row: Row) -> None:
        super().__init__("a rule of the table")
        self.row = row


def change_rows(part: ChangePart, watch: PartWatch) -> ChangedPart:
    change = _Change(part, watch)
    try:
        change.run()
        return change.changed()
    except Unfit as reason:
        change.discard()
        return ChangedPart(unfit=str(reason))
    except _Breaks as problem:
        change.discard()
        return ChangedPart(failing=problem.row)
    except PgError as error:
        change.discard()
        if error.sqlstate[:2] not in DATA_ERRORS:
            raise
        return ChangedPart(error=error)
    except BaseException:
        change.discard()
        raise


class _Change(RowsCopy):
    replaces = True

    def __init__(self, part: ChangePart, watch: PartWatch) -> None:
        super().__init__(part.copied, watch)
        self.deletes = part.deletes
        self.few = part.few
        self.positions: dict[int, PositionSet] = {}
        self.row_ids: list[int] = []
        self.total = 0
        self.places: list[RowPlace] = []  # of the first rows

    def run(self) -> None:
        import pyarrow as pa

        for rows in self.part.rows:
            assert not isinstance(rows, ForeignRows), "what changes stands in the lake"
            for arrays, count, placed in rows.placed(self.part.read, row_ids=not self.deletes):
                self.watch.check()
                try:
                    kept, made = self.by_columns(arrays, count)
                except (PgError, pa.ArrowException) as problem:
                    if isinstance(problem, PgError) and problem.sqlstate[:2] not in DATA_ERRORS:
                        raise
                    kept, made = self.by_rows(arrays, count)
                self.go(placed, kept, made, count)

    def by_columns(self, arrays: Mapping[int, Any], count: int) -> tuple[Any, list[Any]]:
        """Which rows there are, None for all; and the columns of their new versions."""
        mask = None
        if self.filter is not None:
            mask = self.filter(arrays, count)
            left = mask.true_count
            if left < count:
                arrays, count = {attnum: array.filter(mask) for attnum, array in arrays.items()}, left
            else:
                mask = None
        made = self.made(arrays, count) if count and not self.deletes else []
        return None if mask is None else mask.to_numpy(zero_copy_only=False), made

    def by_rows(self, arrays: Mapping[int, Any], count: int) -> tuple[Any, list[Any]]:
        import numpy as np

        part, table = self.part, self.part.target
        width = max(column.attnum for column in table.columns)
        columns = {attnum: table.column(attnum).form.from_array(array) for attnum, array in arrays.items()}
        test = _exact(part.filter)
        check = _exact(part.check)
        kept = np.zeros(count, np.bool_)
        versions: list[Row] = []
        computed = {column.attnum: _exact(column.computed) for column in part.columns if column.computed is not None}
        known = {
            column.attnum: table.column(column.attnum).form.from_array(column.value)[0]
            for column in part.columns
            if column.computed is None and not column.source
        }
        sources = [(column.attnum, column.source) for column in part.columns if column.source]
        not_null = [column.attnum for column in part.columns if column.not_null]
        for number in range(count):
            row: list[Any] = [None] * width
            for attnum, values in columns.items():
                row[attnum - 1] = values[number]
            if test is not None and test(row) is not True:
                continue
            kept[number] = True
            if self.deletes:
                continue
            new = list(row)
            for attnum, source in sources:
                new[attnum - 1] = row[source - 1]
            for attnum, value in computed.items():
                assert value is not None
                new[attnum - 1] = value(row)
            for attnum, one in known.items():
                new[attnum - 1] = one
            if any(new[attnum - 1] is None for attnum in not_null) or (check is not None and check(new) is not True):
                raise _Breaks(tuple(new))
            versions.append(tuple(new))
        if not versions:
            return kept, []
        made = []
        for column, kind in zip(part.columns, self.kinds, strict=True):
            form = table.column(column.attnum).form
            array = plain_array(form.to_array([version[column.attnum - 1] for version in versions]))
            made.append(array if array.type == kind else array.cast(kind))
        return kept, made

    def go(self, placed: PlacedRows, kept: Any, made: list[Any], count: int) -> None:
        """The rows leave their places."""
        import numpy as np
        import pyarrow as pa

        count = count if kept is None else int(kept.sum())
        if not count:
            return
        positions = placed.positions if kept is None or placed.positions is None else placed.positions[kept]
        row_ids = placed.row_ids if kept is None or placed.row_ids is None else placed.row_ids[kept]
        if placed.file_id is None:
            self.row_ids += row_ids.tolist()
        else:
            self.positions.setdefault(placed.file_id, PositionSet()).add(positions)
        self.total += count
        if self.deletes:
            return
        if self.total <= self.few:
            each = [None] * count if placed.file_id is None else positions.tolist()
            found = zip(each, row_ids.tolist(), strict=True)
            self.places += [RowPlace(placed.file_id, position, row_id) for position, row_id in found]
        self.hold([*made, pa.array(row_ids.astype(np.int64, copy=False))], count)

    def changed(self) -> ChangedPart:
        if not self.deletes and self.total <= self.few:
            return ChangedPart(self.total, few=self.few_rows())
        files = self.end().files
        return ChangedPart(self.total, tuple(self.positions.items()), tuple(self.row_ids), files)

    def few_rows(self) -> tuple[tuple[RowPlace, Row], ...]:
        found: list[Row] = []
        for made in self.held:
            columns = [
                self.part.target.column(column.attnum).form.from_array(array)
                for column, array in zip(self.part.columns, made, strict=False)
            ]
            found += zip(*columns, strict=True)
        return tuple(zip(self.places, found, strict=True))


def _exact(asked: Any) -> Callable[[Sequence[Any]], Any] | None:
    found: Callable[[Sequence[Any]], Any] | None = None if asked is None else asked.exact()
    return found


__all__ = ["ChangePart", "ChangedPart", "change_rows"]
