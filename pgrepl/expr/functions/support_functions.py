"""Support functions of operator classes: hash functions and in_range(). Those of btree are in comparison.py.

The hash functions are PostgreSQL's bit for bit: they decide which partition of a hash-partitioned table a row is in.
Each takes a value and a 64-bit seed. The functions without a seed return the lower half of the hash with seed 0.
in_range() says whether a value is in a window frame of RANGE with an offset.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

from pgrepl.expr.analyse.sorting import default_opclass as class_of
from pgrepl.expr.functions.casts import chartoi4
from pgrepl.expr.functions.registry import Call, Context, Family, missing
from pgrepl.expr.functions.times import datetime, intervals
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import amproc, base_type, default_opclass, element_type, proc_by_oid
from pgrepl.types.names import format_type
from pgrepl.types.network import parse_address
from pgrepl.types.numeric import EXACT
from pgrepl.types.times.dates import INFINITY
from pgrepl.types.times.interval import INFINITE, MINUS_INFINITE, Interval
from pgrepl.types.user_types import described
from pgrepl.types.values import interval_key, order_key

implements = Family()

_MASK = 0xFFFFFFFF
_MASK64 = 0xFFFFFFFFFFFFFFFF
_START = 0x9E3779B9 + 3923095
_NAN = float("nan")
HASH_METHOD = 405
EXTENDED = 2  # the support function that takes a seed

Hash = Callable[[Any, int], int]


# --- Bob Jenkins' lookup3 ---------------------------------------------------------------------------------------------


def _rot(x: int, k: int) -> int:
    return ((x << k) & _MASK) | (x >> (32 - k))


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = ((a - c) & _MASK) ^ _rot(c, 4)
    c = (c + b) & _MASK
    b = ((b - a) & _MASK) ^ _rot(a, 6)
    a = (a + c) & _MASK
    c = ((c - b) & _MASK) ^ _rot(b, 8)
    b = (b + a) & _MASK
    a = ((a - c) & _MASK) ^ _rot(c, 16)
    c = (c + b) & _MASK
    b = ((b - a) & _MASK) ^ _rot(a, 19)
    a = (a + c) & _MASK
    c = ((c - b) & _MASK) ^ _rot(b, 4)
    b = (b + a) & _MASK
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    c = ((c ^ b) - _rot(b, 14)) & _MASK
    a = ((a ^ c) - _rot(c, 11)) & _MASK
    b = ((b ^ a) - _rot(a, 25)) & _MASK
    c = ((c ^ b) - _rot(b, 16)) & _MASK
    a = ((a ^ c) - _rot(c, 4)) & _MASK
    b = ((b ^ a) - _rot(a, 14)) & _MASK
    c = ((c ^ b) - _rot(b, 24)) & _MASK
    return (b << 32) | c


def seeded(length: int, seed: int) -> tuple[int, int, int]:
    a = b = c = (_START + length) & _MASK
    if seed:
        a, b, c = _mix((a + (seed >> 32)) & _MASK, (b + (seed & _MASK)) & _MASK, c)
    return a, b, c


def hash_bytes(data: bytes, seed: int) -> int:
    """The hash of bytes, as hash_bytes_extended computes it."""
    a, b, c = seeded(len(data), seed)
    end = len(data) - len(data) % 12
    for x, y, z in struct.iter_unpack("<III", data[:end]):
        a, b, c = _mix((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)
    rest = data[end:]
    # the lowest byte of c is the length's
    padded = rest[:8].ljust(8, b"\0") + b"\0" + rest[8:].ljust(3, b"\0")
    x, y, z = struct.unpack("<III", padded)
    return _final((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)


def hash_uint32(value: int, seed: int) -> int:
    """The hash of a 32-bit integer, as hash_bytes_uint32_extended computes it."""
    a, b, c = seeded(4, seed)
    return _final((a + value) & _MASK, b, c)


# --- types ------------------------------------------------------------------------------------------------------------


def _int4(value: int, seed: int) -> int:
    return hash_uint32(value & _MASK, seed)


def hash_int8(value: int, seed: int) -> int:
    """The hash of an int8; equal to the hash of the same int4 or int2."""
    high = (value >> 32) & _MASK
    return hash_uint32((value & _MASK) ^ (high if value >= 0 else ~high & _MASK), seed)


def _char(value: Any, seed: int) -> int:
    """The hash of "char", as a signed byte, and of boolean."""
    if isinstance(value, str):
        value = chartoi4(value)
    return _int4(int(value), seed)


def _float(value: float, seed: int) -> int:
    if value == 0:
        return seed  # 0 and -0 are equal
    return hash_bytes(struct.pack("<d", _NAN if value != value else value), seed)


def _text(value: str, seed: int) -> int:
    return hash_bytes(value.encode(), seed)


def _bpchar(value: str, seed: int) -> int:
    return hash_bytes(value.rstrip(" ").encode(), seed)


def _uuid(value: UUID, seed: int) -> int:
    return hash_bytes(value.bytes, seed)


def _bytes(value: Any, seed: int) -> int:
    return hash_bytes(value if isinstance(value, bytes) else str(value).encode(), seed)


def _numeric(value: Decimal, seed: int) -> int:
    """The hash of a numeric: its base-10000 digits without zeros at either end, and the weight of the first digit."""
    if not value.is_finite():
        return seed
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    shift = exponent % 4
    text = "".join(map(str, digits)) + "0" * shift
    exponent -= shift
    text = text.rjust(-(-len(text) // 4) * 4, "0")
    words = [int(text[i : i + 4]) for i in range(0, len(text), 4)]
    weight = len(words) + exponent // 4 - 1
    while words and words[0] == 0:
        del words[0]
        weight -= 1
    while words and words[-1] == 0:
        del words[-1]
    if not words:
        return (seed - 1) & _MASK64
    return hash_bytes(struct.pack(f"<{len(words)}h", *words), seed) ^ (weight & _MASK64)


def _timetz(value: tuple[int, int], seed: int) -> int:
    return hash_int8(value[0], seed) ^ hash_uint32(value[1] & _MASK, seed)


def _interval(value: Interval, seed: int) -> int:
    span = interval_key(value) & _MASK64
    return hash_int8(span - (1 << 64) if span >> 63 else span, seed)


def _inet(value: str, seed: int) -> int:
    address = parse_address(value)
    family = 2 if address.version == 4 else 3
    return hash_bytes(bytes([family, address.bits]) + address.number.to_bytes(address.size // 8, "big"), seed)


def _macaddr(value: str, seed: int) -> int:
    return hash_bytes(bytes.fromhex(value.replace(":", "")), seed)


_OF: dict[str, Hash] = {
    "hashint2": _int4,
    "hashint4": _int4,
    "hashint8": hash_int8,
    "hashoid": _int4,
    "hashchar": _char,
    "hashfloat4": _float,
    "hashfloat8": _float,
    "hashname": _text,
    "hashtext": _text,
    "hashvarlena": _bytes,
    "hashbpchar": _bpchar,
    "hash_numeric": _numeric,
    "uuid_hash": _uuid,
    "timestamp_hash": hash_int8,
    "time_hash": hash_int8,
    "timetz_hash": _timetz,
    "interval_hash": _interval,
    "pg_lsn_hash": hash_int8,
    "hashinet": _inet,
    "hashmacaddr": _macaddr,
    "hashmacaddr8": _macaddr,
}


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _register(name: str, function: Hash) -> None:
    extended = f"{name}extended" if name.startswith("hash") and "_" not in name else f"{name}_extended"

    @implements(extended)
    def with_seed(value: Any, seed: int) -> int:
        return _signed(function(value, seed & _MASK64), 64)

    @implements(name)
    def without(value: Any) -> int:
        return _signed(function(value, 0) & _MASK, 32)


for _name, _function in _OF.items():
    _register(_name, _function)


# --- arrays -----------------------------------------------------------------------------------------------------------


def _array(element: int) -> Hash:
    element_hash = type_hash(element)

    def function(value: PgArray, seed: int) -> int:
        result = 1
        for item in value.items:
            result = (result * 31 + (0 if item is None else element_hash(item, seed))) & _MASK64
        return result

    return function


def _enum(typoid: int) -> Hash:
    """The hash of a label's OID, as hashenumextended gives it."""
    known = described(base_type(typoid))
    oids_of = {} if known is None else {label.name: label.oid for label in known.labels}
    return lambda value, seed: _int4(oids_of[value], seed)


def type_hash(typoid: int) -> Hash:
    """The seeded hash function of a type's default operator class."""
    opclass = default_opclass(typoid, HASH_METHOD) or class_of(typoid, HASH_METHOD)
    oid = 0 if opclass is None else amproc(opclass.family, opclass.intype, opclass.intype, EXTENDED)
    return hash_of_function(oid, typoid)


def hash_of_function(oid: int, typoid: int) -> Hash:
    """A seeded hash function that returns unsigned numbers."""
    proc = proc_by_oid(oid)
    if proc is None:
        raise PgError("42883", f"could not identify an extended hash function for type {format_type(typoid)}")
    if proc.src == "hashenumextended":
        return _enum(typoid)
    known = _OF.get(proc.src.removesuffix("extended").removesuffix("_"))
    if known is not None:
        return known
    if proc.src == "hash_array_extended":
        return _array(element_type(typoid))
    raise missing(proc)


implements("hashenum", context=True)(lambda call, value: _signed(_enum(call.argtypes[0])(value, 0) & _MASK, 32))


@implements("hashenumextended", context=True)
def hashenumextended(call: Call, value: str, seed: int) -> int:
    return _signed(_enum(call.argtypes[0])(value, seed & _MASK64), 64)


@implements("hash_array_extended", context=True)
def hash_array_extended(call: Call, value: PgArray, seed: int) -> int:
    return _signed(_array(value.elemtype)(value, seed & _MASK64), 64)


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
            value, base = datetime.date_as_timestamp(value), datetime.date_as_timestamp(base)
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
            move = datetime.timestamptz_mi_interval if sub else datetime.timestamptz_pl_interval
            return move(call, base, self._offset)
        plain = datetime.timestamp_mi_interval if sub else datetime.timestamp_pl_interval
        return plain(base, self._offset)


@implements(
    *(f"in_range_{types}" for types in ("int2_int2", "int2_int4", "int2_int8", "int4_int2", "int4_int4", "int4_int8")),
    *(f"in_range_{types}" for types in ("int8_int8", "float4_float8", "float8_float8", "numeric_numeric")),
    *(f"in_range_{name}_interval" for name in ("date", "time", "timetz", "timestamp", "timestamptz", "interval")),
    context=True,
)
def in_range(call: Call, value: Any, base: Any, offset: Any, sub: bool, less: bool) -> bool:
    return InRange(call.argtypes[0], offset, call.context)(value, base, sub=sub, less=less)
