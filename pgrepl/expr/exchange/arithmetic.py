"""Functions and operators as Spark SQL (in_spark); arithmetic of floats first.

The SQL must have the evaluator's value, NULL and errors included; None leaves the call to the fall-back. Floats are
checked: Spark lets them become infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgrepl.catalog.facts.namespace import is_user_routine
from pgrepl.expr import tree
from pgrepl.expr.evaluate.compiler import arguments
from pgrepl.expr.exchange.compiler import Compiler
from pgrepl.expr.exchange.compiler import native as native_node
from pgrepl.expr.exchange.sql import Sql, Unchecked, cast, form_type, let, null_of, raised
from pgrepl.expr.functions import spark_form
from pgrepl.expr.functions.numbers.arithmetic import SPARK_TYPES, float_overflow, float_underflow, integer_out_of_range
from pgrepl.expr.functions.registry import in_spark, source_of
from pgrepl.ground.errors import PgError
from pgrepl.types.builtin import proc_by_oid


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
    found: Sql | None = form(call)
    return found


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
        found = operation(a, b)
        finite = f"{_finite(a)} AND {_finite(b)}" if sign != "/" else _finite(a)
        whens = [f"WHEN abs({found}) = {_INFINITE} AND {finite} THEN {raised(float_overflow())}"]
        if sign == "/":
            whens.insert(0, f"WHEN isnan({a}) THEN {cast(f'({a} + {b})', result)}")
            whens.append(f"WHEN {found} = 0D AND {a} <> 0D AND {_finite(b)} THEN {raised(float_underflow())}")
        if sign == "*":
            whens.append(f"WHEN {found} = 0D AND {a} <> 0D AND {b} <> 0D THEN {raised(float_underflow())}")
        return f"CASE {' '.join(whens)} ELSE {found} END"

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
