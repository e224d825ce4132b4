"""Pieces of Spark SQL: typed texts, string constants, errors; and bytes that sort as PostgreSQL sorts values.

>>> order_bytes("10.5", oids.TEXT) < order_bytes("9", oids.TEXT)
True
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from pgrepl.ground.errors import PgError, marked
from pgrepl.ground.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import element_type, type_by_oid
from pgrepl.types.lake.forms import form
from pgrepl.types.names import format_type
from pgrepl.types.ranges import PgMultirange, PgRange
from pgrepl.types.values import order_key


@frozen
class Sql:
    """A Spark SQL expression that can be used anywhere, also as an operand.

    `type` is its Spark type as in DDL. For numeric it is STRING (PostgreSQL's text), or a decimal whose scale is the
    display scale of every value. `special` belongs to a decimal: the SQL of a text for values that no decimal holds
    (NaN, Infinity), NULL for all others; None if there are no such values.
    """

    text: str
    type: str
    null: bool = False  # it is the constant NULL
    special: str | None = None
    unchecked: Unchecked | None = None


@frozen
class Unchecked:
    """Float arithmetic whose overflow check is made once for a whole nest of operations (see arithmetic.py)."""

    plain: str  # the operations alone
    fine: tuple[str, ...]  # what else than a finite result is true when none of them failed
    checked: str  # the value, or the error, with every operation checked


_SAFE = re.compile(r"[A-Za-z0-9 _.,:;=<>()+*/@#%\"\[\]!?|~^&-]")


def quoted(text: str) -> str:
    """A string constant. Everything but plain characters is written by its number, so nothing in it can end it."""
    out = []
    for char in text:
        code = ord(char)
        if _SAFE.match(char):
            out.append(char)
        elif code < 0x10000:
            out.append(f"\\u{code:04x}")
        else:
            out.append(f"\\U{code:08x}")
    return "'" + "".join(out) + "'"


_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


def decimal_type(precision: int, scale: int) -> str:
    return f"DECIMAL({precision},{scale})"


def decimal_size(spark_type: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for any other type."""
    match = _DECIMAL.fullmatch(spark_type)
    return (int(match[1]), int(match[2])) if match is not None else None


def decimal_typmod(precision: int, scale: int) -> int:
    return (precision << 16 | scale) + 4


_AS_TEXT = frozenset({oids.UNKNOWN, oids.CSTRING, oids.VOID})


def form_type(typoid: int, typmod: int = -1) -> str:
    """The Spark type of columns of a PostgreSQL type."""
    return "STRING" if typoid in _AS_TEXT else form(typoid, typmod).spark


def cast(text: str, spark_type: str) -> str:
    return f"CAST({text} AS {spark_type})"


def null_of(spark_type: str) -> Sql:
    return Sql(cast("NULL", spark_type), spark_type, null=True)


def as_float(value: Sql) -> Sql:
    """A number as double precision."""
    number = cast(value.text, "DOUBLE")
    if value.special is None:
        return Sql(number, "DOUBLE")
    return Sql(f"coalesce(CAST({value.special} AS DOUBLE), {number})", "DOUBLE")


def numeric_text(sql: Sql) -> str:
    """A numeric as PostgreSQL's text."""
    if sql.type == "STRING":
        return sql.text
    assert decimal_size(sql.type) is not None
    written = cast(sql.text, "STRING")
    return written if sql.special is None else f"coalesce({sql.special}, {written})"


def raised(error: PgError) -> str:
    """An expression that raises an error when evaluated; it has whatever type its context needs."""
    return f"raise_error({quoted(marked(error).replace(_USUAL, '{'))})"


_USUAL = '{"severity": "ERROR", '


def calls_python(text: str) -> bool:
    """Whether the SQL calls a fall-back function; Spark does not allow one in a lambda."""
    return FUNCTION_PREFIX in text


FUNCTION_PREFIX = "pgrepl_"
_LONG = 1500


def let(values: Sequence[Sql], body: Callable[..., str]) -> str:
    """The SQL of `body` over the SQL of some values, which it may use several times.

    When that gets long, the values are computed once, in a struct that a lambda is given: otherwise a nest of such
    bodies would double with each level. A lambda runs slower than plain SQL, so what is short is simply repeated. The
    body may call no fall-back function.
    """
    repeated = body(*[value.text for value in values])
    if len(repeated) <= _LONG or all(_NAME.fullmatch(value.text) for value in values):
        return repeated
    name = f"v{_depth(values)}"
    named = ", ".join(f"'a{n}', {value.text}" for n, value in enumerate(values))
    fields = [f"{name}.a{n}" for n in range(len(values))]
    return f"element_at(transform(array(named_struct({named})), {name} -> {body(*fields)}), 1)"


_NAME = re.compile(r"[\w.:`]+|CAST\([\w.:`']+ AS [A-Z0-9_(),]+\)")  # a column, a parameter, a constant
_LAMBDA = re.compile(r"\bv(\d+) -> ")


def _depth(values: Sequence[Sql]) -> int:
    """A number that no lambda inside these texts has."""
    return 1 + max((int(n) for value in values for n in _LAMBDA.findall(value.text)), default=0)


# --- order bytes ------------------------------------------------------------------------------------------------------


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
