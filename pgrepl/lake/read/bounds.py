"""Bounds of columns that follow from a condition, by which files and row groups are skipped.

A scan with bounds gives a superset of the matching rows: the caller still applies the condition itself. A comparison
with NULL is never true, so rows with NULL in a bounded column are left out, unless the bound is that it is NULL.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa, pc
from pgrepl.types import oids
from pgrepl.types.lake.arrays import plain_array, storage_type

if TYPE_CHECKING:
    from pgrepl.lake.table import LakeColumn, LakeTable
    from pgrepl.types.lake.arrays import Form


@frozen
class Bound:
    """A bound: `low` and `high` are Python values of the column's type, None: open; `values`: the column is one of
    them; `is_null`: it is NULL. A bound without any of these says that the column is not NULL.

    Strings are compared by code points: bounds for text need a collation that orders so (equality needs none).
    """

    attnum: int
    low: Any = None
    high: Any = None
    low_inclusive: bool = True
    high_inclusive: bool = True
    values: tuple[Any, ...] | None = None
    is_null: bool = False

    @property
    def counted(self) -> tuple[Any, ...] | None:
        """The values that the column may have, if they are listed."""
        if self.values is None and self.low is not None and self.low == self.high:
            return (self.low,)
        return self.values


class Limit:
    """A bound on a column, prepared for comparison with statistics and with arrays."""

    def __init__(self, column: LakeColumn, bound: Bound) -> None:
        self.column = column
        self.form: Form = column.form
        self.is_null = bound.is_null
        ordered = self.form.ordered
        self.low = bound.low if ordered == "full" else None
        self.high = None if ordered != "full" or is_nan(bound.high) else bound.high  # nothing is above NaN
        self.low_inclusive = bound.low_inclusive
        self.high_inclusive = bound.high_inclusive or bound.high is not self.high
        self.values: list[Any] | None = None
        self.wants_nan = False
        self.numbers: list[Any] | None = None  # values of a numeric that is kept as text
        wanted = bound.values
        if wanted is None and bound.low is not None and bound.low_inclusive and bound.high_inclusive:
            wanted = (bound.low,) if bound.low == bound.high else None  # for types without order, too
        if wanted is not None:
            values = [v for v in wanted if v is not None]
            if ordered == "none":
                self.numbers = values if column.typoid == oids.NUMERIC else None
            else:
                self.wants_nan = any(is_nan(v) for v in values)
                sized = self.form.sized
                self.values = sorted({v if sized is None else sized(v) for v in values if not is_nan(v)})

    @property
    def says_something(self) -> bool:
        """Can it exclude values, not only NULLs?"""
        return (
            self.is_null
            or self.low is not None
            or self.high is not None
            or self.values is not None
            or self.numbers is not None
        )

    def misses(self, low: Any, high: Any, *, may_have_nan: bool) -> bool:
        """Is no value from `low` to `high` within the bound? `low` and `high` None: not known."""
        if low is None or high is None:
            return False
        if self.values is not None:
            if self.wants_nan and may_have_nan:
                return False
            at = bisect_left(self.values, low)
            if at == len(self.values) or self.values[at] > high:
                return True
        if self.low is not None and not may_have_nan and not is_nan(self.low):
            if self.low > high or (self.low == high and not self.low_inclusive):
                return True
        if self.high is not None:
            if self.high < low or (self.high == low and not self.high_inclusive):
                return True
        return False

    def mask(self, array: pa.Array) -> pa.Array:
        """A boolean array without NULLs: which of a column's values may be within the bound."""
        array = plain_array(array)
        if self.is_null:
            return pc.is_null(array)
        mask = pc.is_valid(array)
        try:
            if self.numbers is not None:
                return pc.and_(mask, pc.fill_null(_near(array, self.numbers), False))
            within = self._within(array)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError, PgError):
            return mask  # a bound that the column's type cannot hold: the condition itself decides
        if within is None:
            return mask
        return pc.and_(mask, pc.fill_null(within, False)) if array.null_count else within

    def _within(self, array: pa.Array) -> pa.Array:

        kind = storage_type(self.form.arrow())
        if array.type != kind:
            array = array.cast(kind)
        floating = pa.types.is_floating(kind)
        tests = []
        if self.values is not None:
            values = pa.array([self.form.to_arrow(v) for v in self.values], kind)
            test = _equals_one(array, values)
            tests.append(pc.or_(test, pc.is_nan(array)) if self.wants_nan else test)
        if self.low is not None:
            if is_nan(self.low):
                return pc.is_nan(array) if floating else None
            compare = pc.greater_equal if self.low_inclusive else pc.greater
            test = compare(array, pa.scalar(self.form.to_arrow(self.low), kind))
            tests.append(pc.or_(test, pc.is_nan(array)) if floating else test)
        if self.high is not None:
            compare = pc.less_equal if self.high_inclusive else pc.less
            tests.append(compare(array, pa.scalar(self.form.to_arrow(self.high), kind)))
        mask = None
        for test in tests:
            mask = test if mask is None else pc.and_(mask, test)
        return mask


_FEW = 4


def _equals_one(array: pa.Array, values: Any) -> pa.Array:
    """A mask of the elements that are one of the values; a few values are compared one by one, which is much faster."""
    if not 0 < len(values) <= _FEW:
        if pa.types.is_floating(values.type):  # the two zeros are equal, but not alike
            array = pc.if_else(pc.equal(array, 0.0), pa.scalar(0.0, values.type), array)
            values = pc.if_else(pc.equal(values, 0.0), pa.scalar(0.0, values.type), values)
        return pc.is_in(array, value_set=values)
    mask = pc.equal(array, values[0])
    for i in range(1, len(values)):
        mask = pc.or_(mask, pc.equal(array, values[i]))
    return mask


def _near(texts: pa.Array, numbers: list[Any]) -> Any:
    """A mask of the texts of numbers that may equal one of the numbers: equal numbers have the same double."""
    doubles = texts.cast(pa.float64())
    wanted = [float(n) for n in numbers]
    mask = pc.is_in(doubles, value_set=pa.array([w for w in wanted if w == w], pa.float64()))
    return pc.or_(mask, pc.is_nan(doubles)) if any(w != w for w in wanted) else mask


def is_nan(value: Any) -> bool:
    return bool(value != value)


def limits(table: LakeTable, bounds: Sequence[Bound]) -> list[Limit]:
    return [Limit(table.column(bound.attnum), bound) for bound in bounds]
