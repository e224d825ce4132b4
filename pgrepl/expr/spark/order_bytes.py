"""Bytes that sort as PostgreSQL sorts values, and are equal when the values are: keys of types whose lake form does
not.

>>> order_bytes("10.5", oids.TEXT) < order_bytes("9", oids.TEXT)
True
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pgrepl.errors import PgError
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import element_type, type_by_oid
from pgrepl.types.names import format_type
from pgrepl.types.ranges import PgMultirange, PgRange
from pgrepl.types.values import order_key

_END, _ITEM, _NULL = b"\0", b"\1", b"\2"  # NULL is above all


def order_bytes(value: Any, typoid: int) -> bytes:
    element = element_type(typoid)
    if element or typoid in (oids.OIDVECTOR, oids.INT2VECTOR):
        return _array(value)
    row = type_by_oid(typoid)
    if row is not None and row.typtype in ("r", "m"):
        return _range(value) if row.typtype == "r" else _multirange(value)
    if row is None or row.typtype == "c" or typoid == oids.RECORD:
        raise PgError("0A000", f"ordering values of type {format_type(typoid)} on Spark is not supported")
    key = order_key(typoid)
    return encoded(value if key is None else key(value))


def encoded(key: Any) -> bytes:
    """The bytes of a key made of plain Python objects."""
    return _ENCODERS[type(key)](key) if type(key) in _ENCODERS else _by_class(key)


def _by_class(key: Any) -> bytes:
    for kind, encoder in _ENCODERS.items():
        if isinstance(key, kind):
            return encoder(key)
    return bytes(key.bytes)  # a UUID


def _integer(value: int) -> bytes:
    return (value + (1 << 127)).to_bytes(16, "big")


def _text(value: str) -> bytes:
    return _binary(value.encode("utf-8", "surrogatepass"))


def _binary(value: bytes) -> bytes:
    return value.replace(b"\0", b"\0\xff") + b"\0\0"


def _float(value: float) -> bytes:
    """The key of a float; NaN has been replaced before."""
    bits: int = struct.unpack(">Q", struct.pack(">d", value + 0.0))[0]
    return (bits ^ (0xFFFFFFFFFFFFFFFF if bits >> 63 else 1 << 63)).to_bytes(8, "big")


def _decimal(value: Decimal) -> bytes:
    """The key of a numeric: sign, number of digits before the decimal point, digits; the digits of negative numbers
    are inverted."""
    if not value.is_finite():
        return b"9" if value.is_nan() else b"8" if value > 0 else b"0"
    if not value:
        return b"5"
    digits = "".join(map(str, value.as_tuple().digits)).rstrip("0")
    size = f"{value.adjusted() + 500_000:07}" + digits
    if value > 0:
        return b"6" + size.encode() + _END
    return b"4" + size.translate(_TURNED).encode() + b"~"


_TURNED = str.maketrans("0123456789", "9876543210")


def _tuple(value: tuple[Any, ...]) -> bytes:
    return b"".join(_ITEM + encoded(item) for item in value) + _END


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    bool: lambda value: b"\1" if value else b"\0",
    int: _integer,
    float: _float,
    Decimal: _decimal,
    str: _text,
    bytes: _binary,
    tuple: _tuple,
}


def _array(value: PgArray) -> bytes:
    """The key of an array: elements, then their number and the dimensions, as in array_cmp."""
    items = b"".join(_NULL if item is None else _ITEM + order_bytes(item, value.elemtype) for item in value.items)
    return items + _END + encoded((len(value.dims), *value.dims))


def _range(value: PgRange) -> bytes:
    """As range_cmp does: an empty range is below all; lower bounds, then upper bounds."""
    if value.empty:
        return _END
    lower = _END if value.lower is None else _ITEM + order_bytes(value.lower, value.subtype)
    upper = _NULL if value.upper is None else _ITEM + order_bytes(value.upper, value.subtype)
    # an inclusive lower bound is below an exclusive one of the same value, an inclusive upper bound above
    return _ITEM + lower + bytes([not value.lower_inc]) + upper + bytes([value.upper_inc])


def _multirange(value: PgMultirange) -> bytes:
    return b"".join(_ITEM + _range(part) for part in value.ranges) + _END
