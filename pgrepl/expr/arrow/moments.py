"""Timestamps by columns: moved by spans of time that have no days and no months.

Where PostgreSQL may report an error, and for infinity, Arrow's error is raised: rows are then evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.arrow.compiler import Columnar, Columns, NotColumnar, Run, argument
from pgrepl.expr.walk import functions_used
from pgrepl.types import oids
from pgrepl.types.builtin import proc_by_oid
from pgrepl.types.dates import MIN_TIMESTAMP, UNIX_EPOCH_USECS
from pgrepl.types.interval import Interval, is_finite

_LEAST = MIN_TIMESTAMP - UNIX_EPOCH_USECS
_MOST = 1 << 62  # of timestamps and of spans: their sum is a whole number of 64 bits, and a timestamp of a lake
_FACTOR_FIRST = {"interval_mul": False, "mul_d_interval": True}


def moved(args: Sequence[tree.Expr], sign: int) -> Columnar:
    """A timestamp plus or minus an interval."""
    import pyarrow as pa
    import pyarrow.compute as pc

    value, span = argument(args[0], (oids.TIMESTAMP,)), _microseconds(args[1])
    add = pc.add if sign > 0 else pc.subtract

    def run(columns: Columns) -> Any:
        found = add(_within(pc.cast(value.run(columns), pa.int64())), _within(span(columns)))
        return pc.cast(_within(found), value.type)

    return Columnar(oids.TIMESTAMP, value.type, run)


def _within(found: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    least, most = pc.min(found).as_py(), pc.max(found).as_py()
    if least is not None and (least < _LEAST or most > _MOST):
        raise pa.ArrowInvalid("a timestamp that may be out of range")
    return found


def _microseconds(node: tree.Expr) -> Run:
    """An interval that is known, or a multiple of it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(node, tree.Const):
        known = pa.scalar(_length(node), pa.int64())
        return lambda columns: known
    proc = proc_by_oid(next(functions_used(node), 0))
    if proc is None or proc.src not in _FACTOR_FIRST or not isinstance(node, (tree.OpExpr, tree.FuncExpr)):
        raise NotColumnar("an interval")
    one, other = node.args
    factor, span = (one, other) if _FACTOR_FIRST[proc.src] else (other, one)
    length, times = float(_length(span)), argument(factor, (oids.FLOAT8,)).run

    def run(columns: Columns) -> Any:
        product = pc.multiply(times(columns), length)
        return pc.cast(pc.round(product, round_mode="half_to_even"), pa.int64())

    return run


def _length(node: tree.Expr) -> int:
    span = node.value if isinstance(node, tree.Const) else None
    if not isinstance(span, Interval) or span.months or span.days or not is_finite(span):
        raise NotColumnar("an interval of days or months, or one that is not known")
    return span.usecs


__all__ = ["moved"]
