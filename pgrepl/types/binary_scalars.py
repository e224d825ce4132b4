"""The send and receive functions of types without parts (tables SEND and RECEIVE), and a message in binary format
(pqformat.c).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.input_checks import UTF8, codec, invalid, text_to_bytes, zero_byte
from pgrepl.types.plain import PgSnapshot, fit_bits, parse_snapshot
from pgrepl.types.style import TextStyle
from pgrepl.types.text import reader
from pgrepl.types.times.dates import INFINITY, USECS_PER_DAY, is_valid_date, is_valid_timestamp
from pgrepl.types.times.interval import Interval, fit_interval

INVALID = "22P03"  # ERRCODE_INVALID_BINARY_REPRESENTATION


class BinaryMessage:
    """The bytes of one value that a receive function reads."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_read(self) -> bool:
        return self._at == len(self._data)

    @property
    def left(self) -> int:
        """The number of bytes not read yet."""
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        data = self._data[self._at : self._at + count] if count >= 0 else b""
        if len(data) != count:
            raise PgError("08P01", "insufficient data left in message")
        self._at += count
        return data

    def octets(self, count: int = 1) -> int:
        """A number whose bytes are read one by one (pq_getmsgbyte)."""
        if count > self.left:
            raise PgError("08P01", "no data left in message")
        return int.from_bytes(self.take(count), "big")

    def unpack(self, form: str) -> Any:
        (value,) = struct.unpack("!" + form, self.take(struct.calcsize("!" + form)))
        return value

    def rest(self) -> bytes:
        return self.take(self.left)

    def text(self, encoding: str) -> str:
        """The rest as text (pq_getmsgtext)."""
        data = self.rest()
        before, zero, _ = data.partition(b"\0")
        try:
            text = before.decode(codec(encoding))
        except UnicodeDecodeError as error:
            raise invalid(data, error.start, encoding) from None
        if zero:
            raise zero_byte(encoding)
        return text

    def item(self) -> BinaryMessage | None:
        """An item behind its length, of an array or a record; None: NULL."""
        size = self.unpack("i")
        if size == -1:
            return None
        if not 0 <= size <= self.left:
            raise PgError(INVALID, "insufficient data left in message")
        return BinaryMessage(self.take(size))

    def end(self) -> None:
        """Raise an error unless all bytes have been read (pq_getmsgend)."""
        if not self.is_read:
            raise PgError("08P01", "invalid message format")


# --- binary scalars ---------------------------------------------------------------------------------------------------


Send = Callable[[Any], bytes]
Receive = Callable[[BinaryMessage, int, TextStyle], Any]  # the bytes, typmod, style for what is read as text

_INT4, _INT8 = struct.Struct("!i"), struct.Struct("!q")
_FIXED = {
    oids.INT2: "h", oids.INT4: "i", oids.INT8: "q", oids.FLOAT4: "f", oids.FLOAT8: "d", oids.OID: "I", oids.XID: "I",
    oids.CID: "I", oids.XID8: "Q", oids.PG_LSN: "Q", oids.REGPROC: "I", oids.REGPROCEDURE: "I", oids.REGOPER: "I",
    oids.REGOPERATOR: "I", oids.REGCLASS: "I", oids.REGTYPE: "I", oids.REGROLE: "I", oids.REGNAMESPACE: "I",
    oids.REGCOLLATION: "I", oids.REGCONFIG: "I", oids.REGDICTIONARY: "I",
}  # fmt: skip
_TEXTS = (
    oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.NAME, oids.JSON, oids.UNKNOWN, oids.CSTRING, oids.REFCURSOR, oids.XML,
    oids.PG_NODE_TREE,
)  # fmt: skip
_VERSIONED = {oids.JSONB: "jsonb", oids.JSONPATH: "jsonpath"}


def _fixed(form: str) -> Receive:
    return lambda message, typmod, style: message.unpack(form)


def _text(typoid: int) -> Receive:
    return lambda message, typmod, style: reader(typoid)(message.text(style.encoding), typmod, style)


# --- numeric ----------------------------------------------------------------------------------------------------------

_SIGNS = {"0": 0x0000, "1": 0x4000, "n": 0xC000, "F": 0xD000, "-F": 0xF000}
_SCALE_OF_INFINITY = 0x20  # the dscale that numeric_send reads from the header of an infinity


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
        raise PgError(INVALID, 'invalid sign in external "numeric" value')
    if scale & ~0x3FFF:
        raise PgError(INVALID, 'invalid scale in external "numeric" value')
    groups = [message.unpack("h") for _ in range(count)]
    if any(not 0 <= group < 10000 for group in groups):
        raise PgError(INVALID, 'invalid digit in external "numeric" value')
    special = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}.get(sign)
    if special is not None:
        return reader(oids.NUMERIC)(special, typmod, style)
    digits = [groups[n] if n < count else 0 for n in range(max(weight + 1, 0))]
    after = [groups[n] if 0 <= n < count else 0 for n in range(weight + 1, weight + 1 + -(-scale // 4))]
    part = "".join(f"{group:04}" for group in after)[:scale]
    text = ("-" if sign == 0x4000 else "") + ("".join(f"{group:04}" for group in digits) or "0")
    return reader(oids.NUMERIC)(f"{text}.{part}" if part else text, typmod, style)


# --- dates and times --------------------------------------------------------------------------------------------------

_ZONES = 16 * 3600  # a time zone is less than this away from Greenwich (TZDISP_LIMIT)


def _without_infinity(value: int, bits: int) -> int:
    """The number on the wire: infinities are the first and the last number of the type's width."""
    first: int = -(1 << bits - 1)
    if value == INFINITY:
        return -first - 1
    return first if value == -INFINITY else value


def _with_infinity(value: int, bits: int) -> int:
    first: int = -(1 << bits - 1)
    if value == -first - 1:
        return INFINITY
    return -INFINITY if value == first else value


def _receive_date(message: BinaryMessage, typmod: int, style: TextStyle) -> int:
    value = _with_infinity(message.unpack("i"), 32)
    if abs(value) != INFINITY and not is_valid_date(value):
        raise PgError("22008", "date out of range")
    return value


def _receive_timestamp(message: BinaryMessage, typmod: int, style: TextStyle) -> int:
    from pgrepl.types.times.datetime import fit_timestamp

    value = _with_infinity(message.unpack("q"), 64)
    if abs(value) != INFINITY and not is_valid_timestamp(value):
        raise PgError("22008", "timestamp out of range")
    return fit_timestamp(value, typmod)


def _receive_time(message: BinaryMessage, typmod: int, style: TextStyle) -> int:
    from pgrepl.types.times.datetime import fit_time

    usecs: int = message.unpack("q")
    if not 0 <= usecs <= USECS_PER_DAY:
        raise PgError("22008", "time out of range")
    return fit_time(usecs, typmod)


def _receive_timetz(message: BinaryMessage, typmod: int, style: TextStyle) -> Any:
    from pgrepl.types.times.datetime import TimeTz, fit_time

    usecs, zone = message.unpack("q"), message.unpack("i")
    if not 0 <= usecs <= USECS_PER_DAY:
        raise PgError("22008", "time out of range")
    if abs(zone) >= _ZONES:
        raise PgError("22009", "time zone displacement out of range")
    return TimeTz(fit_time(usecs, typmod), zone)


def _receive_interval(message: BinaryMessage, typmod: int, style: TextStyle) -> Any:
    usecs, days, months = message.unpack("q"), message.unpack("i"), message.unpack("i")
    return fit_interval(Interval(months, days, usecs), typmod)


# --- bit strings ------------------------------------------------------------------------------------------------------


def _send_bits(digits: str) -> bytes:
    count = -(-len(digits) // 8)
    return _INT4.pack(len(digits)) + (int(digits.ljust(8 * count, "0"), 2).to_bytes(count, "big") if digits else b"")


def _receive_bits(message: BinaryMessage, typmod: int, style: TextStyle, *, varying: bool) -> str:
    length: int = message.unpack("i")
    if not 0 <= length <= 2**31 - 8:
        raise PgError(INVALID, "invalid length in external bit string")
    if typmod > 0 and (length > typmod if varying else length != typmod):
        fit_bits("0" * length, typmod, varying=varying)
    count = -(-length // 8)
    return f"{int.from_bytes(message.take(count), 'big'):0{8 * count}b}"[:length] if length else ""


# --- network addresses ------------------------------------------------------------------------------------------------

_FAMILIES = {2: 4, 3: 6}  # PGSQL_AF_INET, PGSQL_AF_INET6


def _send_address(value: str, *, is_cidr: bool) -> bytes:
    from pgrepl.types.network import parse_address

    address = parse_address(value)
    size = address.size // 8
    family = 2 if address.version == 4 else 3
    return struct.pack("!4B", family, address.bits, is_cidr, size) + address.number.to_bytes(size, "big")


def _receive_address(message: BinaryMessage, typmod: int, style: TextStyle, *, is_cidr: bool) -> str:
    """An inet or cidr from its binary form (network_recv)."""
    from pgrepl.types.network import Address, inet_text

    name = "cidr" if is_cidr else "inet"
    version = _FAMILIES.get(message.octets())
    if version is None:
        raise PgError(INVALID, f'invalid address family in external "{name}" value')
    bits = message.octets()
    if bits > (32 if version == 4 else 128):
        raise PgError(INVALID, f'invalid bits in external "{name}" value')
    message.octets()  # whether it is a cidr
    size = 4 if version == 4 else 16
    if message.octets() != size:
        raise PgError(INVALID, f'invalid length in external "{name}" value')
    address = Address(version, message.octets(size), bits)
    if is_cidr and address.number & address.host_mask:
        text = 'invalid external "cidr" value'
        raise PgError(INVALID, text, detail="Value has bits set to right of mask.")
    return inet_text(address, always_mask=is_cidr)


def _send_mac(value: str) -> bytes:
    return bytes.fromhex(value.replace(":", ""))


def _receive_mac8(message: BinaryMessage, typmod: int, style: TextStyle) -> str:
    size = 6 if message.left == 6 else 8
    data = message.octets(size).to_bytes(size, "big")
    return (data if size == 8 else data[:3] + b"\xff\xfe" + data[3:]).hex(":")


# --- the others -------------------------------------------------------------------------------------------------------


def _versioned(typoid: int, name: str) -> Receive:
    """jsonb and jsonpath: a version, then text."""

    def receive(message: BinaryMessage, typmod: int, style: TextStyle) -> Any:
        version = message.unpack("B")
        if version != 1:
            raise PgError("XX000", f"unsupported {name} version number {version}")
        return reader(typoid)(message.text(style.encoding), typmod, style)

    return receive


def _send_snapshot(value: str) -> bytes:
    snapshot = parse_snapshot(value)
    return struct.pack(f"!i{2 + len(snapshot.xip)}q", len(snapshot.xip), snapshot.xmin, snapshot.xmax, *snapshot.xip)


def _receive_snapshot(message: BinaryMessage, typmod: int, style: TextStyle) -> str:
    count: int = message.unpack("i")
    wrong = PgError(INVALID, "invalid external pg_snapshot data")
    if not 0 <= count <= (2**30 - 1 - 24) // 8:
        raise wrong
    xmin, xmax = message.unpack("q"), message.unpack("q")
    xip = tuple([message.unpack("q") for _ in range(count)])
    try:
        return str(parse_snapshot(str(PgSnapshot(xmin, xmax, xip))))
    except PgError:
        raise wrong from None


def send_text(typoid: int, encoding: str) -> Send | None:
    """The send function of a type whose values are sent as text; None: they are not."""
    encode = str.encode if encoding == UTF8 else partial(text_to_bytes, encoding=encoding)
    if typoid in _VERSIONED:
        return lambda value: b"\1" + encode(str(value))
    return encode if typoid in _TEXTS else None


SEND: dict[int, Send] = {
    **{typoid: struct.Struct("!" + form).pack for typoid, form in _FIXED.items()},
    oids.BOOL: lambda value: b"\1" if value else b"\0",
    oids.CHAR: lambda value: bytes([ord(value)]),
    oids.BYTEA: bytes,
    oids.UUID: lambda value: bytes(value.bytes),
    oids.NUMERIC: _send_numeric,
    oids.DATE: lambda value: _INT4.pack(_without_infinity(value, 32)),
    oids.TIME: _INT8.pack,
    oids.TIMETZ: lambda value: struct.pack("!qi", *value),
    oids.TIMESTAMP: lambda value: _INT8.pack(_without_infinity(value, 64)),
    oids.TIMESTAMPTZ: lambda value: _INT8.pack(_without_infinity(value, 64)),
    oids.INTERVAL: lambda value: struct.pack("!qii", value.usecs, value.days, value.months),
    oids.BIT: _send_bits,
    oids.VARBIT: _send_bits,
    oids.INET: partial(_send_address, is_cidr=False),
    oids.CIDR: partial(_send_address, is_cidr=True),
    oids.MACADDR: _send_mac,
    oids.MACADDR8: _send_mac,
    oids.TID: lambda value: struct.pack("!IH", *value),
    oids.PG_SNAPSHOT: _send_snapshot,
    oids.TXID_SNAPSHOT: _send_snapshot,
    oids.VOID: lambda value: b"",
}
RECEIVE: dict[int, Receive] = {
    **{typoid: _fixed(form) for typoid, form in _FIXED.items()},
    **{typoid: _text(typoid) for typoid in _TEXTS},
    oids.BOOL: lambda message, typmod, style: message.octets() != 0,
    oids.CHAR: lambda message, typmod, style: chr(message.octets()),
    oids.BYTEA: lambda message, typmod, style: message.rest(),
    oids.UUID: lambda message, typmod, style: UUID(bytes=message.take(16)),
    oids.NUMERIC: _receive_numeric,
    oids.DATE: _receive_date,
    oids.TIME: _receive_time,
    oids.TIMETZ: _receive_timetz,
    oids.TIMESTAMP: _receive_timestamp,
    oids.TIMESTAMPTZ: _receive_timestamp,
    oids.INTERVAL: _receive_interval,
    oids.BIT: partial(_receive_bits, varying=False),
    oids.VARBIT: partial(_receive_bits, varying=True),
    oids.INET: partial(_receive_address, is_cidr=False),
    oids.CIDR: partial(_receive_address, is_cidr=True),
    oids.MACADDR: lambda message, typmod, style: message.octets(6).to_bytes(6, "big").hex(":"),
    oids.MACADDR8: _receive_mac8,
    **{typoid: _versioned(typoid, name) for typoid, name in _VERSIONED.items()},
    oids.TID: lambda message, typmod, style: (message.unpack("I"), message.unpack("H")),
    oids.PG_SNAPSHOT: _receive_snapshot,
    oids.TXID_SNAPSHOT: _receive_snapshot,
    oids.VOID: lambda message, typmod, style: "",
}
