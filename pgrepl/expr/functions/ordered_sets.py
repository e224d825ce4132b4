"""Ordered-set and hypothetical-set aggregates: percentiles, mode, hypothetical ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pgrepl.errors import PgError, unsupported
from pgrepl.expr import tree
from pgrepl.expr.functions.intervals import interval_mi, interval_mul, interval_pl
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import proc_by_oid
from pgrepl.types.values import compare_nullable, comparer, hash_form, row_hash_form

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
