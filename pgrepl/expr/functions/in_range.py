"""in_range(): whether a value is in a window frame of RANGE with an offset."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pgrepl.expr.functions.registry import Call, Context, Family
from pgrepl.expr.functions.times import date_arithmetic, intervals
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.numeric import EXACT
from pgrepl.types.times.dates import INFINITY
from pgrepl.types.times.interval import INFINITE, MINUS_INFINITE, Interval
from pgrepl.types.values import order_key

implements = Family()

_MOMENTS = (oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ)
_ANY = object()  # the edge that lies before or behind every key


class InRange:
    """The test for one offset over keys of a type."""

    def __init__(self, typoid: int, offset: Any, context: Context) -> None:
        self._type = typoid
        self._offset = offset
        self._context = context
        self._order: Callable[[Any], Any] = order_key(typoid) or (lambda value: value)
        self._known: tuple[Any, bool] | None = None
        self._edge: Any = None

    def __call__(self, value: Any, base: Any, *, sub: bool, less: bool) -> bool:
        """Whether `value` is at most (`less`) or at least `base` - offset (`sub`) or + offset."""
        if self._type == oids.DATE:
            value, base = date_arithmetic.date_as_timestamp(value), date_arithmetic.date_as_timestamp(base)
        if self._known is None:
            self._check_size()
        if value != value:  # NaN is equal to itself, and above all else
            return base != base or not less
        if base != base:
            return less
        if self._known != (base, sub):
            self._known, self._edge = (base, sub), self._moved(base, sub)
        if self._edge is _ANY:
            return True
        order = self._order(value)
        return bool(order <= self._edge if less else order >= self._edge)

    def _check_size(self) -> None:
        offset = self._offset
        if self._type in (oids.TIME, oids.TIMETZ):
            wrong = offset.usecs < 0
        elif isinstance(offset, Interval):
            order = order_key(oids.INTERVAL)
            assert order is not None
            wrong = order(offset) < order(Interval(0, 0, 0))
        else:
            wrong = offset != offset or offset < 0
        if wrong:
            raise PgError("22013", "invalid preceding or following size in window function")

    def _moved(self, base: Any, sub: bool) -> Any:
        """The begin or the end of the frame, in the order of the keys."""
        offset = self._offset
        if self._type == oids.TIME:
            return base - offset.usecs if sub else base + offset.usecs
        if self._type == oids.TIMETZ:
            return self._order(base._replace(usecs=base.usecs - offset.usecs if sub else base.usecs + offset.usecs))
        if self._type in _MOMENTS:
            return self._moment(base, sub)
        if self._type == oids.INTERVAL:
            if offset == INFINITE and base == (INFINITE if sub else MINUS_INFINITE):
                return _ANY
            return self._order(intervals.interval_mi(base, offset) if sub else intervals.interval_pl(base, offset))
        if isinstance(base, Decimal):
            return self._decimal(base, offset, sub)
        if isinstance(base, float) and math.isinf(base) and base == (offset if sub else -offset):
            return _ANY  # the infinity that is moved by infinity towards the other
        return self._order(base - offset if sub else base + offset)

    def _decimal(self, base: Decimal, offset: Decimal, sub: bool) -> Any:
        if base.is_infinite() and base == (offset if sub else offset.copy_negate()):
            return _ANY
        return self._order(EXACT.subtract(base, offset) if sub else EXACT.add(base, offset))

    def _moment(self, base: int, sub: bool) -> Any:
        if self._offset == INFINITE and base == (INFINITY if sub else -INFINITY):
            return _ANY
        if self._type == oids.TIMESTAMPTZ:
            call = Call(self._context, (oids.TIMESTAMPTZ, oids.INTERVAL), oids.TIMESTAMPTZ)
            move = date_arithmetic.timestamptz_mi_interval if sub else date_arithmetic.timestamptz_pl_interval
            return move(call, base, self._offset)
        plain = date_arithmetic.timestamp_mi_interval if sub else date_arithmetic.timestamp_pl_interval
        return plain(base, self._offset)


@implements(
    *(f"in_range_{types}" for types in ("int2_int2", "int2_int4", "int2_int8", "int4_int2", "int4_int4", "int4_int8")),
    *(f"in_range_{types}" for types in ("int8_int8", "float4_float8", "float8_float8", "numeric_numeric")),
    *(f"in_range_{name}_interval" for name in ("date", "time", "timetz", "timestamp", "timestamptz", "interval")),
    context=True,
)
def in_range(call: Call, value: Any, base: Any, offset: Any, sub: bool, less: bool) -> bool:
    return InRange(call.argtypes[0], offset, call.context)(value, base, sub=sub, less=less)
