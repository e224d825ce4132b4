"""Differences of timestamps, kept as a number of microseconds where only their length is needed."""

from __future__ import annotations

from pgrepl.expr import tree
from pgrepl.expr.spark.compiler import NOT_CONSTANT, Compiler
from pgrepl.expr.spark.functions import SparkFunctionCall, native
from pgrepl.expr.spark.moments import INFINITE, micros
from pgrepl.expr.spark.sql import Sql, as_float, let, raised
from pgrepl.expr.walk import functions_used
from pgrepl.types.builtin import proc_by_oid
from pgrepl.types.dates import USECS_PER_DAY
from pgrepl.types.interval import Interval, is_finite, out_of_range
from pgrepl.types.values import interval_key


def difference(expr: tree.Expr) -> tuple[tree.Expr, tree.Expr] | None:
    """The two timestamps whose difference an interval is."""
    proc = proc_by_oid(next(functions_used(expr), 0))
    if proc is None or proc.src != "timestamp_mi" or not isinstance(expr, (tree.OpExpr, tree.FuncExpr)):
        return None
    return expr.args[0], expr.args[1]


def span(one: Sql, other: Sql, infinite: str, body: str) -> str:
    """Microseconds between two moments, put into `body` for {n}; an infinite moment decides (`infinite`, for {sign}, 1
    or -1)."""
    error = raised(out_of_range())

    def write(a: str, b: str) -> str:
        x, y = micros(a, one.type), micros(b, other.type)
        first, second = f"abs({x}) = {INFINITE}", f"abs({y}) = {INFINITE}"
        number = f"coalesce(try_subtract({x}, {y}), {error})"
        return (
            f"CASE WHEN {a} IS NULL OR {b} IS NULL THEN NULL WHEN {first} AND {x} = {y} THEN {error}"
            f" WHEN {first} THEN {infinite.replace('{sign}', f'sign({x})')}"
            f" WHEN {second} THEN {infinite.replace('{sign}', f'(- sign({y}))')}"
            f" ELSE {body.replace('{n}', number)} END"
        )

    return let([one, other], write)


@native("timestamp_mi")
def timestamp_mi(call: SparkFunctionCall) -> Sql:
    """`1 day 02:03:04.5`, `-00:00:01`: days of 24 hours and the rest, both of one sign."""
    one, other = call.values()
    number = Sql(span(one, other, f"CAST({{sign}} AS BIGINT) * {2**63 - 1}L", "{n}"), "BIGINT")

    def body(n: str) -> str:
        days, rest = f"({n} div {USECS_PER_DAY}L)", f"abs({n} % {USECS_PER_DAY}L)"
        parts = [
            f"lpad(CAST({rest} div 3600000000L AS STRING), 2, '0')",
            f"lpad(CAST({rest} div 60000000L % 60 AS STRING), 2, '0')",
            f"lpad(CAST({rest} div 1000000L % 60 AS STRING), 2, '0')",
        ]
        fraction = f"lpad(CAST({rest} % 1000000L AS STRING), 6, '0')"
        tail = f"CASE WHEN {rest} % 1000000L = 0 THEN '' ELSE concat('.', rtrim('0', {fraction})) END"
        clock = f"concat(CASE WHEN {n} < 0 THEN '-' ELSE '' END, {parts[0]}, ':', {parts[1]}, ':', {parts[2]}, {tail})"
        word = f"concat(CAST({days} AS STRING), CASE WHEN {days} = 1 THEN ' day' ELSE ' days' END)"
        return (
            f"CASE WHEN {n} = {2**63 - 1}L THEN 'infinity' WHEN {n} = -{2**63 - 1}L THEN '-infinity'"
            f" WHEN {days} = 0 THEN {clock} WHEN {rest} = 0 THEN {word} ELSE concat({word}, ' ', {clock}) END"
        )

    return Sql(let([number], body), "STRING")


_LONGEST = 10**30


def length(expr: tree.Expr, compiler: Compiler) -> str | None:
    """An interval's length in microseconds as a decimal, for differences and constants; None when it needs the
    interval's text."""
    value = compiler.constant(expr)
    if isinstance(value, Interval):
        number = interval_key(value) if is_finite(value) else _LONGEST if value.months > 0 else -_LONGEST
        return f"CAST('{number}' AS DECIMAL(38,0))"
    found = difference(expr) if value is NOT_CONSTANT and compiler.named(expr) is None else None
    if found is None:
        return None
    infinite = f"CAST({{sign}} AS DECIMAL(1,0)) * CAST('{_LONGEST}' AS DECIMAL(37,0))"
    one, other = (compiler.value(side) for side in found)
    return f"CAST({span(one, other, infinite, 'CAST({n} AS DECIMAL(38,0))')} AS DECIMAL(38,0))"


@native("extract_interval")
def extract_interval(call: SparkFunctionCall) -> Sql | None:
    """extract of a difference, for its seconds only."""
    found = difference(call.args[1])
    if found is None or call.constant(0) != "epoch" or call.compiler.named(call.args[1]) is not None:
        return None
    one, other = (call.compiler.value(side) for side in found)
    seconds = span(one, other, "NULL", "CAST({n} * 0.000001BD AS DECIMAL(20,6))")
    special = span(one, other, "CASE WHEN {sign} > 0 THEN 'Infinity' ELSE '-Infinity' END", "NULL")
    return Sql(f"CAST({seconds} AS DECIMAL(20,6))", "DECIMAL(20,6)", special=f"CAST({special} AS STRING)")


@native("interval_part")
def interval_part(call: SparkFunctionCall) -> Sql | None:
    found = extract_interval(call)
    return None if found is None else as_float(found)
