"""The functions that information_schema calls for a type and its modifier: _pg_char_max_length, _pg_numeric_scale and
the like."""

from __future__ import annotations

from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family
from pgrepl.types import oids
from pgrepl.types.encodings import width
from pgrepl.types.names import format_type

implements = Family()

_MOST_BYTES = 2**30  # of a text
_INTEGERS = {oids.INT2: 16, oids.INT4: 32, oids.INT8: 64}
_FLOATS = {oids.FLOAT4: 24, oids.FLOAT8: 53}
_TIMES = (oids.TIME, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.TIMETZ)
_FULL_PRECISION = 0xFFFF
_INTERVAL = "interval"


@implements("_pg_char_max_length(oid,integer)")
def char_max_length(typid: int, typmod: int) -> int | None:
    if typmod == -1:
        return None
    if typid in (oids.BPCHAR, oids.VARCHAR):
        return typmod - 4
    return typmod if typid in (oids.BIT, oids.VARBIT) else None


@implements("_pg_char_octet_length(oid,integer)", context=True)
def char_octet_length(call: Call, typid: int, typmod: int) -> int | None:
    if typid not in (oids.TEXT, oids.BPCHAR, oids.VARCHAR):
        return None
    length = char_max_length(typid, typmod)
    return (
        _MOST_BYTES
        if typmod == -1
        else None
        if length is None
        else length * width(call.session.settings.get("server_encoding"))
    )


@implements("_pg_numeric_precision(oid,integer)")
def numeric_precision(typid: int, typmod: int) -> int | None:
    if typid == oids.NUMERIC:
        return None if typmod == -1 else (typmod - 4) >> 16 & 0xFFFF
    return _INTEGERS.get(typid) or _FLOATS.get(typid)


@implements("_pg_numeric_precision_radix(oid,integer)")
def numeric_precision_radix(typid: int, typmod: int) -> int | None:
    if typid == oids.NUMERIC:
        return 10
    return 2 if typid in _INTEGERS or typid in _FLOATS else None


@implements("_pg_numeric_scale(oid,integer)")
def numeric_scale(typid: int, typmod: int) -> int | None:
    if typid == oids.NUMERIC:
        return None if typmod == -1 else (typmod - 4) & 0xFFFF
    return 0 if typid in _INTEGERS else None


@implements("_pg_datetime_precision(oid,integer)")
def datetime_precision(typid: int, typmod: int) -> int | None:
    if typid == oids.DATE:
        return 0
    if typid in _TIMES:
        return 6 if typmod < 0 else typmod
    if typid != oids.INTERVAL:
        return None
    precision = typmod & _FULL_PRECISION
    return 6 if typmod < 0 or precision == _FULL_PRECISION else precision


@implements("_pg_interval_type(oid,integer)")
def interval_type(typid: int, typmod: int) -> str | None:
    """The fields, as in INTERVAL YEAR TO MONTH; None without them."""
    if typid != oids.INTERVAL:
        return None
    fields = format_type(typid, typmod).removeprefix(_INTERVAL).lstrip("(0123456789)")
    return fields.strip().upper() if fields.startswith(" ") else None
