"""The values of one type that an = between two types calls equal to a value of the other: for looking up keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

EqualValues = Callable[[Any], Sequence[Any]]

_INTEGERS = {oids.INT2: 16, oids.INT4: 32, oids.INT8: 64}
_TIMES = (oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ)  # an = between two of them compares values of the latter


def equal_values(session: Session, source: int, target: int) -> EqualValues:
    """The map from a value of the source type to the equal values of the target type: none, one or several."""
    source, target = typefacts.base(source), typefacts.base(target)
    if source == target:
        return lambda value: (value,)
    bits = _INTEGERS.get(target)
    if bits is not None:
        return lambda value: _integers(value, bits)
    if target == oids.NUMERIC:
        return lambda value: (value if isinstance(value, Decimal) else Decimal(value),)
    if target in (oids.FLOAT4, oids.FLOAT8):
        return lambda value: (float(value),)
    if source in _TIMES and target in _TIMES:
        return _times(session, source, target)
    return lambda value: (value,)


def _integers(value: Any, bits: int) -> Sequence[int]:
    if isinstance(value, (Decimal, float)):
        if value != value or value in (float("inf"), float("-inf")) or value != int(value):
            return ()
        value = int(value)
    return (int(value),) if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else ()


def _times(session: Session, source: int, target: int) -> EqualValues:
    if _TIMES.index(source) < _TIMES.index(target):
        convert = _conversion(session, source, target)

        def converted(value: int) -> Sequence[int]:
            found = convert(value)
            return () if found is None else (found,)

        return converted

    back = _conversion(session, target, source)
    candidates = _local_times(session) if source == oids.TIMESTAMPTZ else lambda value: {value}

    def sources(value: int) -> Sequence[int]:
        from pgrepl.types.dates import INFINITY, USECS_PER_DAY

        if abs(value) == INFINITY:
            return (value,)
        found = candidates(value)
        if target == oids.DATE:
            found = {each // USECS_PER_DAY for each in found}
        return [each for each in found if back(each) == value]

    return sources


def _conversion(session: Session, source: int, target: int) -> Callable[[int], int | None]:
    """The cast to the later type; None for a value out of its range, to which nothing is equal."""
    from pgrepl.expr.functions.date_arithmetic import date_as_timestamp
    from pgrepl.expr.functions.datetime import local_to_utc
    from pgrepl.types.lake_times import timestamp_to_lake

    style = session.text_style

    def convert(value: int) -> int | None:
        try:
            found = date_as_timestamp(value) if source == oids.DATE else value
            if target == oids.TIMESTAMPTZ:
                found = local_to_utc(found, style)
            timestamp_to_lake(found)  # a table holds fewer
        except PgError:
            return None
        return found

    return convert


def _local_times(session: Session) -> Callable[[int], set[int]]:
    """The local times that may mean a moment. Those that are left out when clocks go forward mean later ones, so that
    two may mean the same."""
    from pgrepl.types.dates import UNIX_EPOCH_USECS, USECS_PER_DAY, USECS_PER_SEC
    from pgrepl.types.datetime_decoding import session_zone

    zone = session_zone(session.text_style)

    def local(value: int) -> set[int]:
        near = [value - UNIX_EPOCH_USECS + days * USECS_PER_DAY for days in (-1, 0, 1)]
        return {value + zone.at(moment // USECS_PER_SEC).seconds * USECS_PER_SEC for moment in near}

    return local
