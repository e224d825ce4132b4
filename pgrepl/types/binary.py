"""The binary format of values: the results of types' send functions, read by receive functions of the same or another
type.

With `binary = true` the publisher sends a value by its column's type, and the subscriber receives it by the type of its
own column. `sends` and `receives` return None for types that this module does not cover.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

from pgrepl.errors import PgError, unsupported
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import element_type
from pgrepl.types.dates import USECS_PER_DAY, is_valid_date, is_valid_timestamp
from pgrepl.types.encoding import invalid_bytes
from pgrepl.types.interval import Interval
from pgrepl.types.names import format_type
from pgrepl.types.style import TextStyle
from pgrepl.types.text import reader, writer

Send = Callable[[Any], bytes]
Receive = Callable[["BinaryMessage", int, TextStyle], Any]  # the bytes, typmod, style for what is read as text

_TEXTS = (oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.NAME, oids.JSON, oids.UNKNOWN)
_FIXED = {
    oids.INT2: "h", oids.INT4: "i", oids.INT8: "q", oids.OID: "I", oids.FLOAT4: "f", oids.FLOAT8: "d", oids.DATE: "i",
    oids.TIME: "q", oids.TIMESTAMP: "q", oids.TIMESTAMPTZ: "q",
}  # fmt: skip
_SIGNS = {"0": 0x0000, "1": 0x4000, "n": 0xC000, "F": 0xD000, "-F": 0xF000}
_SCALE_OF_INFINITY = 0x20  # the dscale that numeric_send reads from the header of an infinity
_INFINITE_DATES, _INFINITE_TIMES = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)


class BinaryMessage:
    """A received message, read from the front (pqformat.c)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_read(self) -> bool:
        return self._at == len(self._data)

    def take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if len(found) < count:
            raise PgError("08P01", "insufficient data left in message")
        self._at += count
        return found

    def unpack(self, form: str) -> Any:
        (value,) = struct.unpack("!" + form, self.take(struct.calcsize("!" + form)))
        return value

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def text(self) -> str:
        data = self.rest()
        zero = data.find(0)
        try:
            text = data[: len(data) if zero < 0 else zero].decode()
        except UnicodeDecodeError as error:
            raise invalid_bytes(data, error.start) from None
        if zero >= 0:
            raise invalid_bytes(data, zero)
        return text


def sends(typoid: int) -> Send | None:
    """The send function of a type."""
    if typoid in _TEXTS:
        return str.encode
    if typoid in _FIXED:
        return partial(struct.pack, "!" + _FIXED[typoid])
    element = element_type(typoid)
    if element:
        send = sends(element)
        return None if send is None else partial(_send_array, element, send)
    return _SEND.get(typoid)


def receives(typoid: int) -> Receive | None:
    """The receive function of a type."""
    if typoid in _TEXTS:
        return lambda message, typmod, style: reader(typoid)(message.text(), typmod, style)
    if typoid in (oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.TIME):
        return partial(_receive_time, typoid)
    if typoid in _FIXED and typoid != oids.DATE:
        return lambda message, typmod, style: message.unpack(_FIXED[typoid])
    if element_type(typoid):
        return partial(_receive_array, element_type(typoid))
    return _RECEIVE.get(typoid)


# --- numeric ----------------------------------------------------------------------------------------------------------


def _send_numeric(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if isinstance(exponent, str):
        special = "n" if value.is_nan() else "-F" if sign else "F"
        return struct.pack("!hhHh", 0, 0, _SIGNS[special], 0 if special == "n" else _SCALE_OF_INFINITY)
    scale = max(-exponent, 0)
    text = "".join(map(str, digits)) + "0" * max(exponent, 0)
    whole, part = (text[:-scale], text[-scale:].rjust(scale, "0")) if scale else (text, "")
    whole, part = whole.rjust(-(-len(whole) // 4) * 4, "0"), part.ljust(-(-len(part) // 4) * 4, "0")
    groups = [int((whole + part)[n : n + 4]) for n in range(0, len(whole + part), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups, weight = groups[1:], weight - 1
    while groups and groups[-1] == 0:
        groups.pop()
    if not groups:
        weight, sign = 0, 0
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight, _SIGNS[str(sign)], scale, *groups)


def _receive_numeric(message: BinaryMessage, typmod: int, style: TextStyle) -> Any:
    count, weight = message.unpack("H"), message.unpack("h")
    sign, scale = message.unpack("H"), message.unpack("H")
    if sign not in _SIGNS.values():
        raise PgError("22P03", 'invalid sign in external "numeric" value')
    if scale & ~0x3FFF:
        raise PgError("22P03", 'invalid scale in external "numeric" value')
    groups = [message.unpack("h") for _ in range(count)]
    if any(not 0 <= group < 10000 for group in groups):
        raise PgError("22P03", 'invalid digit in external "numeric" value')
    special = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}.get(sign)
    if special is not None:
        return reader(oids.NUMERIC)(special, typmod, style)
    digits = [groups[n] if n < count else 0 for n in range(max(weight + 1, 0))]
    after = [groups[n] if 0 <= n < count else 0 for n in range(weight + 1, weight + 1 + -(-scale // 4))]
    part = "".join(f"{group:04}" for group in after)[:scale]
    text = ("-" if sign == 0x4000 else "") + ("".join(f"{group:04}" for group in digits) or "0")
    return reader(oids.NUMERIC)(f"{text}.{part}" if part else text, typmod, style)


# --- the others -------------------------------------------------------------------------------------------------------


def _receive_date(message: BinaryMessage, typmod: int, style: TextStyle) -> int:
    value: int = message.unpack("i")
    if value not in _INFINITE_DATES and not is_valid_date(value):
        raise PgError("22008", "date out of range")
    return value


def _receive_time(typoid: int, message: BinaryMessage, typmod: int, style: TextStyle) -> Any:
    value: int = message.unpack("q")
    if typoid == oids.TIME:
        if not 0 <= value <= USECS_PER_DAY:
            raise PgError("22008", "time out of range")
    elif value not in _INFINITE_TIMES and not is_valid_timestamp(value):
        raise PgError("22008", "timestamp out of range")
    return reader(typoid)(writer(typoid)(value, style), typmod, style)


def _receive_interval(message: BinaryMessage, typmod: int, style: TextStyle) -> Any:
    usecs, days, months = message.unpack("q"), message.unpack("i"), message.unpack("i")
    return reader(oids.INTERVAL)(writer(oids.INTERVAL)(Interval(months, days, usecs), style), typmod, style)


def _receive_jsonb(message: BinaryMessage, typmod: int, style: TextStyle) -> Any:
    version = message.unpack("B")
    if version != 1:
        raise PgError("XX000", f"unsupported jsonb version number {version}")
    return reader(oids.JSONB)(message.text(), typmod, style)


def _send_array(element: int, send: Send, value: PgArray) -> bytes:
    items = value.items
    header = struct.pack("!iiI", int(bool(items)), int(None in items), element)
    if not items:
        return header
    sent = [None if item is None else send(item) for item in items]
    framed = [struct.pack("!i", -1) if each is None else struct.pack("!i", len(each)) + each for each in sent]
    return header + struct.pack("!ii", len(items), 1) + b"".join(framed)


def _receive_array(element: int, message: BinaryMessage, typmod: int, style: TextStyle) -> Any:
    """Raise the error for an array that was sent from a column of another type."""
    message.take(8)
    found = message.unpack("I")
    if found == element:
        raise unsupported("the binary form of an array for a column of another type")
    text = f"binary data has array element type {found} ({format_type(found)}) instead of expected {element}"
    raise PgError("42804", f"{text} ({format_type(element)})")


_SEND: dict[int, Send] = {
    oids.BOOL: lambda value: b"\1" if value else b"\0",
    oids.BYTEA: bytes,
    oids.UUID: lambda value: bytes(value.bytes),
    oids.NUMERIC: _send_numeric,
    oids.INTERVAL: lambda value: struct.pack("!qii", value.usecs, value.days, value.months),
    oids.JSONB: lambda value: b"\1" + str(value).encode(),
}
_RECEIVE: dict[int, Receive] = {
    oids.BOOL: lambda message, typmod, style: message.unpack("B") != 0,
    oids.BYTEA: lambda message, typmod, style: message.rest(),
    oids.UUID: lambda message, typmod, style: UUID(bytes=message.take(16)),
    oids.NUMERIC: _receive_numeric,
    oids.DATE: _receive_date,
    oids.INTERVAL: _receive_interval,
    oids.JSONB: _receive_jsonb,
}
