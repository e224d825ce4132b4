"""Cast functions: between numbers, to and from text, and length coercion (fitting a value to a type modifier)."""

from __future__ import annotations

import math
from decimal import Decimal

from pgrepl.expr.functions.arithmetic import fit_integer, integer_out_of_range
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.lake.arrays import same
from pgrepl.types.numbers import to_float4
from pgrepl.types.numeric import INFINITY, NAN, NEGATIVE_INFINITY, fit, read_numeric
from pgrepl.types.plain import fit_bits, read_char, truncate_name, write_char
from pgrepl.types.text import read_text
from pgrepl.types.times.datetime import TimeTz, fit_time, fit_timestamp
from pgrepl.types.times.interval import fit_interval

implements = Family()

# ------------------------------------------------------------------------------------------------------------- numbers


for _sources, _type in (("i2toi4", "INT"), ("int28", "BIGINT"), ("int48", "BIGINT")):
    implements(_sources, columns="cast", spark=f"CAST({{}} AS {_type})")(same)
implements("ftod", spark="CAST({} AS DOUBLE)")(same)
implements("oidtoi8", spark="{}")(same)
implements("i2tod", "i4tod", "i8tod", columns="cast", spark="CAST({} AS DOUBLE)")(float)
implements("i4toi2", "int82", columns="cast", spark="CAST({} AS SMALLINT)")(lambda value: fit_integer(value, 16))
implements("int84", columns="cast", spark="CAST({} AS INT)")(lambda value: fit_integer(value, 32))


@implements("i8tooid")
def i8tooid(value: int) -> int:
    if not 0 <= value < 1 << 32:
        raise PgError("22003", "OID out of range")
    return value


implements("i2tof", "i4tof", "i8tof", spark="CAST(CAST({} AS DOUBLE) AS FLOAT)")(to_float4)


@implements("dtof")
def dtof(value: float) -> float:
    single = to_float4(value)
    if math.isinf(single) and not math.isinf(value):
        raise PgError("22003", "value out of range: overflow")
    if single == 0.0 and value != 0.0:
        raise PgError("22003", "value out of range: underflow")
    return single


def _rounded(value: float, bits: int) -> int:
    if math.isnan(value) or math.isinf(value):
        raise integer_out_of_range(bits)
    return fit_integer(round(value), bits)


implements("dtoi2", "ftoi2")(lambda value: _rounded(value, 16))
implements("dtoi4", "ftoi4")(lambda value: _rounded(value, 32))
implements("dtoi8", "ftoi8")(lambda value: _rounded(value, 64))
implements("int2_numeric", "int4_numeric", "int8_numeric")(Decimal)


def _integer_of(value: Decimal, bits: int) -> int:
    name = {16: "smallint", 32: "integer", 64: "bigint"}[bits]
    if value.is_nan():
        raise PgError("0A000", f"cannot convert NaN to {name}")
    if value.is_infinite():
        raise PgError("0A000", f"cannot convert infinity to {name}")
    if value.adjusted() > 20:
        raise integer_out_of_range(bits)
    return fit_integer(int(value.to_integral_value(rounding="ROUND_HALF_UP")), bits)


@implements("numeric_int2")
def numeric_int2(value: Decimal) -> int:
    return _integer_of(value, 16)


@implements("numeric_int4")
def numeric_int4(value: Decimal) -> int:
    return _integer_of(value, 32)


@implements("numeric_int8")
def numeric_int8(value: Decimal) -> int:
    return _integer_of(value, 64)


def _special_numeric(value: float) -> Decimal | None:
    if math.isnan(value):
        return NAN
    if math.isinf(value):
        return INFINITY if value > 0 else NEGATIVE_INFINITY
    return None


@implements("float8_numeric")
def float8_numeric(value: float) -> Decimal:
    return _special_numeric(value) or read_numeric(f"{value:.15g}")


@implements("float4_numeric")
def float4_numeric(value: float) -> Decimal:
    return _special_numeric(value) or read_numeric(f"{value:.6g}")


@implements("numeric_float8")
def numeric_float8(value: Decimal) -> float:
    result = float(value)
    if (math.isinf(result) and value.is_finite()) or (result == 0.0 and value):
        raise _float_range(value, "double precision")
    return result


@implements("numeric_float4")
def numeric_float4(value: Decimal) -> float:
    result = to_float4(float(value))
    if (math.isinf(result) and value.is_finite()) or (result == 0.0 and value):
        raise _float_range(value, "real")
    return result


def _float_range(value: Decimal, typename: str) -> PgError:
    return PgError("22003", f'"{value:f}" is out of range for type {typename}')


implements("int4_bool", spark="({} <> 0)")(lambda value: value != 0)
implements("bool_int4", spark="CAST({} AS INT)")(int)
implements("numeric")(fit)


# ------------------------------------------------------------------------------------------------------------- strings


implements("booltext", spark="CAST({} AS STRING)")(lambda value: "true" if value else "false")


@implements("varchar")
def varchar(value: str, typmod: int, explicit: bool) -> str:
    most = typmod - 4
    if typmod < 4 or len(value) <= most:
        return value
    if not explicit and value[most:].strip(" "):
        raise PgError("22001", f"value too long for type character varying({most})")
    return value[:most]


@implements("bpchar")
def bpchar(value: str, typmod: int, explicit: bool) -> str:
    length = typmod - 4
    if typmod < 4:
        return value
    if len(value) > length:
        if not explicit and value[length:].strip(" "):
            raise PgError("22001", f"value too long for type character({length})")
        return value[:length]
    return value.ljust(length)


implements("text_name")(truncate_name)
implements("bpchar_name")(lambda value: truncate_name(value).rstrip(" "))
implements("name_text", "name_bpchar", spark="{}")(same)
implements("rtrim1", spark="rtrim({})")(lambda value: value.rstrip(" "))
implements("char_text", "char_bpchar")(write_char)
implements("text_char")(read_char)


@implements("chartoi4")
def chartoi4(value: str) -> int:
    code = ord(value)
    return code - 256 if code > 127 else code


@implements("i4tochar")
def i4tochar(value: int) -> str:
    if not -128 <= value <= 127:
        raise PgError("22003", '"char" out of range')
    return chr(value & 0xFF)


# ------------------------------------------------------------------------------------------------- bits, times, others


@implements("bit")
def bit(value: str, typmod: int, explicit: bool) -> str:
    if typmod <= 0 or len(value) == typmod:
        return value
    if not explicit:
        return fit_bits(value, typmod, varying=False)
    return value[:typmod].ljust(typmod, "0")


@implements("varbit")
def varbit(value: str, typmod: int, explicit: bool) -> str:
    if typmod <= 0 or len(value) <= typmod:
        return value
    return value[:typmod] if explicit else fit_bits(value, typmod, varying=True)


@implements("bitfromint4", "bitfromint8")
def bits_of(value: int, typmod: int) -> str:
    length = max(typmod, 1)
    return f"{value & (1 << length) - 1:0{length}b}"


def _signed_bits(value: str, bits: int) -> int:
    if len(value) > bits:
        raise integer_out_of_range(bits)
    number = int(value or "0", 2)
    return number - (1 << bits) if len(value) == bits and value[0] == "1" else number


implements("bittoint4")(lambda value: _signed_bits(value, 32))
implements("bittoint8")(lambda value: _signed_bits(value, 64))
implements("interval_scale")(fit_interval)
implements("time_scale")(fit_time)
implements("timetz_scale")(lambda value, typmod: TimeTz(fit_time(value.usecs, typmod), value.zone))
implements("timestamp_scale", "timestamptz_scale")(fit_timestamp)
implements("xid8toxid")(lambda value: value & 0xFFFFFFFF)


@implements("text_regclass", context=True)
def text_regclass(call: Call, value: str) -> int:
    text: int = read_text(value, oids.REGCLASS, -1, call.style)
    return text
