"""Variance, deviation, correlation and regression, ordered-set and hypothetical-set aggregates, as accumulators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.functions.arithmetic import float_overflow
from pgrepl.expr.functions.numeric import divide, division_scale, square_root
from pgrepl.expr.functions.registry import Call
from pgrepl.expr.functions.times.intervals import interval_mi, interval_mul, interval_pl
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import proc_by_oid
from pgrepl.types.numeric import EXACT, NAN, ZERO, checked
from pgrepl.types.values import compare_nullable, comparer, hash_form, row_hash_form


class Moments:
    """Count, sum and sum of squares: floats by the Youngs-Cramer algorithm, numeric exactly."""

    def __init__(self, exact: bool, sample: bool, root: bool) -> None:
        self.exact = exact
        self.sample = sample
        self.root = root
        self.count = 0
        self.total: Any = Decimal(0) if exact else 0.0
        self.squares: Any = Decimal(0) if exact else 0.0
        self.special = False

    def add(self, *values: Any) -> None:
        (value,) = values
        if value is None:
            return
        self.count += 1
        if self.exact:
            value = Decimal(value)
            if not value.is_finite():
                self.special = True
                return
            self.total = EXACT.add(self.total, value)
            self.squares = EXACT.add(self.squares, EXACT.multiply(value, value))
            return
        before = self.total
        self.total += value
        if self.count > 1:
            step = value * self.count - self.total
            self.squares += step * step / (self.count * (self.count - 1))
            if math.isinf(self.total) or math.isinf(self.squares):
                if not math.isinf(before) and not math.isinf(value):
                    raise float_overflow()
                self.squares = math.nan
        elif not math.isfinite(value):
            self.squares = math.nan

    def result(self) -> Any:
        if self.count < (2 if self.sample else 1):
            return None
        divisor = self.count - 1 if self.sample else self.count
        if not self.exact:
            return math.sqrt(self.squares / divisor) if self.root else self.squares / divisor
        if self.special:
            return NAN
        return numeric_stddev(self.count, self.total, self.squares, sample=self.sample, variance=not self.root)


def _moments(sample: bool, root: bool) -> Callable[[Call], Moments]:
    return lambda call: Moments(call.argtypes[0] not in (oids.FLOAT4, oids.FLOAT8), sample, root)


class Regression:
    """The Youngs-Cramer sums over pairs (Y, X), as in float8_regr_accum."""

    def __init__(self, finish: Callable[[Regression], float | None]) -> None:
        self.finish = finish
        self.n = 0
        self.sx = self.sxx = self.sy = self.syy = self.sxy = 0.0

    def add(self, *values: Any) -> None:
        y, x = values
        if y is None or x is None:
            return
        before_x, before_y = self.sx, self.sy
        self.n += 1
        self.sx += x
        self.sy += y
        if self.n > 1:
            dx, dy = x * self.n - self.sx, y * self.n - self.sy
            scale = 1.0 / (self.n * (self.n - 1))
            self.sxx += dx * dx * scale
            self.syy += dy * dy * scale
            self.sxy += dx * dy * scale
            infinite_x = math.isinf(before_x) or math.isinf(x)
            infinite_y = math.isinf(before_y) or math.isinf(y)
            self._leave_no_infinity(infinite_x, infinite_y)
            return
        if not math.isfinite(x):
            self.sxx = self.sxy = math.nan
        if not math.isfinite(y):
            self.syy = self.sxy = math.nan

    def _leave_no_infinity(self, infinite_x: bool, infinite_y: bool) -> None:
        """Infinite input makes a sum NaN; a finite input that overflows is an error."""
        grown_x = math.isinf(self.sx) or math.isinf(self.sxx)
        grown_y = math.isinf(self.sy) or math.isinf(self.syy)
        if (
            (grown_x and not infinite_x)
            or (grown_y and not infinite_y)
            or (math.isinf(self.sxy) and not infinite_x and not infinite_y)
        ):
            raise float_overflow()
        self.sxx, self.syy, self.sxy = (
            math.nan if math.isinf(value) else value for value in (self.sxx, self.syy, self.sxy)
        )

    def result(self) -> float | None:
        return self.finish(self) if self.n else None


def _corr(r: Regression) -> float | None:
    return r.sxy / math.sqrt(r.sxx * r.syy) if r.sxx and r.syy else None


def _r2(r: Regression) -> float | None:
    if not r.sxx:
        return None
    return (r.sxy * r.sxy) / (r.sxx * r.syy) if r.syy else 1.0


_REGRESSIONS: dict[str, Callable[[Regression], float | None]] = {
    "regr_sxx": lambda r: r.sxx,
    "regr_syy": lambda r: r.syy,
    "regr_sxy": lambda r: r.sxy,
    "regr_avgx": lambda r: r.sx / r.n,
    "regr_avgy": lambda r: r.sy / r.n,
    "regr_slope": lambda r: r.sxy / r.sxx if r.sxx else None,
    "regr_intercept": lambda r: (r.sy - r.sx * r.sxy / r.sxx) / r.n if r.sxx else None,
    "regr_r2": _r2,
    "corr": _corr,
    "covar_pop": lambda r: r.sxy / r.n,
    "covar_samp": lambda r: r.sxy / (r.n - 1) if r.n > 1 else None,
}


def _regression(finish: Callable[[Regression], float | None]) -> Callable[[Call], Regression]:
    return lambda call: Regression(finish)


def numeric_stddev(count: int, total: Decimal, squares: Decimal, *, sample: bool, variance: bool) -> Decimal:
    """Variance or standard deviation from the sums, as numeric_stddev_internal computes it."""
    number = Decimal(count)
    spread = EXACT.subtract(EXACT.multiply(number, squares), EXACT.multiply(total, total))
    if spread <= 0:
        return ZERO
    divisor = EXACT.multiply(number, number - 1 if sample else number)
    scale = division_scale(spread, divisor)
    result = divide(spread, divisor, scale)
    return checked(result if variance else square_root(result, scale))


MAKERS: dict[str, Callable[[Call], Moments | Regression]] = {
    "stddev": _moments(sample=True, root=True),
    "stddev_samp": _moments(sample=True, root=True),
    "stddev_pop": _moments(sample=False, root=True),
    "variance": _moments(sample=True, root=False),
    "var_samp": _moments(sample=True, root=False),
    "var_pop": _moments(sample=False, root=False),
    **{name: _regression(finish) for name, finish in _REGRESSIONS.items()},
}


# --- ordered sets -----------------------------------------------------------------------------------------------------


Rows = Sequence[tuple[Any, ...]]


def ordered_set(node: tree.Aggref, direct: Sequence[Any], rows: Rows) -> Any:
    """The result of an aggregate. direct: its direct arguments; rows: the sorted values of WITHIN GROUP, row by row."""
    proc = proc_by_oid(node.func)
    assert proc is not None
    compute = _FUNCTIONS.get(proc.name)
    if compute is None:
        raise unsupported(f"aggregate function {proc.name}")
    return compute(node, direct, rows)


def _present(rows: Rows) -> list[Any]:
    return [row[0] for row in rows if row[0] is not None]


def _fraction(value: float) -> float:
    if value < 0 or value > 1 or math.isnan(value):
        raise PgError("22003", f"percentile value {value:g} is not between 0 and 1")
    return value


def _each(fractions: Any, values: list[Any], pick: Callable[[float, list[Any]], Any], elemtype: int) -> Any:
    """Apply to one fraction, or to each fraction of an array."""
    if fractions is None:
        return None
    if not isinstance(fractions, PgArray):
        _fraction(fractions)
        return pick(fractions, values) if values else None
    for item in fractions.items:
        if item is not None:
            _fraction(item)
    if not values:
        return None
    items = tuple(None if item is None else pick(item, values) for item in fractions.items)
    return PgArray(elemtype, fractions.dims, fractions.lbounds, items)


def _discrete(fraction: float, values: list[Any]) -> Any:
    return values[max(math.ceil(fraction * len(values)), 1) - 1]


def _continuous(typoid: int) -> Callable[[float, list[Any]], Any]:
    def pick(fraction: float, values: list[Any]) -> Any:
        place = fraction * (len(values) - 1)
        low, high = values[math.floor(place)], values[math.ceil(place)]
        share = place - math.floor(place)
        if math.floor(place) == math.ceil(place):
            return low
        if typoid == oids.INTERVAL:
            return interval_pl(low, interval_mul(interval_mi(high, low), share))
        return low + share * (high - low)

    return pick


def _percentile_disc(node: tree.Aggref, direct: Sequence[Any], rows: Rows) -> Any:
    return _each(direct[0], _present(rows), _discrete, node.args[0].type)


def _percentile_cont(node: tree.Aggref, direct: Sequence[Any], rows: Rows) -> Any:
    typoid = node.args[0].type
    return _each(direct[0], _present(rows), _continuous(typoid), typoid)


def _mode(node: tree.Aggref, direct: Sequence[Any], rows: Rows) -> Any:
    form = hash_form(node.args[0].type)
    counts: dict[Any, list[Any]] = {}
    for value in _present(rows):
        counts.setdefault(form(value), []).append(value)
    return max(counts.values(), key=len)[0] if counts else None


def _compare(node: tree.Aggref, row: tuple[Any, ...], other: Sequence[Any]) -> int:
    """Compare two rows by the sort keys of WITHIN GROUP."""
    for key, a, b in zip(node.order, row, other, strict=True):
        order = compare_nullable(comparer(key.expr.type), a, b)
        if order and (a is None or b is None):
            return -order if key.nulls_first else order
        if order:
            return -order if key.descending else order
    return 0


def _rank(node: tree.Aggref, direct: Sequence[Any], rows: Rows) -> int:
    return sum(_compare(node, row, direct) < 0 for row in rows) + 1


def _dense_rank(node: tree.Aggref, direct: Sequence[Any], rows: Rows) -> int:
    form = row_hash_form(key.expr.type for key in node.order)
    before = {form(row) for row in rows if _compare(node, row, direct) < 0}
    return len(before) + 1


def _percent_rank(node: tree.Aggref, direct: Sequence[Any], rows: Rows) -> float:
    return (_rank(node, direct, rows) - 1) / len(rows) if rows else 0.0


def _cume_dist(node: tree.Aggref, direct: Sequence[Any], rows: Rows) -> float:
    return (sum(_compare(node, row, direct) <= 0 for row in rows) + 1) / (len(rows) + 1)


_FUNCTIONS: dict[str, Callable[[tree.Aggref, Sequence[Any], Rows], Any]] = {
    "percentile_disc": _percentile_disc,
    "percentile_cont": _percentile_cont,
    "mode": _mode,
    "rank": _rank,
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
}
