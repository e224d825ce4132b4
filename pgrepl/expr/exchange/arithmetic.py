"""Functions and operators as Spark SQL (in_spark): arithmetic of floats and of numeric.

The SQL must have the evaluator's value, NULL and errors included; None leaves the call to the fall-back. Floats are
checked: Spark lets them become infinite. Arithmetic of numeric is native where a 38-digit decimal holds every result
exactly with PostgreSQL's scale: columns numeric(p,s), integers and constants are such decimals. A numeric without a
modifier is text and left to the fall-back, as is division, whose scale depends on the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgrepl.catalog.facts.namespace import is_user_routine
from pgrepl.expr import tree
from pgrepl.expr.evaluate.compiler import arguments
from pgrepl.expr.exchange.compiler import NOT_CONSTANT, Compiler
from pgrepl.expr.exchange.compiler import native as native_node
from pgrepl.expr.exchange.sql import (
    Sql,
    Unchecked,
    as_float,
    cast,
    decimal_size,
    decimal_type,
    form_type,
    let,
    null_of,
    raised,
)
from pgrepl.expr.functions import spark_form
from pgrepl.expr.functions.arithmetic import SPARK_TYPES, float_overflow, float_underflow, integer_out_of_range
from pgrepl.expr.functions.registry import in_spark, source_of
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.builtin import proc_by_oid
from pgrepl.types.lake.forms import form
from pgrepl.types.names import numeric_precision_scale
from pgrepl.types.numeric import NAN, fit, read_numeric


class SparkFunctionCall:
    """One call: its argument expressions, whose SQL is made on demand."""

    def __init__(self, node: tree.Typed, args: tuple[tree.Expr, ...], compiler: Compiler) -> None:
        self.node = node
        self.args = args
        self.compiler = compiler
        self._values: dict[int, Sql] = {}

    def value(self, position: int) -> Sql:
        if position not in self._values:
            self._values[position] = self.compiler.value(self.args[position])
        return self._values[position]

    def number(self, position: int) -> Sql:
        """The SQL of a numeric argument, which may have a `special`."""
        return self.compiler.number(self.args[position])

    def text(self, position: int) -> str:
        return self.value(position).text

    def values(self) -> list[Sql]:
        return [self.value(position) for position in range(len(self.args))]

    def constant(self, position: int) -> Any:
        return self.compiler.constant(self.args[position])

    @property
    def result(self) -> str:
        """The Spark type of the result's lake form."""
        return form_type(self.node.type, self.node.typmod)


def called(oid: int, node: tree.Typed, args: tuple[tree.Expr, ...], compiler: Compiler) -> Sql | None:
    proc = proc_by_oid(oid)
    form = None if proc is None else spark_form(source_of(proc))
    if form is None or proc is None:
        return None
    call = SparkFunctionCall(node, args, compiler)
    if proc.strict and any(call.constant(position) is None for position in range(len(args))):
        return null_of(call.result)
    if isinstance(form, str):
        return Sql(form.format(*[value.text for value in call.values()]), call.result)
    sql: Sql | None = form(call)
    return sql


@native_node.register
def _(node: tree.FuncExpr, compiler: Compiler) -> Sql | None:
    if node.retset or node.variadic or is_user_routine(node.func):
        return None
    return called(node.func, node, tuple(arguments(node, compiler.statement.context)), compiler)


def widened(value: Sql, spark_type: str) -> str:
    return value.text if value.type == spark_type else cast(value.text, spark_type)


# -------------------------------------------------------------------------------------------------------------- floats

_INFINITE = "double('Infinity')"
"""A nest of float operations is first computed without checks. If the result is finite, and no product or quotient came
out as zero, no operation has failed: an infinity never becomes finite again, except as a divisor. Otherwise the
operations are checked one by one."""


def _finite(text: str) -> str:
    return f"abs({text}) < {_INFINITE}"


def _parts(value: Sql) -> Unchecked:
    text = widened(value, "DOUBLE")
    known = value.unchecked
    if known is None:
        return Unchecked(text, (), text)
    if value.type == "DOUBLE":
        return known
    return Unchecked(cast(known.plain, "DOUBLE"), known.fine, cast(known.checked, "DOUBLE"))


def _float(sign: str, result: str) -> Callable[[SparkFunctionCall], Sql]:
    """Float arithmetic in double precision, as in the evaluator."""

    def operation(a: str, b: str, *, safe: bool = False) -> str:
        exact = f"try_divide({a}, {b})" if safe and sign == "/" else f"({a} {sign} {b})"
        return exact if result == "DOUBLE" else cast(exact, result)

    def make(call: SparkFunctionCall) -> Sql:
        one, other = (_parts(value) for value in call.values())
        plain = operation(one.plain, other.plain, safe=True)
        fine = (*one.fine, *other.fine)
        if sign == "*":
            fine += (f"({plain} <> 0D OR {one.plain} = 0D OR {other.plain} = 0D)",)
        if sign == "/":
            fine += (f"({plain} <> 0D OR {one.plain} = 0D)", _finite(other.plain))
        slow = let([Sql(one.checked, "DOUBLE"), Sql(other.checked, "DOUBLE")], checked)
        text = f"CASE WHEN {' AND '.join([_finite(plain), *fine])} THEN {plain} ELSE {slow} END"
        return Sql(text, result, unchecked=Unchecked(plain, fine, slow))

    def checked(a: str, b: str) -> str:
        result_text = operation(a, b)
        finite = f"{_finite(a)} AND {_finite(b)}" if sign != "/" else _finite(a)
        whens = [f"WHEN abs({result_text}) = {_INFINITE} AND {finite} THEN {raised(float_overflow())}"]
        if sign == "/":
            whens.insert(0, f"WHEN isnan({a}) THEN {cast(f'({a} + {b})', result)}")
            whens.append(f"WHEN {result_text} = 0D AND {a} <> 0D AND {_finite(b)} THEN {raised(float_underflow())}")
        if sign == "*":
            whens.append(f"WHEN {result_text} = 0D AND {a} <> 0D AND {b} <> 0D THEN {raised(float_underflow())}")
        return f"CASE {' '.join(whens)} ELSE {result_text} END"

    return make


for _word, _sign in {"pl": "+", "mi": "-", "mul": "*", "div": "/"}.items():
    for _prefix in ("float8", "float48", "float84"):
        in_spark(_prefix + _word)(_float(_sign, "DOUBLE"))
    in_spark("float4" + _word)(_float(_sign, "FLOAT"))


@in_spark("dsqrt")
def dsqrt(call: SparkFunctionCall) -> Sql:
    error = raised(PgError("2201F", "cannot take square root of a negative number"))
    return Sql(let([call.value(0)], lambda a: f"CASE WHEN {a} < 0D THEN {error} ELSE sqrt({a}) END"), "DOUBLE")


@in_spark("dsign")
def dsign(call: SparkFunctionCall) -> Sql | None:
    def body(a: str) -> str:
        sign = f"CASE WHEN {a} > 0D THEN 1D WHEN {a} < 0D THEN -1D ELSE 0D END"
        return f"CASE WHEN isnan({a}) THEN 0D WHEN {a} IS NOT NULL THEN {sign} END"

    return Sql(let([call.value(0)], body), "DOUBLE")


def _whole(function: str) -> Callable[[SparkFunctionCall], Sql]:
    """ceil, floor or trunc. Spark's return bigint, so large floats, whole already, stay; a zero keeps its sign."""

    def body(a: str) -> str:
        whole = f"CAST({function}({a}) AS DOUBLE)"
        if function == "trunc":
            whole = f"CASE WHEN {a} < 0D THEN CAST(ceil({a}) AS DOUBLE) ELSE CAST(floor({a}) AS DOUBLE) END"
        negative = "" if function == "floor" else f" WHEN {a} > -1D AND {a} < 0D THEN -0D"
        return f"CASE WHEN abs({a}) >= 4503599627370496D OR {a} = 0D THEN {a}{negative} ELSE {whole} END"

    return lambda call: Sql(let([call.value(0)], body), "DOUBLE")


in_spark("dceil")(_whole("ceil"))
in_spark("dfloor")(_whole("floor"))
in_spark("dtrunc")(_whole("trunc"))


# --------------------------------------------------------------------------------------------------- casts of numbers


@in_spark("i8tooid")
def i8tooid(call: SparkFunctionCall) -> Sql:
    error = raised(PgError("22003", "OID out of range"))
    return Sql(
        let([call.value(0)], lambda a: f"CASE WHEN {a} < 0 OR {a} > 4294967295L THEN {error} ELSE {a} END"), "BIGINT"
    )


@in_spark("dtof")
def dtof(call: SparkFunctionCall) -> Sql:
    def body(a: str) -> str:
        single = cast(a, "FLOAT")
        return (
            f"CASE WHEN abs({single}) = {_INFINITE} AND {_finite(a)} THEN {raised(float_overflow())}"
            f" WHEN {single} = 0D AND {a} <> 0D THEN {raised(float_underflow())} ELSE {single} END"
        )

    return Sql(let([call.value(0)], body), "FLOAT")


def _rounded(bits: int) -> Callable[[SparkFunctionCall], Sql]:
    """A float rounded half to even and cast to an integer type. NaN and too large values fail; so must 2^63, which
    Spark would take for the largest bigint."""
    result = SPARK_TYPES[bits]

    def make(call: SparkFunctionCall) -> Sql:
        value = Sql(widened(call.value(0), "DOUBLE"), "DOUBLE")
        if bits < 64:
            return Sql(cast(f"rint({value.text})", result), result)
        error = raised(integer_out_of_range(bits))
        return Sql(
            let(
                [value],
                lambda a: f"CASE WHEN {a} = 9223372036854775808D THEN {error} ELSE CAST(rint({a}) AS BIGINT) END",
            ),
            result,
        )

    return make


for _bits, _number in {16: 2, 32: 4, 64: 8}.items():
    in_spark(f"dtoi{_number}", f"ftoi{_number}")(_rounded(_bits))


# -------------------------------------------------------------------------------------------------------------- numeric


MOST = 38
Size = tuple[int, int]


def _decimals(call: SparkFunctionCall) -> list[tuple[Sql, Size]] | None:
    decimals = []
    for value in call.values():
        size = decimal_size(value.type)
        if size is None:
            return None
        decimals.append((value, size))
    return decimals


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
