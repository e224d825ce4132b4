"""Functions without a family of their own: boolean, type names, random numbers by PostgreSQL's generator, uuid, send
functions, XML, pg_input_is_valid, pg_sleep, satisfies_hash_partition.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from uuid import UUID, uuid4
from weakref import WeakKeyDictionary

from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.session.session import Session
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.expr.partition_hash import hash_of_class, row_hash
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import pause
from pgrepl.types.binary import sender
from pgrepl.types.builtin import base_type, type_by_name, type_by_oid
from pgrepl.types.names import format_type
from pgrepl.types.numbers import write_float8
from pgrepl.types.numeric import EXACT, display_scale, read_numeric, write_numeric
from pgrepl.types.plain import is_document
from pgrepl.types.text import read_text
from pgrepl.types.times.interval import Interval

implements = Family()

_MASK = (1 << 64) - 1
_NBASE = 10_000
_DIGITS = 4  # decimal digits in one of base 10,000


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK


class Xoroshiro:
    """The xoroshiro128** generator of pg_prng.c."""

    def __init__(self) -> None:
        self.seeded = False
        self._one, self._two = (int.from_bytes(os.urandom(8), "little") | 1 for _ in range(2))

    def seed(self, seed: float) -> None:
        state = int(((1 << 52) - 1) * seed) & _MASK
        words = []
        for _ in range(2):  # splitmix64
            state = (state + 0x9E3779B97F4A7C15) & _MASK
            value = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
            value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
            words.append(value ^ (value >> 31))
        self._one, self._two = words
        self.seeded = True

    def bits(self) -> int:
        """The next 64 random bits."""
        one, mixed = self._one, self._two ^ self._one
        value = (_rotated(one * 5 & _MASK, 7) * 9) & _MASK
        self._one = _rotated(one, 24) ^ mixed ^ (mixed << 16 & _MASK)
        self._two = _rotated(mixed, 37)
        return value

    def fraction(self) -> float:
        return math.ldexp(self.bits() >> 12, -52)

    def normal(self) -> float:
        one, two = 1.0 - self.fraction(), 1.0 - self.fraction()
        return math.sqrt(-2.0 * math.log(one)) * math.sin(2.0 * math.pi * two)

    def below(self, limit: int) -> int:
        """A random integer from 0 to the limit, inclusive."""
        if limit <= 0:
            return 0
        shift = 64 - limit.bit_length()
        while True:
            value = self.bits() >> shift
            if value <= limit:
                return value


_of_sessions: WeakKeyDictionary[Session, Xoroshiro] = WeakKeyDictionary()
_without_session = Xoroshiro()


def _generator(call: Call) -> Xoroshiro:
    if not call.context.has_session:
        return _without_session
    generator = _of_sessions.get(call.session)
    if generator is None:
        generator = _of_sessions[call.session] = Xoroshiro()
    return generator


def is_seeded(session: Session) -> bool:
    """Whether the session has called setseed()."""
    generator = _of_sessions.get(session)
    return generator is not None and generator.seeded


@implements("setseed", context=True)
def setseed(call: Call, seed: float) -> str:
    if not -1.0 <= seed <= 1.0:
        shown = write_float8(seed) if math.isnan(seed) or math.isinf(seed) else f"{seed:g}"
        raise PgError("22023", f"setseed parameter {shown} is out of allowed range [-1,1]")
    _generator(call).seed(seed)
    return ""


implements("drandom", context=True)(lambda call: _generator(call).fraction())


@implements("drandom_normal", context=True)
def drandom_normal(call: Call, mean: float, deviation: float) -> float:
    return deviation * _generator(call).normal() + mean


def _check_bounds(low: Decimal | int, high: Decimal | int) -> None:
    if low > high:
        raise PgError("22023", "lower bound must be less than or equal to upper bound")


@implements("int4random", "int8random", context=True)
def random_between(call: Call, low: int, high: int) -> int:
    _check_bounds(low, high)
    return low + _generator(call).below(high - low)


@implements("numeric_random", context=True)
def numeric_random(call: Call, low: Decimal, high: Decimal) -> Decimal:
    for value, name in ((low, "lower bound"), (high, "upper bound")):
        if not value.is_finite():
            raise PgError("22023", f"{name} cannot be {'NaN' if value.is_nan() else 'infinity'}")
    _check_bounds(low, high)
    scale = max(display_scale(low), display_scale(high))
    length = EXACT.subtract(high, low)
    offset = _random_numeric(_generator(call), length, scale) if length else Decimal(0)
    return EXACT.quantize(EXACT.add(low, offset), Decimal(1).scaleb(-scale))


def _random_numeric(generator: Xoroshiro, length: Decimal, scale: int) -> Decimal:
    """A random numeric from 0 to the length, by base-10000 digits (random_var)."""
    behind = -(-scale // _DIGITS)  # base-10000 digits behind the point
    unit = Decimal(1).scaleb(-behind * _DIGITS)
    whole = int(EXACT.divide(length, unit))
    digits: list[int] = []
    rest = whole
    while rest:
        rest, digit = divmod(rest, _NBASE)
        digits.insert(0, digit)
    step: int = 10 ** (-scale % _DIGITS)  # the last digit is a multiple of it
    first = digits[:4]
    start = 0
    for digit in first:
        start = start * _NBASE + digit
    while True:
        if len(first) == len(digits) and step != 1:
            value = generator.below(start // step) * step
        else:
            value = generator.below(start)
        left = len(digits) - len(first) - (step != 1)
        while left >= 4:
            four = generator.below(_NBASE**4 - 1)
            for _ in range(4):  # the lowest digit comes first
                four, digit = divmod(four, _NBASE)
                value = value * _NBASE + digit
            left -= 4
        while left > 0:
            value = value * _NBASE + generator.below(_NBASE - 1)
            left -= 1
        if len(digits) > len(first) and step != 1:
            value = value * _NBASE + generator.below(_NBASE // step - 1) * step
        if value <= whole:
            return EXACT.multiply(Decimal(value), unit)


# --- misc -------------------------------------------------------------------------------------------------------------


implements("booland_statefunc")(lambda a, b: a and b)
implements("boolor_statefunc")(lambda a, b: a or b)


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


implements("pg_typeof", context=True)(lambda call, value: call.argtypes[0])
implements("pg_basetype")(lambda typoid: base_type(typoid) if type_by_oid(typoid) is not None else None)
implements("oidvectortypes")(lambda vector: ", ".join(format_type(typoid) for typoid in vector.items))


def _input_error(call: Call, text: str, name: str) -> PgError | None:
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


implements("pg_input_is_valid", context=True)(lambda call, text, name: _input_error(call, text, name) is None)


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
    match = _SIZE.fullmatch(text.lstrip())
    if match is None:
        raise PgError("22023", f'invalid size: "{text}"')
    number, unit = match.groups()
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


_SOURCES = """
    array_send anyarray_send anycompatiblearray_send bit_send boolsend bpcharsend byteasend charsend cidr_send cidsend
    cstring_send date_send enum_send float4send float8send inet_send int2send int2vectorsend int4send int8send
    interval_send json_send jsonb_send jsonpath_send macaddr8_send macaddr_send multirange_send namesend numeric_send
    oidsend oidvectorsend pg_lsn_send pg_node_tree_send pg_snapshot_send range_send record_send regclasssend
    regcollationsend regconfigsend regdictionarysend regnamespacesend regoperatorsend regopersend regproceduresend
    regprocsend regrolesend regtypesend textsend tidsend time_send timestamp_send timestamptz_send timetz_send
    txid_snapshot_send unknownsend uuid_send varbit_send varcharsend void_send xid8send xidsend xml_send
""".split()


@implements(*_SOURCES, context=True)
def send(call: Call, value: Any) -> bytes:
    return sender(call.argtypes[0], call.style.encoding)(value)


implements("xml_is_well_formed_document")(is_document)


# --- hash partitions --------------------------------------------------------------------------------------------------


@implements("satisfies_hash_partition", context=True)
def satisfies_hash_partition(call: Call, parent: int | None, *rest: Any) -> bool | None:
    """Whether a row with these key values belongs to the partition with this modulus and remainder."""
    return _satisfies(call, parent, *rest)


def _satisfies(call: Call, parent: int | None, modulus: int | None, remainder: int | None, *values: Any) -> bool | None:
    if parent is None or modulus is None or remainder is None:
        return None
    if modulus <= 0:
        raise PgError("22023", "modulus for hash partition must be an integer value greater than zero")
    if remainder < 0:
        raise PgError("22023", "remainder for hash partition must be an integer value greater than or equal to zero")
    if remainder >= modulus:
        raise PgError("22023", "remainder for hash partition must be less than modulus")
    key = call.context.hash_classes(parent)
    if key is None:
        name = relation(call.session, parent).name
        raise PgError("22023", f'"{name}" is not a hash partitioned table')
    given: Sequence[Any] = tuple(values[0].items) if call.variadic else values
    if len(given) != len(key):
        raise PgError(
            "22023",
            f"number of partitioning columns ({len(key)}) does not match number of partition keys provided "
            f"({len(given)})",
        )
    return row_hash([hash_of_class(*column) for column in key], given) % modulus == remainder


# --- uuid -------------------------------------------------------------------------------------------------------------


_STEP = 245  # nanoseconds: the least that 12 bits of a millisecond tell apart
_UNIX_EPOCH = 946_684_800_000_000  # microseconds from 1970 to 2000
_GREGORIAN_EPOCH = (2451545 - 2299161) * 86_400_000_000  # microseconds from the calendar's first day to 2000
_last = 0


implements("gen_random_uuid")(lambda: uuid4())


def _later_nanoseconds() -> int:
    """The time since 1970, later with each call of this process (get_real_time_ns_ascending)."""
    global _last
    _last = max(time.time_ns(), _last + _STEP)
    return _last


def _made(nanoseconds: int) -> UUID:
    """48 bits of milliseconds, 12 of a fraction of one, the rest at random (generate_uuidv7)."""
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    fraction = rest * 4096 // 1_000_000
    head = (milliseconds & ((1 << 48) - 1)) << 16 | 7 << 12 | fraction
    return UUID(int=head << 64 | uuid4().int & _MASK)


implements("uuidv7")(lambda: _made(_later_nanoseconds()))


@implements("uuidv7_interval", context=True)
def uuidv7_interval(call: Call, shift: Interval) -> UUID:
    from pgrepl.expr.functions.times.datetime import timestamptz_pl_interval

    now = _later_nanoseconds()
    moved = timestamptz_pl_interval(call, now // 1000 - _UNIX_EPOCH, shift)
    return _made((moved + _UNIX_EPOCH) * 1000 + now % 1000)


def _is_rfc(value: UUID) -> bool:
    return value.bytes[8] & 0xC0 == 0x80


@implements("uuid_extract_version")
def uuid_extract_version(value: UUID) -> int | None:
    return value.bytes[6] >> 4 if _is_rfc(value) else None


@implements("uuid_extract_timestamp", context=True)
def uuid_extract_timestamp(call: Call, value: UUID) -> int | None:
    """The timestamp of a uuid: version 1 counts 100 nanoseconds since the Gregorian calendar began, version 7, which 17
    does not know, milliseconds since 1970."""
    version = uuid_extract_version(value)
    if version == 1:
        return value.time // 10 - _GREGORIAN_EPOCH
    if version == 7 and call.context.release >= 18:
        return (value.int >> 80) * 1000 - _UNIX_EPOCH
    return None
