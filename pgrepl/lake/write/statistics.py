"""DuckLake's statistics of columns, for each file and for the table as a whole.

Bounds are text, in the order of DuckLake's type, which is not always PostgreSQL's: a numeric stored as text has bounds
of text. A table's bounds must hold for all rows that were ever in it, or readers leave out rows: each commit widens
them, and if a bound is not known the column's statistics are removed, which is always safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa, pc
from pgrepl.lake import sql
from pgrepl.lake.define.options import has_1_1
from pgrepl.types.lake.arrays import plain_array
from pgrepl.types.lake.lists import list_items

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.table import LakeColumn, LakeField, LakeTable
    from pgrepl.types.lake.arrays import Form

LONGEST = 256  # characters of a bound


@frozen
class ColumnStatistics:
    """The statistics of a column in a file, or in a statement's rows; `low` and `high` are DuckLake's text; None: not
    known, or there are no values."""

    values: int  # not counting NULLs
    nulls: int
    low: str | None
    high: str | None
    has_nan: bool | None = None  # of floats
    size: int | None = None  # bytes in the file

    @property
    def is_bounded(self) -> bool:
        """Are all values within the bounds?"""
        return self.values == 0 or (self.low is not None and self.high is not None)


@frozen
class Leaf:
    """A column, or the element of a list, with statistics."""

    column_id: int
    form: Form


def leaves(table: LakeTable) -> list[tuple[LakeColumn, Leaf]]:
    """The leaves of the table's columns."""
    leaves_and_columns = []
    for column in table.columns:
        form = column.form
        if form.element is not None and not column.fields[0].fields:
            leaves_and_columns.append((column, Leaf(column.fields[0].column_id, form.element)))
        elif not column.fields:
            leaves_and_columns.append((column, Leaf(column.column_id, form)))
    return leaves_and_columns


# --- values -------------------------------------------------------------------------------------------------------


def of_rows(table: LakeTable, rows: Sequence[Sequence[Any]]) -> dict[int, ColumnStatistics]:
    """The statistics of rows with values in the order of the table's columns."""
    position = {column.column_id: i for i, column in enumerate(table.columns)}
    statistics = {}
    for column, leaf in leaves(table):
        at = position[column.column_id]
        values = [row[at] for row in rows]
        if column.form.element is not None:
            values = [item for value in values for item in ([None] if value is None else list_items(value))]
        statistics[leaf.column_id] = of_values(leaf.form, values)
    return statistics


def of_values(form: Form, values: Iterable[Any]) -> ColumnStatistics:
    every = list(values)
    there = [v for v in every if v is not None]
    nulls = len(every) - len(there)
    floating = form.lake.startswith("float")
    comparable = [v for v in there if v == v] if floating else there
    has_nan = len(comparable) < len(there) if floating else None
    if not comparable or form.element is not None:
        return ColumnStatistics(len(there), nulls, None, None, has_nan)
    low: str | None
    high: str | None
    if is_text(form):
        texts = [form.to_arrow(v) for v in comparable]
        low, high = cut_low(min(texts)), cut_high(max(texts))
    elif form.ordered == "none":  # DuckLake has no bounds of it
        low = high = None
    else:
        low, high = form.to_stat(min(comparable)), form.to_stat(max(comparable))
        if form.lake == "blob":
            low, high = (None, None) if max(len(low or ""), len(high or "")) > LONGEST else (low, high)
    return ColumnStatistics(len(there), nulls, low, high, has_nan)


def is_text(form: Form) -> bool:
    return form.lake in ("varchar", "json")


def cut_low(text: str) -> str:
    return text[:LONGEST]


def cut_high(text: str) -> str | None:
    """A short text that is not less than this one."""
    if len(text) <= LONGEST:
        return text
    for end in range(LONGEST - 1, -1, -1):
        code = ord(text[end])
        following = 0xE000 if code == 0xD7FF else code + 1
        if following <= 0x10FFFF:
            return text[:end] + chr(following)
    return None


def of_array(form: Form, array: pa.Array) -> ColumnStatistics:
    """The statistics of an array of `form.to_array`; the caller has flattened lists."""
    array = plain_array(array)
    nulls = array.null_count
    there = len(array) - nulls
    has_nan = None
    if pa.types.is_floating(array.type):
        has_nan = bool(pc.any(pc.is_nan(array)).as_py())
        if has_nan:
            array = array.filter(pc.invert(pc.fill_null(pc.is_nan(array), True)))
    if len(array) - array.null_count == 0:
        return ColumnStatistics(there, nulls, None, None, has_nan)
    if form.ordered == "none" and not is_text(form):
        return ColumnStatistics(there, nulls, None, None, has_nan)
    least = pc.min_max(array)
    low, high = form.from_array(pa.array([least["min"], least["max"]], array.type))
    if not is_text(form):
        ends = of_values(form, [low, high])
        return replace(ends, values=there, nulls=nulls, has_nan=has_nan)
    return ColumnStatistics(there, nulls, cut_low(least["min"].as_py()), cut_high(least["max"].as_py()))


# --- union --------------------------------------------------------------------------------------------------------

_HEX = re.compile(r"(?:[0-9A-F]{2})*\Z")


def order(form: Form) -> Callable[[str], Any]:
    """The sort key of bounds' text in DuckLake's order of values; it raises ValueError for text that it does not
    know."""
    if is_text(form):
        return str
    if form.lake == "blob":
        return _blob
    if form.lake.startswith("float"):
        return _number
    if form.lake == "boolean":
        return _truth
    return form.from_stat


def _blob(text: str) -> str:
    if not _HEX.match(text):
        raise ValueError("not a binary string's bound")  # as DuckDB writes it for inlined rows
    return text


def _number(text: str) -> float:
    number = float(text)
    if number != number:
        raise ValueError("NaN is no bound")
    return number


def _truth(text: str) -> bool:
    return {"0": False, "1": True, "false": False, "true": True}[text]


def together(form: Form, one: ColumnStatistics, other: ColumnStatistics) -> ColumnStatistics:
    low = high = None
    if one.is_bounded and other.is_bounded:
        low, high = _widest(form, one.low, one.high, other.low, other.high)
    return ColumnStatistics(
        one.values + other.values,
        one.nulls + other.nulls,
        low,
        high,
        None if one.has_nan is None or other.has_nan is None else one.has_nan or other.has_nan,
        None if one.size is None or other.size is None else one.size + other.size,
    )


def _widest(
    form: Form, low: str | None, high: str | None, other_low: str | None, other_high: str | None
) -> tuple[str | None, str | None]:
    if low is None or high is None:
        return other_low, other_high
    if other_low is None or other_high is None:
        return low, high
    key = order(form)
    return min(low, other_low, key=key), max(high, other_high, key=key)


# --- tables -------------------------------------------------------------------------------------------------------


def store_of_file(session: Session, table_id: int, file_id: int, statistics: dict[int, ColumnStatistics]) -> None:
    session.link.execute_many(
        sql.INSERT_FILE_STATISTICS,
        [
            (file_id, table_id, column_id, s.size, s.values, s.nulls, s.low, s.high, _stored(session, s.has_nan))
            for column_id, s in statistics.items()
        ],
    )


def _stored(session: Session, value: bool | None) -> Any:
    return value if value is None or not session.link.is_sqlite else int(value)


Bounds = tuple[int, Any, Any, str | None, str | None]  # of a column: are there NULLs, NaNs; the lowest, the highest


def widen(
    session: Session, table: LakeTable, written: dict[int, ColumnStatistics], before: Sequence[Bounds] | None
) -> None:
    """Widen the table's bounds for new rows. `before`: the present bounds; None: nothing was written before."""
    link = session.link
    forms = {leaf.column_id: leaf.form for _, leaf in leaves(table)}
    if before is None:
        link.execute_many(
            sql.INSERT_COLUMN_STATISTICS,
            [
                (table.table_id, column_id, _stored(session, s.nulls > 0), _stored(session, s.has_nan), s.low, s.high)
                for column_id, s in written.items()
                if s.is_bounded or s.has_nan
            ],
        )
        return
    inside = [(table.table_id, inner) for column in table.columns for inner in _inner(column) if inner not in forms]
    if inside:
        link.execute_many(sql.DELETE_COLUMN_STATISTICS, inside)
    gone = {inner for _, inner in inside}
    for column_id, has_null, has_nan, low, high in before:
        new = written.get(column_id)
        if new is None or column_id in gone:
            continue
        after = _widened(forms.get(column_id), (has_null, has_nan, low, high), new)
        if after == (has_null, has_nan, low, high):
            continue
        if after is None or has_1_1(session):
            link.execute(sql.DELETE_COLUMN_STATISTICS, (table.table_id, column_id))
        if after is not None:
            has_null, has_nan = _stored(session, after[0]), _stored(session, after[1])
            if has_1_1(session):  # whether the bounds are exact is not known any more
                link.execute(sql.INSERT_COLUMN_STATISTICS, (table.table_id, column_id, has_null, has_nan, *after[2:]))
            else:
                link.execute(sql.UPDATE_COLUMN_STATISTICS, (has_null, has_nan, *after[2:], table.table_id, column_id))


def _inner(column: LakeColumn | LakeField) -> Iterator[int]:
    """The ids of a column's nested fields."""
    for field in column.fields:
        yield field.column_id
        yield from _inner(field)


_Row = tuple[Any, Any, Any, Any]


def _widened(form: Form | None, row: _Row, new: ColumnStatistics) -> _Row | None:
    """The table's row of statistics with new ones; None: its bounds are not known any more."""
    has_null, has_nan, low, high = row
    has_null = has_null or new.nulls > 0 if has_null is not None else None
    if has_nan is not None and new.has_nan is not None:
        has_nan = has_nan or new.has_nan
    elif new.values:
        has_nan = None
    if new.values == 0:
        return has_null, has_nan, low, high
    if form is None or low is None or high is None:
        return None  # nothing was known: NULLs alone, or values without bounds
    if not new.is_bounded:
        return (has_null, has_nan, low, high) if new.has_nan and new.low is None else None
    try:
        low, high = _widest(form, low, high, new.low, new.high)
    except (ValueError, ArithmeticError, KeyError):
        return None  # a text of another writer
    return has_null, has_nan, low, high
