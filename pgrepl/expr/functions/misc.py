"""Functions without a family of their own: uuid, boolean, type names, pg_num_nulls, pg_input_is_valid, pg_sleep."""

from __future__ import annotations

import re
import secrets
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from uuid import UUID

from pgrepl.errors import PgError
from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family
from pgrepl.interrupts import pause
from pgrepl.types.arrays import PgArray
from pgrepl.types.interval import Interval
from pgrepl.types.names import format_type
from pgrepl.types.numeric import read_numeric, write_numeric

implements = Family()


@implements("gen_random_uuid")
def gen_random_uuid() -> UUID:
    return UUID(bytes=secrets.token_bytes(16), version=4)


def _is_rfc(value: UUID) -> bool:
    return value.bytes[8] & 0xC0 == 0x80


@implements("uuid_extract_version")
def uuid_extract_version(value: UUID) -> int | None:
    return value.bytes[6] >> 4 if _is_rfc(value) else None


@implements("uuid_extract_timestamp")
def uuid_extract_timestamp(value: UUID) -> int | None:
    """The timestamp of a uuid; version 1 counts 100 nanoseconds since the Gregorian calendar began."""
    if not _is_rfc(value) or value.bytes[6] >> 4 != 1:
        return None
    usecs = value.time // 10
    return usecs - (2451545 - 2299161) * 86_400_000_000


@implements("booland_statefunc")
def booland_statefunc(a: bool, b: bool) -> bool:
    return a and b


@implements("boolor_statefunc")
def boolor_statefunc(a: bool, b: bool) -> bool:
    return a or b


def _arguments(call: Call, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    if not call.variadic:
        return values
    (array,) = values
    return None if array is None else array.items


@implements("pg_num_nulls", context=True)
def pg_num_nulls(call: Call, *values: Any) -> int | None:
    given = _arguments(call, values)
    return None if given is None else sum(value is None for value in given)


@implements("pg_num_nonnulls", context=True)
def pg_num_nonnulls(call: Call, *values: Any) -> int | None:
    given = _arguments(call, values)
    return None if given is None else sum(value is not None for value in given)


@implements("pg_typeof", context=True)
def pg_typeof(call: Call, value: Any) -> int:
    return call.argtypes[0]


@implements("pg_basetype")
def pg_basetype(typoid: int) -> int | None:
    from pgrepl.types.builtin import base_type, type_by_oid

    return base_type(typoid) if type_by_oid(typoid) is not None else None


@implements("oidvectortypes")
def oidvectortypes(vector: PgArray) -> str:
    return ", ".join(format_type(typoid) for typoid in vector.items)


def _input_error(call: Call, text: str, name: str) -> PgError | None:
    from pgrepl.types.builtin import type_by_name
    from pgrepl.types.text import read_text

    typmod = -1
    if call.context.has_session:
        from pgrepl.expr.catalog_names import type_and_modifier

        typoid, typmod = type_and_modifier(call.session, name)
    else:
        row = type_by_name(name)
        if row is None:
            raise PgError("42704", f'type "{name}" does not exist')
        typoid = row.oid
    try:
        read_text(text, typoid, typmod, call.style)
    except PgError as error:
        if not error.is_soft:
            raise
        return error
    return None


@implements("pg_input_is_valid", context=True)
def pg_input_is_valid(call: Call, text: str, name: str) -> bool:
    return _input_error(call, text, name) is None


@implements("pg_input_error_info", context=True)
def pg_input_error_info(call: Call, text: str, name: str) -> tuple[str | None, ...]:
    error = _input_error(call, text, name)
    if error is None:
        return (None, None, None, None)
    report = error.report
    return report.message, report.detail, report.hint, report.sqlstate


@implements("pg_sleep")
def pg_sleep(seconds: float) -> str:
    pause(max(seconds, 0.0))
    return ""


@implements("pg_sleep_for(interval)")
def pg_sleep_for(span: Interval) -> str:
    days = span.months * 30 + span.days
    return pg_sleep(days * 86400 + span.usecs / 1_000_000)


@implements("pg_size_pretty")
def pg_size_pretty(size: int) -> str:
    """A size in units of 1024, from 10 kB on, rounded half up."""
    if abs(size) < 10 * 1024:
        return f"{size} bytes"
    shown = size // 512 if size >= 0 else -(-size // 512)
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        if abs(shown) < 20 * 1024 - 1 or unit == "PB":
            half = (abs(shown) + 1) // 2
            return f"{half if shown >= 0 else -half} {unit}"
        shown = shown // 1024 if shown >= 0 else -(-shown // 1024)
    raise AssertionError(size)


@implements("pg_size_pretty_numeric")
def pg_size_pretty_numeric(size: Decimal) -> str:
    if not size.is_finite():
        return f"{write_numeric(size)} PB"
    return f"{write_numeric(size)} bytes" if abs(size) < 10 * 1024 else pg_size_pretty(int(size))


_SIZE = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?)\s*(.*?)\s*", re.IGNORECASE | re.DOTALL)
_UNITS = {"": 0, "bytes": 0, "b": 0, "kb": 10, "mb": 20, "gb": 30, "tb": 40, "pb": 50}


@implements("pg_size_bytes")
def pg_size_bytes(text: str) -> int:
    """The number of bytes that a size with a unit has."""
    found = _SIZE.fullmatch(text.lstrip())
    if found is None:
        raise PgError("22023", f'invalid size: "{text}"')
    number, unit = found.groups()
    if unit.lower() not in _UNITS:
        raise PgError(
            "22023",
            f'invalid size: "{text}"',
            detail=f'Invalid size unit: "{unit}".',
            hint='Valid units are "bytes", "B", "kB", "MB", "GB", "TB", and "PB".',
        )
    size = int((read_numeric(number) * (1 << _UNITS[unit.lower()])).to_integral_value(ROUND_HALF_UP))
    if not -(1 << 63) <= size < 1 << 63:
        raise PgError("22003", "bigint out of range")
    return size
