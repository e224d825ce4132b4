"""Arithmetic of integers, floats, booleans and LSNs, with PostgreSQL's ranges and errors."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pgrepl.expr.functions.registry import Family
from pgrepl.ground.errors import PgError
from pgrepl.types.numbers import to_float4

implements = Family()


def division_by_zero() -> PgError:
    return PgError("22012", "division by zero")


def integer_out_of_range(bits: int) -> PgError:
    name = {16: "smallint", 32: "integer", 64: "bigint"}[bits]
    return PgError("22003", f"{name} out of range")


def fit_integer(value: int, bits: int) -> int:
    if -(1 << bits - 1) <= value < 1 << bits - 1:
        return value
    raise integer_out_of_range(bits)


def check_buckets(
    is_nan: Callable[[Any], bool], is_infinite: Callable[[Any], bool], values: tuple[Any, Any, Any], count: int
) -> None:
    """The errors of width_bucket(operand, low, high, count)."""
    if count <= 0:
        raise PgError("2201G", "count must be greater than zero")
    if any(map(is_nan, values)):
        raise PgError("2201G", "operand, lower bound, and upper bound cannot be NaN")
    if any(map(is_infinite, values[1:])):
        raise PgError("2201G", "lower and upper bounds must be finite")
    if values[1] == values[2]:
        raise PgError("2201G", "lower bound cannot equal upper bound")


def _quotient(a: int, b: int) -> int:
    """The quotient, truncated toward zero."""
    if b == 0:
        raise division_by_zero()
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b >= 0) else -quotient


def _remainder(a: int, b: int) -> int:
    """The remainder, with the sign of the dividend."""
    if b == 0:
        raise division_by_zero()
    return abs(a) % abs(b) if a >= 0 else -(abs(a) % abs(b))


_BINARY: dict[str, tuple[Callable[[int, int], int], str, str]] = {
    "pl": (operator.add, "add_checked", "+"),
    "mi": (operator.sub, "subtract_checked", "-"),
    "mul": (operator.mul, "multiply_checked", "*"),
    "div": (_quotient, "divide_checked", "div"),
}


# bits of the result of an integer function, by the prefix of its name
INTEGERS = {
    "int2": 16,
    "int24": 32,
    "int42": 32,
    "int4": 32,
    "int28": 64,
    "int82": 64,
    "int48": 64,
    "int84": 64,
    "int8": 64,
}


SPARK_TYPES = {16: "SMALLINT", 32: "INT", 64: "BIGINT"}


def _in_spark(template: str, bits: int, within: int) -> str:
    """An operation done in a wider type. What does not fit fails in the cast back: only a cast's error names the
    type."""
    wide = SPARK_TYPES[min(within, 64)]
    text = template.format(*[f"CAST({{{place}}} AS {wide})" for place in range(2)])
    return text if within == bits else f"CAST({text} AS {SPARK_TYPES[bits]})"


def _integers(prefix: str, bits: int) -> None:
    def make(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1

        def compute(a: int, b: int) -> int:
            value = function(a, b)
            if low <= value <= high:
                return value
            raise integer_out_of_range(bits)

        return compute

    for word, (function, kernel, sign) in _BINARY.items():
        spark = _in_spark(f"({{0}} {sign} {{1}})", bits, 64 if sign == "div" else 2 * bits)
        implements(prefix + word, columns=kernel, spark=spark)(make(function))


for _prefix, _bits in INTEGERS.items():
    _integers(_prefix, _bits)


def _to_signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _one_size(prefix: str, bits: int) -> None:
    """Register the functions whose operands have one integer type."""
    wide = 2 * bits
    implements(f"{prefix}mod", spark="({} % {})")(_remainder)
    negated, absolute = _in_spark("(- {0})", bits, wide), _in_spark("abs({0})", bits, wide)
    implements(f"{prefix}um", columns="negate_checked", spark=negated)(lambda a: fit_integer(-a, bits))
    implements(f"{prefix}up", columns="cast", spark="{}")(lambda a: a)
    implements(f"{prefix}abs", columns="abs_checked", spark=absolute)(lambda a: fit_integer(abs(a), bits))
    implements(f"{prefix}and", columns="bit_wise_and", spark="({} & {})")(operator.and_)
    implements(f"{prefix}or", columns="bit_wise_or", spark="({} | {})")(operator.or_)
    implements(f"{prefix}xor", columns="bit_wise_xor", spark="({} ^ {})")(operator.xor)
    implements(f"{prefix}not", columns="bit_wise_not", spark="(~ {})")(operator.invert)
    shift = bits - 1 if bits == 64 else 31  # as C shifts: the count is taken modulo the register
    left, right = "shiftleft({}, {})", "shiftright({}, {})"
    if bits == 16:
        left = "CAST(shiftright(shiftleft(shiftleft(CAST({} AS INT), {}), 16), 16) AS SMALLINT)"
        right = "CAST(shiftright(CAST({} AS INT), {}) AS SMALLINT)"
    implements(f"{prefix}shl", spark=left)(lambda a, n: _to_signed(a << (n & shift), bits))
    implements(f"{prefix}shr", spark=right)(lambda a, n: a >> (n & shift))


for _prefix, _bits in {"int2": 16, "int4": 32, "int8": 64}.items():
    _one_size(_prefix, _bits)


implements("int4inc")(lambda a: fit_integer(a + 1, 32))
implements("int8inc")(lambda a: fit_integer(a + 1, 64))
implements("int8dec")(lambda a: fit_integer(a - 1, 64))


def _gcd(bits: int) -> Callable[[int, int], int]:
    return lambda a, b: fit_integer(math.gcd(a, b), bits)


def _lcm(bits: int) -> Callable[[int, int], int]:
    return lambda a, b: fit_integer(math.lcm(a, b), bits)


implements("int4gcd")(_gcd(32))
implements("int8gcd")(_gcd(64))
implements("int4lcm")(_lcm(32))
implements("int8lcm")(_lcm(64))


# -------------------------------------------------------------------------------------------------------------- floats


def float_overflow() -> PgError:
    return PgError("22003", "value out of range: overflow")


def float_underflow() -> PgError:
    return PgError("22003", "value out of range: underflow")


def _add(a: float, b: float) -> float:
    value = a + b
    if math.isinf(value) and not math.isinf(a) and not math.isinf(b):
        raise float_overflow()
    return value


def _multiply(a: float, b: float) -> float:
    value = a * b
    if math.isinf(value) and not math.isinf(a) and not math.isinf(b):
        raise float_overflow()
    if value == 0.0 and a != 0.0 and b != 0.0:
        raise float_underflow()
    return value


def _divide(a: float, b: float) -> float:
    if b == 0.0 and not math.isnan(a):
        raise division_by_zero()
    value = a / b if b != 0.0 else math.nan
    if math.isinf(value) and not math.isinf(a):
        raise float_overflow()
    if value == 0.0 and a != 0.0 and not math.isinf(b):
        raise float_underflow()
    return value


_FLOATS: dict[str, Callable[[float, float], float]] = {
    "pl": _add,
    "mi": lambda a, b: _add(a, -b),
    "mul": _multiply,
    "div": _divide,
}


def _single(function: Callable[[float, float], float], multiplies: bool) -> Callable[[float, float], float]:
    def compute(a: float, b: float) -> float:
        value = to_float4(function(a, b))
        if math.isinf(value) and not math.isinf(a) and not math.isinf(b):
            raise float_overflow()
        if multiplies and value == 0.0 and a != 0.0 and b != 0.0 and not math.isinf(b):
            raise float_underflow()
        return value

    return compute


for _word, _function in _FLOATS.items():
    for _prefix in ("float8", "float48", "float84"):
        implements(_prefix + _word)(_function)
    implements("float4" + _word)(_single(_function, _word in ("mul", "div")))

implements("float4um", "float8um", columns="negate", spark="(- {})")(operator.neg)
implements("float4up", "float8up", columns="cast", spark="{}")(operator.pos)
implements("float4abs", "float8abs", columns="abs", spark="abs({})")(abs)


# ---------------------------------------------------------------------------------------------------------------- LSNs


implements("pg_lsn_mi")(lambda a, b: Decimal(a - b))


def _moved(lsn: int, by: Decimal, sign: int) -> int:
    if by.is_nan():
        raise PgError("0A000", "cannot add NaN to pg_lsn" if sign > 0 else "cannot subtract NaN from pg_lsn")
    if by.is_infinite():
        raise PgError("0A000", "cannot convert infinity to pg_lsn")
    value = lsn + sign * int(by.to_integral_value(rounding="ROUND_HALF_UP"))
    if not 0 <= value < 1 << 64:
        raise PgError("22023", "pg_lsn out of range")
    return value


implements("pg_lsn_pli")(lambda lsn, by: _moved(lsn, by, 1))
implements("numeric_pl_pg_lsn(numeric,pg_lsn)")(lambda by, lsn: _moved(lsn, by, 1))
implements("pg_lsn_mii")(lambda lsn, by: _moved(lsn, by, -1))


@implements("numeric_pg_lsn")
def numeric_pg_lsn(value: Decimal) -> int:
    if value.is_nan():
        raise PgError("0A000", "cannot convert NaN to pg_lsn")
    if value.is_infinite():
        raise PgError("0A000", "cannot convert infinity to pg_lsn")
    lsn = int(value.to_integral_value(rounding="ROUND_HALF_UP"))
    if not 0 <= lsn < 1 << 64:
        raise PgError("22023", "pg_lsn out of range")
    return lsn
