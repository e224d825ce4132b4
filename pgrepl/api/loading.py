"""Values of results as Python's types, as psycopg gives them: date, datetime, timedelta, Decimal, UUID, lists, parsed
JSON. Types without a Python form are their text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any, TypeAlias

from pgrepl.api.exceptions import DataError
from pgrepl.query.result import ResultColumn
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import element_type
from pgrepl.types.dates import USECS_PER_DAY
from pgrepl.types.style import TextStyle
from pgrepl.types.text import writer

Load: TypeAlias = Callable[[Any], Any]

_AS_THEY_ARE = frozenset(
    {
        oids.BOOL, oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC, oids.TEXT,
        oids.VARCHAR, oids.BPCHAR, oids.NAME, oids.UNKNOWN, oids.UUID, oids.BYTEA, oids.CSTRING,
    }
)  # fmt: skip
_DAY = date(2000, 1, 1).toordinal()
_MOMENT = datetime(2000, 1, 1)
_UTC_MOMENT = datetime(2000, 1, 1, tzinfo=timezone.utc)
_SECOND = 1_000_000


def loaders(columns: Sequence[ResultColumn], style: TextStyle) -> list[Load | None]:
    """The functions that convert each column's values that are not NULL; None: values stay as they are."""
    return [loader(column.type, style) for column in columns]


def loaded(rows: Iterable[tuple[Any, ...]], loads: Sequence[Load | None]) -> Iterator[tuple[Any, ...]]:
    """Each row when it is asked for. A value that Python cannot hold is an error of its row only."""
    if not any(loads):
        return iter(rows)

    def row_of(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([v if v is None or load is None else load(v) for load, v in zip(loads, row, strict=True)])

    return map(row_of, rows)


def loader(typoid: int, style: TextStyle) -> Load | None:
    if typoid in _AS_THEY_ARE:
        return None
    if typoid == oids.DATE:
        return _date
    if typoid == oids.TIME:
        return _time
    if typoid == oids.TIMETZ:
        return _timetz
    if typoid == oids.TIMESTAMP:
        return _timestamp
    if typoid == oids.TIMESTAMPTZ:
        return _zoned(style.timezone)
    if typoid == oids.INTERVAL:
        return _interval
    if typoid in (oids.JSON, oids.JSONB):
        return lambda value: json.loads(str(value))
    element = element_type(typoid)
    if typoid in (oids.INT2VECTOR, oids.OIDVECTOR):
        return lambda value: list(value.items)
    if element:
        return _array(loader(element, style))
    write = writer(typoid)
    return lambda value: write(value, style)


def _date(days: int) -> date:
    try:
        return date.fromordinal(_DAY + days)
    except (ValueError, OverflowError):
        raise _out_of_range("date") from None


def _time(usecs: int) -> time:
    if usecs >= USECS_PER_DAY:
        raise DataError("time 24:00:00 is not a time of Python's; select it as text: column::text")
    seconds, usec = divmod(usecs, _SECOND)
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60, usec)


def _timetz(value: Any) -> time:
    usecs, west = value
    return _time(usecs).replace(tzinfo=timezone(timedelta(seconds=-west)))


def _timestamp(usecs: int) -> datetime:
    try:
        return _MOMENT + timedelta(microseconds=usecs)
    except OverflowError:
        raise _out_of_range("timestamp") from None


def _zoned(name: str) -> Load:
    zone = _zone(name)

    def load(usecs: int) -> datetime:
        try:
            return (_UTC_MOMENT + timedelta(microseconds=usecs)).astimezone(zone)
        except OverflowError:
            raise _out_of_range("timestamp with time zone") from None

    return load


def _zone(name: str) -> tzinfo:
    """The session's time zone; one that only PostgreSQL knows (`<+03>-03`) becomes UTC."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        return timezone.utc


def _interval(value: Any) -> timedelta:
    """A month counts as 30 days and a year as 365, as in psycopg."""
    months, days, usecs = value
    years, months = (abs(months) // 12, abs(months) % 12) if months >= 0 else (-(-months // 12), -(-months % 12))
    try:
        return timedelta(days=years * 365 + months * 30 + days, microseconds=usecs)
    except OverflowError:
        raise _out_of_range("interval") from None


def _array(load: Load | None) -> Load:
    def made(value: PgArray) -> list[Any]:
        items = list(value.items) if load is None else [None if v is None else load(v) for v in value.items]
        for size in reversed(value.dims[1:]):
            items = [items[at : at + size] for at in range(0, len(items), size)]
        return items

    return made


def _out_of_range(what: str) -> DataError:
    return DataError(f"{what} out of range of Python's; select it as text: column::text")
