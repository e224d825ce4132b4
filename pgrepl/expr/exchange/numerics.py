"""numeric arithmetic: native where a 38-digit decimal holds every result exactly with PostgreSQL's scale.

Columns numeric(p,s), integers and constants are such decimals; a numeric without a modifier is text, and its arithmetic
is left to the fall-back. Division is too: its scale depends on the values.
"""

from __future__ import annotations

from collections.abc import Callable

from pgrepl.expr.exchange.arithmetic import SparkFunctionCall
from pgrepl.expr.exchange.compiler import NOT_CONSTANT
from pgrepl.expr.exchange.sql import Sql, as_float, cast, decimal_size, decimal_type, let, raised
from pgrepl.expr.functions.numbers.arithmetic import integer_out_of_range
from pgrepl.expr.functions.registry import in_spark
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.lake.forms import form
from pgrepl.types.names import numeric_precision_scale
from pgrepl.types.numeric import NAN, fit, read_numeric

MOST = 38
Size = tuple[int, int]


def _decimals(call: SparkFunctionCall) -> list[tuple[Sql, Size]] | None:
    found = []
    for value in call.values():
        size = decimal_size(value.type)
        if size is None:
            return None
        found.append((value, size))
    return found


def _made(text: str, precision: int, scale: int) -> Sql | None:
    return Sql(text, decimal_type(precision, scale)) if precision <= MOST else None


def _sum(sign: str) -> Callable[[SparkFunctionCall], Sql | None]:
    def make(call: SparkFunctionCall) -> Sql | None:
        operands = _decimals(call)
        if operands is None:
            return None
        (a, (p1, s1)), (b, (p2, s2)) = operands
        scale = max(s1, s2)
        return _made(f"({a.text} {sign} {b.text})", max(p1 - s1, p2 - s2) + scale + 1, scale)

    return make


in_spark("numeric_add")(_sum("+"))
in_spark("numeric_sub")(_sum("-"))


@in_spark("numeric_mul")
def numeric_mul(call: SparkFunctionCall) -> Sql | None:
    operands = _decimals(call)
    if operands is None:
        return None
    (a, (p1, s1)), (b, (p2, s2)) = operands
    return _made(f"({a.text} * {b.text})", p1 + p2 + 1, s1 + s2)


@in_spark("numeric_mod")
def numeric_mod(call: SparkFunctionCall) -> Sql | None:
    operands = _decimals(call)
    if operands is None:
        return None
    (a, (p1, s1)), (b, (p2, s2)) = operands
    scale, whole = max(s1, s2), max(p1 - s1, p2 - s2)
    if whole + scale > MOST:
        return None
    result = decimal_type(whole + scale, scale)
    return Sql(cast(f"({cast(a.text, result)} % {cast(b.text, result)})", result), result)


_NEGATED = 34  # digits that Spark keeps when it changes a sign


def _unary(write: Callable[[str], str]) -> Callable[[SparkFunctionCall], Sql | None]:
    def make(call: SparkFunctionCall) -> Sql | None:
        value = call.value(0)
        size = decimal_size(value.type)
        return None if size is None or size[0] > _NEGATED else Sql(write(value.text), value.type)

    return make


in_spark("numeric_uminus")(_unary(lambda a: f"(- {a})"))
in_spark("numeric_abs")(_unary(lambda a: f"abs({a})"))
in_spark("numeric_uplus")(lambda call: call.value(0))


@in_spark("numeric_sign")
def numeric_sign(call: SparkFunctionCall) -> Sql | None:
    value = call.value(0)
    if decimal_size(value.type) is None:
        return None
    result = decimal_type(1, 0)
    return Sql(cast(f"sign({value.text})", result), result)


def _to_whole(function: str) -> Callable[[SparkFunctionCall], Sql | None]:
    def make(call: SparkFunctionCall) -> Sql | None:
        value = call.value(0)
        size = decimal_size(value.type)
        if size is None:
            return None
        precision = size[0] - size[1] + 1
        if precision > MOST:
            return None
        result = decimal_type(precision, 0)
        return Sql(cast(f"{function}({value.text})", result), result)

    return make


in_spark("numeric_ceil")(_to_whole("ceil"))
in_spark("numeric_floor")(_to_whole("floor"))


def rounded(value: Sql, scale: int, *, cut: bool = False) -> Sql | None:
    """A decimal rounded half away from zero, or cut, to a scale; a negative scale counts digits before the point."""
    size = decimal_size(value.type)
    if size is None:
        return None
    precision, had = size
    if scale >= had:
        return _made(cast(value.text, decimal_type(precision - had + scale, scale)), precision - had + scale, scale)
    shown = max(scale, 0)
    whole = max(precision - had + 1, 1 - min(scale, 0))
    if whole + shown > MOST:
        return None
    result = decimal_type(whole + shown, shown)
    if cut:
        text = let([value], lambda a: f"CASE WHEN {a} < 0 THEN ceil({a}, {scale}) ELSE floor({a}, {scale}) END")
        return Sql(cast(text, result), result)
    return Sql(cast(f"round({value.text}, {scale})", result), result)


def _rounding(*, cut: bool) -> Callable[[SparkFunctionCall], Sql | None]:
    def make(call: SparkFunctionCall) -> Sql | None:
        scale = call.constant(1) if len(call.args) > 1 else 0
        if scale is NOT_CONSTANT or not -MOST < scale <= MOST:
            return None
        return rounded(call.value(0), scale, cut=cut)

    return make


in_spark("numeric_round", "round(numeric)")(_rounding(cut=False))
in_spark("numeric_trunc", "trunc(numeric)")(_rounding(cut=True))


# --------------------------------------------------------------------------------------------------------------- casts


def _of_whole(digits: int) -> Callable[[SparkFunctionCall], Sql]:
    result = decimal_type(digits, 0)
    return lambda call: Sql(cast(call.text(0), result), result)


for _source, _digits in {"int2_numeric": 5, "int4_numeric": 10, "int8_numeric": 19}.items():
    in_spark(_source)(_of_whole(_digits))


@in_spark("numeric")
def numeric_length(call: SparkFunctionCall) -> Sql | None:
    """numeric(p,s) of a numeric: rounded, or refused when it does not fit."""
    typmod = call.constant(1)
    if typmod is NOT_CONSTANT or typmod < 4:
        return None
    precision, scale = numeric_precision_scale(typmod)
    if precision > MOST or not 0 <= scale <= precision:
        return None
    result = decimal_type(precision, scale)
    value = call.value(0)
    size = decimal_size(value.type)
    if size is None:
        return Sql(let([value], lambda a: _from_text(a, result, typmod)), result)
    whole = size[0] - size[1]
    if whole < precision - scale or (whole == precision - scale and size[1] <= scale):
        return Sql(value.text if value.type == result else cast(value.text, result), result)
    error = raised(_too_large(typmod))
    return Sql(
        let([value], lambda a: f"coalesce(try_cast({a} AS {result}), CASE WHEN {a} IS NOT NULL THEN {error} END)"),
        result,
    )


def _from_text(text: str, result: str, typmod: int) -> str:
    whens = [f"WHEN {text} = 'NaN' THEN {raised(_not_kept(typmod))}"]
    whens += [f"WHEN {text} = '{word}' THEN {raised(_error_of(word, typmod))}" for word in ("Infinity", "-Infinity")]
    otherwise = (
        f"coalesce(try_cast({text} AS {result}), CASE WHEN {text} IS NOT NULL THEN {raised(_too_large(typmod))} END)"
    )
    return f"CASE {' '.join(whens)} ELSE {otherwise} END"


def _not_kept(typmod: int) -> PgError:
    try:
        form(oids.NUMERIC, typmod).to_arrow(NAN)
    except PgError as error:
        return error
    raise AssertionError("a decimal holds no NaN")


def _error_of(text: str, typmod: int) -> PgError:
    try:
        fit(read_numeric(text), typmod)
    except PgError as error:
        return error
    raise AssertionError(text)


def _too_large(typmod: int) -> PgError:
    return _error_of("1" + "0" * 40, typmod)


def _to_integer(bits: int, result: str) -> Callable[[SparkFunctionCall], Sql]:
    """A numeric rounded half away from zero to an integer type; overflow fails in Spark's cast."""
    name = {16: "smallint", 32: "integer", 64: "bigint"}[bits]

    def make(call: SparkFunctionCall) -> Sql:
        value = call.number(0)
        size = decimal_size(value.type)
        if size is not None and value.special is not None:
            infinite = raised(PgError("0A000", f"cannot convert infinity to {name}"))
            finite = value.text if size[1] == 0 else f"round({value.text}, 0)"
            return Sql(f"CASE WHEN {value.special} IS NULL THEN {cast(finite, result)} ELSE {infinite} END", result)
        if size is not None:
            whole = value.text if size[1] == 0 else f"round({value.text}, 0)"
            return Sql(cast(whole, result), result)
        return Sql(let([value], from_text), result)

    def from_text(a: str) -> str:
        nan = raised(PgError("0A000", f"cannot convert NaN to {name}"))
        infinite = raised(PgError("0A000", f"cannot convert infinity to {name}"))
        whole = f"try_cast(try_cast({a} AS DECIMAL(38,0)) AS {result})"
        return (
            f"CASE WHEN {a} = 'NaN' THEN {nan} WHEN endswith({a}, 'Infinity') THEN {infinite}"
            f" ELSE coalesce({whole}, CASE WHEN {a} IS NOT NULL THEN {raised(integer_out_of_range(bits))} END) END"
        )

    return make


in_spark("numeric_int2")(_to_integer(16, "SMALLINT"))
in_spark("numeric_int4")(_to_integer(32, "INT"))
in_spark("numeric_int8")(_to_integer(64, "BIGINT"))


@in_spark("numeric_float8")
def numeric_float8(call: SparkFunctionCall) -> Sql | None:
    value = call.number(0)
    return None if decimal_size(value.type) is None else as_float(value)


@in_spark("numeric_float4")
def numeric_float4(call: SparkFunctionCall) -> Sql | None:
    value = call.value(0)
    if decimal_size(value.type) is None:
        return None
    return Sql(cast(cast(value.text, "DOUBLE"), "FLOAT"), "FLOAT")
