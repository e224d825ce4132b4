"""RANGE frames with an offset: whether a row's key lies within the offset of another's, as PostgreSQL's in_range
functions say for each type that has one."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr.context import Call, Context
from pgrepl.expr.functions import date_arithmetic, intervals
from pgrepl.types import oids
from pgrepl.types.dates import INFINITY, USECS_PER_DAY
from pgrepl.types.interval import INFINITE, MINUS_INFINITE, Interval
from pgrepl.types.values import order_key


def edge(typoid: int, key: Any, offset: Any, *, down: bool, context: Context) -> tuple[Any, Callable[[Any], Any]]:
    """(the edge of a frame that begins or ends `offset` away from `key`, a function that makes keys comparable to it).

    The edge is None where no key of this type is beyond it.
    """
    if typoid in (oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ):
        return _moment_edge(typoid, key, offset, down, context)
    order = order_key(typoid) or (lambda value: value)
    if typoid in (oids.TIME, oids.TIMETZ):
        _check_size(offset.usecs < 0)
        usecs = -offset.usecs if down else offset.usecs
        if typoid == oids.TIME:
            return key + usecs, order
        return order(key._replace(usecs=key.usecs + usecs)), order
    if typoid == oids.INTERVAL:
        _check_size(order(offset) < order(Interval(0, 0, 0)))
        if offset == INFINITE and key == (INFINITE if down else MINUS_INFINITE):
            return None, order
        moved = intervals.interval_mi(key, offset) if down else intervals.interval_pl(key, offset)
        return order(moved), order
    return _number_edge(key, offset, down, order)


def _check_size(negative: bool) -> None:
    if negative:
        raise PgError("22013", "invalid preceding or following size in window function")


def _moment_edge(
    typoid: int, key: int, offset: Interval, down: bool, context: Context
) -> tuple[int | None, Callable[[Any], Any]]:
    order = order_key(oids.INTERVAL) or (lambda value: value)
    _check_size(order(offset) < order(Interval(0, 0, 0)))

    def usecs(value: int) -> int:
        if typoid == oids.DATE and value not in (INFINITY, -INFINITY):
            return value * USECS_PER_DAY
        return value

    if offset == INFINITE and key == (INFINITY if down else -INFINITY):
        return None, usecs
    if typoid == oids.TIMESTAMPTZ:
        call = Call(context, (oids.TIMESTAMPTZ, oids.INTERVAL), oids.TIMESTAMPTZ)
        move = date_arithmetic.timestamptz_mi_interval if down else date_arithmetic.timestamptz_pl_interval
        return move(call, key, offset), usecs
    plain = date_arithmetic.timestamp_mi_interval if down else date_arithmetic.timestamp_pl_interval
    return plain(usecs(key), offset), usecs


def _number_edge(key: Any, offset: Any, down: bool, order: Callable[[Any], Any]) -> tuple[Any, Callable[[Any], Any]]:
    is_nan = offset != offset
    _check_size(is_nan or offset < 0)
    infinite = isinstance(offset, (float, Decimal)) and abs(offset) == Decimal("Infinity")
    if infinite and key == (offset if down else -offset):
        return None, order
    if key != key:
        return order(key), order
    return order(key - offset if down else key + offset), order
