"""The binary format of values: the results of types' send functions, and what receive functions read.

COPY (FORMAT binary) writes and reads it. With `binary = true` the publisher sends a value by its column's type, and the
subscriber receives it by the type of its own column. `sends` and `receives` return None for types that pgrepl has no
values of.

>>> sends(oids.INT4)(1), receives(oids.INT4)(BinaryMessage(bytes(4)), -1, DEFAULT_STYLE)
(b'\\x00\\x00\\x00\\x01', 0)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from pgrepl.ground.errors import PgError, unsupported
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, check_bounds, check_dimensions, vector_of
from pgrepl.types.binary_scalars import INVALID, RECEIVE, SEND, BinaryMessage, Receive, Send, send_text
from pgrepl.types.builtin import element_type, range_by_oid, range_of_multirange, type_by_oid
from pgrepl.types.input_checks import UTF8, check_items
from pgrepl.types.names import format_type
from pgrepl.types.ranges import PgMultirange, PgRange, make_multirange, make_range
from pgrepl.types.style import Record, TextStyle, guessed_type
from pgrepl.types.text import read_null, reader
from pgrepl.types.user_types import composite_type

_NULL = struct.pack("!i", -1)
_INT4 = struct.Struct("!i")
_FIRST_GENBKI_OID = 10_000
_VECTORS = (oids.OIDVECTOR, oids.INT2VECTOR)


@cache
def sends(typoid: int, encoding: str = UTF8) -> Send | None:
    """The send function of a type, whose texts are in an encoding."""
    known = SEND.get(typoid) or send_text(typoid, encoding)
    if known is not None:
        return known
    if typoid in (oids.ANYARRAY, oids.RECORD_ARRAY):
        return lambda value: _send_array(value.elemtype, sender(value.elemtype, encoding), value)
    ranges = range_by_oid(typoid)
    if ranges is not None:
        return partial(_send_range, sender(ranges.subtype, encoding))
    ranges = range_of_multirange(typoid)
    if ranges is not None:
        return partial(_send_multirange, sender(ranges.subtype, encoding))
    row = type_by_oid(typoid)
    element = element_type(typoid)
    if element:
        send = sends(element, encoding)
        return None if send is None else partial(_send_array, element, send)
    if row is not None and row.typtype == "d":
        return sends(row.basetype, encoding)
    if row is not None and row.typtype == "e":
        return send_text(oids.TEXT, encoding)
    if row is None or row.typtype == "c" or typoid == oids.RECORD:
        return partial(_send_record, encoding)
    return None


def sender(typoid: int, encoding: str) -> Send:
    """The send function of a type, or the error for a type that has none."""
    send = sends(typoid, encoding)
    return send if send is not None else partial(_refused, typoid, "output")


def receiver(typoid: int) -> Receive:
    """The receive function of a type, or the error for a type that has none."""
    receive = receives(typoid)
    return receive if receive is not None else partial(_refused, typoid, "input")


def _refused(typoid: int, direction: str, *_: Any) -> Any:
    check_function(typoid, direction)
    raise unsupported(f"the binary format of type {format_type(typoid)}")


def check_function(typoid: int, direction: str) -> None:
    """Raise the error for a type that PostgreSQL has no binary `input` or `output` function of
    (getTypeBinaryInputInfo)."""
    row = type_by_oid(typoid)
    if row is not None and (row.receive if direction == "input" else row.send) == "-":
        raise PgError("42883", f"no binary {direction} function available for type {format_type(typoid)}")


@cache
def receives(typoid: int) -> Receive | None:
    """The receive function of a type."""
    receive = RECEIVE.get(typoid)
    if receive is not None:
        return receive
    ranges = range_by_oid(typoid)
    if ranges is not None:
        return partial(_receive_range, ranges.subtype)
    ranges = range_of_multirange(typoid)
    if ranges is not None:
        return partial(_receive_multirange, ranges.subtype)
    row = type_by_oid(typoid)
    element = element_type(typoid)
    if element:
        if receives(element) is None:
            return None
        return partial(_receive_vector if typoid in _VECTORS else _receive_array, element)
    if row is not None and row.typtype == "d":
        base = receives(row.basetype)
        return None if base is None else partial(_receive_domain, typoid, base, row.typmod)
    if row is not None and row.typtype == "e":
        return lambda message, typmod, style: reader(typoid)(message.text(style.encoding), typmod, style)
    if row is None or row.typtype == "c" or typoid == oids.RECORD:
        return partial(_receive_row, typoid)
    return None


def _receive_domain(
    typoid: int, base: Receive, base_typmod: int, message: BinaryMessage, typmod: int, style: TextStyle
) -> Any:
    """A value of a domain from its binary form, constraints tested (domain_recv)."""
    value = base(message, base_typmod, style)
    if style.check_domain is not None and not style.stored:
        style.check_domain(typoid, value)
    return value


# --- arrays -----------------------------------------------------------------------------------------------------------


def _framed(send: Send, item: Any) -> bytes:
    if item is None:
        return _NULL
    sent = send(item)
    return _INT4.pack(len(sent)) + sent


def _send_array(element: int, send: Send, value: PgArray) -> bytes:
    """An array's binary form (array_send)."""
    items, dims = value.items, value.dims
    parts = [struct.pack("!iiI", len(dims), int(None in items), element)]
    parts += [struct.pack("!ii", size, lower) for size, lower in zip(dims, value.lbounds, strict=True)]
    parts += [_framed(send, item) for item in items]
    return b"".join(parts)


def _receive_array(element: int, message: BinaryMessage, typmod: int, style: TextStyle) -> PgArray:
    """An array from its binary form (array_recv)."""
    ndim = message.unpack("i")
    if ndim < 0:
        raise PgError(INVALID, f"invalid number of dimensions: {ndim}")
    check_dimensions(ndim)
    if message.unpack("i") not in (0, 1):
        raise PgError(INVALID, "invalid array flags")
    sent = message.unpack("I")
    if _is_another(sent, element):
        raise PgError(
            "42804",
            f"binary data has array element type {sent} ({format_type(sent)}) instead of expected {element} "
            f"({format_type(element)})",
        )
    bounds = [(message.unpack("i"), message.unpack("i")) for _ in range(ndim)]
    dims, lbounds = tuple([size for size, _ in bounds]), tuple([lower for _, lower in bounds])
    count = 1 if dims else 0
    for size in dims:
        check_items(2**31 if size < 0 else size)
        count *= size
        check_items(count)
    check_bounds(dims, lbounds)
    if not count:
        return PgArray(element, (), (), ())
    receive = receiver(element)
    items: list[Any] = []
    for number in range(1, count + 1):
        item = message.item()
        if item is None:
            read_null(element, style)
            items.append(None)
            continue
        items.append(receive(item, typmod, style))
        if not item.is_read:
            raise PgError(INVALID, f"improper binary format in array element {number}")
    return PgArray(element, dims, lbounds, tuple(items))


def _receive_vector(element: int, message: BinaryMessage, typmod: int, style: TextStyle) -> PgArray:
    """oidvectorrecv and int2vectorrecv: one dimension from 0, without NULLs."""
    value = _receive_array(element, message, typmod, style)
    if len(value.dims) != 1 or value.lbounds[0] != 0 or None in value.items:
        name = "oidvector" if element == oids.OID else "int2vector"
        raise PgError(INVALID, f"invalid {name} data")
    return vector_of(element, value.items)


def _is_another(sent: int, expected: int) -> bool:
    """Whether a sender means another type. Only PostgreSQL's own types have the same OIDs everywhere, so that others
    are not looked at: drivers send a domain's base type (array_recv, record_recv)."""
    return sent != expected and max(sent, expected) < _FIRST_GENBKI_OID


# --- ranges -----------------------------------------------------------------------------------------------------------

_EMPTY, _LOWER_INC, _UPPER_INC, _LOWER_INF, _UPPER_INF = 1, 2, 4, 8, 16


def _send_range(send: Send, value: PgRange) -> bytes:
    """A range's binary form (range_send)."""
    if value.empty:
        return bytes([_EMPTY])
    flags = (
        value.lower_inc * _LOWER_INC
        + value.upper_inc * _UPPER_INC
        + (value.lower is None) * _LOWER_INF
        + (value.upper is None) * _UPPER_INF
    )
    return bytes([flags]) + b"".join(
        [_framed(send, bound) for bound in (value.lower, value.upper) if bound is not None]
    )


def _receive_range(subtype: int, message: BinaryMessage, typmod: int, style: TextStyle) -> PgRange:
    """A range from its binary form (range_recv)."""
    flags, receive = message.octets(), receiver(subtype)

    def bound(infinite: int) -> Any:
        if flags & (_EMPTY | infinite):
            return None
        return receive(BinaryMessage(message.take(message.unpack("i"))), -1, style)

    lower, upper = bound(_LOWER_INF), bound(_UPPER_INF)
    message.end()
    if flags & _EMPTY:
        return PgRange(subtype, empty=True)
    return make_range(subtype, lower, upper, bool(flags & _LOWER_INC), bool(flags & _UPPER_INC))


def _send_multirange(send: Send, value: PgMultirange) -> bytes:
    return _INT4.pack(len(value.ranges)) + b"".join([_framed(partial(_send_range, send), r) for r in value.ranges])


def _receive_multirange(subtype: int, message: BinaryMessage, typmod: int, style: TextStyle) -> PgMultirange:
    ranges = []
    for _ in range(message.unpack("I")):
        ranges.append(_receive_range(subtype, BinaryMessage(message.take(message.unpack("i"))), -1, style))
    message.end()
    return make_multirange(subtype, ranges)


# --- rows -------------------------------------------------------------------------------------------------------------


def _send_record(encoding: str, value: Sequence[Any]) -> bytes:
    """A row in binary form (record_send). The fields of a plain tuple are sent by their Python types."""
    types = value.types if isinstance(value, Record) else [guessed_type(item) for item in value]
    parts = [_INT4.pack(len(value))]
    for item, typoid in zip(value, types, strict=True):
        parts += [struct.pack("!I", typoid), _framed(sender(typoid, encoding), item)]
    return b"".join(parts)


def _receive_row(typoid: int, message: BinaryMessage, typmod: int, style: TextStyle) -> Any:
    """A row from its binary form (record_recv); the style's lookup knows the columns."""
    if typoid == oids.RECORD:
        raise PgError("0A000", "input of anonymous composite types is not implemented")
    row = composite_type(typoid) or (style.lookup.row_type(typoid) if style.lookup is not None else None)
    if row is None:
        raise unsupported(f"type {format_type(typoid)}")
    count, expected = message.unpack("i"), len(row.fields)
    if count != expected:
        raise PgError("42804", f"wrong number of columns: {count}, expected {expected}")
    values: list[Any] = []
    for number, field in enumerate(row.fields, 1):
        sent = message.unpack("I")
        if _is_another(sent, field.type):
            raise PgError(
                "42804",
                f"binary data has type {sent} ({format_type(sent)}) instead of expected {field.type} "
                f"({format_type(field.type)}) in record column {number}",
            )
        item = message.item()
        if item is None:
            read_null(field.type, style)
            values.append(None)
            continue
        values.append(receiver(field.type)(item, field.typmod, style))
        if not item.is_read:
            raise PgError(INVALID, f"improper binary format in record column {number}")
    return Record(values, row.types, row.names)
