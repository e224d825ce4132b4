"""AND, OR, NOT, IS NULL, IS TRUE, CASE, COALESCE, NULLIF, GREATEST, relabelling, and arrays, in Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pgrepl.expr import tree
from pgrepl.expr.exchange.aggregates import NATURAL
from pgrepl.expr.exchange.arithmetic import SparkFunctionCall
from pgrepl.expr.exchange.comparisons import equal_pair
from pgrepl.expr.exchange.compiler import NOT_CONSTANT, Compiler, native
from pgrepl.expr.exchange.compiler import native as native_node
from pgrepl.expr.exchange.sql import Sql, calls_python, cast, decimal_size, decimal_type, form_type, let, numeric_text
from pgrepl.expr.functions.registry import in_spark
from pgrepl.expr.walk import map_children
from pgrepl.sql.nodes import BoolOp, BoolTestType, NullTestType
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, element_type
from pgrepl.types.user_types import constrained


@native.register
def _(node: tree.BoolExpr, compiler: Compiler) -> Sql:
    texts = [compiler.text(arg) for arg in node.args]
    if node.op is BoolOp.NOT:
        return Sql(f"(NOT {texts[0]})", "BOOLEAN")
    word = " AND " if node.op is BoolOp.AND else " OR "
    return Sql("(" + word.join(texts) + ")", "BOOLEAN")


@native.register
def _(node: tree.NullTest, compiler: Compiler) -> Sql | None:
    assert node.arg is not None
    word = "IS NULL" if node.kind is NullTestType.IS_NULL else "IS NOT NULL"
    if not node.argisrow:
        return Sql(f"({compiler.value(node.arg).text} {word})", "BOOLEAN")
    if not isinstance(node.arg, tree.RowExpr) or not node.arg.args:
        return None
    return Sql("(" + " AND ".join(f"{compiler.value(arg).text} {word}" for arg in node.arg.args) + ")", "BOOLEAN")


_TESTS = {
    BoolTestType.IS_TRUE: "IS TRUE",
    BoolTestType.IS_NOT_TRUE: "IS NOT TRUE",
    BoolTestType.IS_FALSE: "IS FALSE",
    BoolTestType.IS_NOT_FALSE: "IS NOT FALSE",
    BoolTestType.IS_UNKNOWN: "IS NULL",
    BoolTestType.IS_NOT_UNKNOWN: "IS NOT NULL",
}


@native.register
def _(node: tree.BooleanTest, compiler: Compiler) -> Sql:
    assert node.arg is not None
    return Sql(f"({compiler.text(node.arg)} {_TESTS[node.kind]})", "BOOLEAN")


@native.register
def _(node: tree.CaseExpr, compiler: Compiler) -> Sql | None:
    conditions = [condition for condition, _ in node.whens]
    if node.arg is not None:
        if len(compiler.value(node.arg).text) * len(conditions) > _TOO_LONG:
            return None
        conditions = [_with_tested(condition, node.arg) for condition in conditions]
    tests = [compiler.text(condition) for condition in conditions]
    results = [compiler.value(result) for _, result in node.whens]
    default = compiler.value(node.default) if node.default is not None else None
    every = [*results, default] if default is not None else results
    texts, spark_type = together(every, node.type, node.typmod)
    whens = " ".join(f"WHEN {c} THEN {r}" for c, r in zip(tests, texts, strict=False))
    otherwise = f" ELSE {texts[-1]}" if default is not None else ""
    return Sql(f"CASE {whens}{otherwise} END", spark_type)


def _with_tested(expr: tree.Expr, tested: tree.Expr) -> tree.Expr:
    """A condition with the tested value in place of CaseTestExpr; a nested CASE has its own."""
    if isinstance(expr, tree.CaseTestExpr):
        return tested

    def visit(node: tree.Expr) -> tree.Expr:
        return _with_tested(node, tested)

    if isinstance(expr, tree.CaseExpr) and expr.arg is not None:
        whens = tuple((condition, visit(result)) for condition, result in expr.whens)
        return replace(expr, arg=visit(expr.arg), whens=whens, default=expr.default and visit(expr.default))
    if isinstance(expr, tree.ArrayCoerceExpr) and expr.arg is not None:
        return replace(expr, arg=visit(expr.arg))
    return map_children(expr, visit)


_TOO_LONG = 20_000


def together(values: Sequence[Sql], typoid: int, typmod: int) -> tuple[list[str], str]:
    """Several values of one PostgreSQL type as one Spark type; decimals of one scale stay decimals."""
    if base_type(typoid) == oids.NUMERIC:
        common = _common_decimal([value for value in values if not value.null])
        wanted = form_type(typoid, typmod)
        if common is not None and wanted == "STRING":
            return [value.text if value.type == common else cast(value.text, common) for value in values], common
        if wanted == "STRING":
            return [cast("NULL", "STRING") if value.null else numeric_text(value) for value in values], wanted
        return [value.text if value.type == wanted else cast(value.text, wanted) for value in values], wanted
    wanted = form_type(typoid, typmod)
    return [value.text if value.type == wanted else cast(value.text, wanted) for value in values], wanted


def _common_decimal(values: Sequence[Sql]) -> str | None:
    sizes = [decimal_size(value.type) for value in values]
    if not sizes or any(size is None for size in sizes):
        return None
    known = [size for size in sizes if size is not None]
    return decimal_type(max(p for p, _ in known), known[0][1]) if len({scale for _, scale in known}) == 1 else None


@native.register
def _(node: tree.CoalesceExpr, compiler: Compiler) -> Sql:
    texts, spark_type = together([compiler.value(arg) for arg in node.args], node.type, node.typmod)
    return Sql(f"coalesce({', '.join(texts)})", spark_type)


@native.register
def _(node: tree.MinMaxExpr, compiler: Compiler) -> Sql | None:
    typoid = base_type(node.type)
    values = [compiler.value(arg) for arg in node.args]
    texts, spark_type = together(values, node.type, node.typmod)
    if typoid not in NATURAL and (typoid != oids.NUMERIC or decimal_size(spark_type) is None):
        return None
    if typoid == oids.NUMERIC and _common_decimal([v for v in values if not v.null]) != spark_type:
        return None
    if len(texts) == 1:
        return Sql(texts[0], spark_type)
    return Sql(f"{'greatest' if node.greatest else 'least'}({', '.join(texts)})", spark_type)


@native.register
def _(node: tree.NullIfExpr, compiler: Compiler) -> Sql | None:
    pair = equal_pair(node.op, node.args, compiler)
    if pair is None:
        return None
    value = compiler.value(node.args[0])
    return Sql(f"CASE WHEN {pair[0]} = {pair[1]} THEN NULL ELSE {value.text} END", value.type)


@native.register
def _(node: tree.DistinctExpr, compiler: Compiler) -> Sql | None:
    pair = equal_pair(node.op, node.args, compiler)
    return None if pair is None else Sql(f"(NOT ({pair[0]} <=> {pair[1]}))", "BOOLEAN")


@native.register(tree.CollateExpr)
@native.register(tree.CoerceToDomain)
def _(node: tree.CollateExpr | tree.CoerceToDomain, compiler: Compiler) -> Sql | None:
    if isinstance(node, tree.CoerceToDomain) and constrained(node.type):
        return None
    assert node.arg is not None
    return compiler.value(node.arg)


@native.register
def _(node: tree.NamedArg, compiler: Compiler) -> Sql:
    assert node.arg is not None
    return compiler.value(node.arg)


@native.register
def _(node: tree.RelabelType, compiler: Compiler) -> Sql | None:
    """A cast between binary coercible types; only between signed and unsigned integers does the value change."""
    assert node.arg is not None
    value = compiler.value(node.arg)
    if base_type(node.type) == oids.NUMERIC or form_type(node.type, node.typmod) == value.type:
        return value
    if value.type == "INT" and form_type(node.type) == "BIGINT":
        return Sql(f"(CAST({value.text} AS BIGINT) & 4294967295L)", "BIGINT")
    return None


# --- arrays -----------------------------------------------------------------------------------------------------------


# Element types whose equality in Spark is PostgreSQL's. (Spark distinguishes the floats 0 and -0.)
_EQUAL = NATURAL - {oids.FLOAT4, oids.FLOAT8}


@native_node.register
def _(node: tree.ArrayExpr, compiler: Compiler) -> Sql | None:
    result = form_type(node.type, node.typmod)
    if node.multidims:
        return None
    element = form_type(node.element_type, node.typmod)
    items = [(compiler.text(item), form_type(item.type, item.typmod)) for item in node.elements]
    texts = [text if spark_type == element else cast(text, element) for text, spark_type in items]
    return Sql(cast(f"array({', '.join(texts)})", result), result)


@native_node.register
def _(node: tree.SubscriptingRef, compiler: Compiler) -> Sql | None:
    """An array element; NULL outside the bounds."""
    container = node.container
    if container is None or node.is_slice or len(node.upper) != 1 or not element_type(container.type):
        return None
    array = compiler.value(container)
    (subscript,) = node.upper
    if not array.type.startswith("ARRAY<") or subscript is None:
        return None
    result = form_type(node.type, node.typmod)
    place = compiler.constant(subscript)
    if place is NOT_CONSTANT:
        index = compiler.value(subscript)
        text = let([array, index], lambda a, i: f"get({a}, CASE WHEN {i} > 0 THEN {i} - 1 ELSE -1 END)")
        text = f"CASE WHEN {index.text} IS NOT NULL THEN {text} END"
    elif place is None or place < 1:
        return Sql(cast("NULL", result), result, null=True)
    else:
        text = f"get({array.text}, {place - 1})"
    return Sql(text if array.type == f"ARRAY<{result}>" else cast(text, result), result)


@native_node.register
def _(node: tree.ArrayCoerceExpr, compiler: Compiler) -> Sql | None:
    """Cast each element in a lambda, in which Spark allows no fall-back function."""
    if node.arg is None or node.elem is None:
        return None
    array = compiler.value(node.arg)
    if not array.type.startswith("ARRAY<"):
        return None
    element = Sql("x", array.type.removeprefix("ARRAY<").removesuffix(">"))

    def names(inner: tree.Expr) -> str | Sql | None:
        return element if isinstance(inner, tree.CaseTestExpr) else compiler.names(inner)

    inside = Compiler(names, compiler.statement).text(node.elem)
    if calls_python(inside) or "x -> " in array.text:
        return None
    result = form_type(node.type, node.typmod)
    return Sql(cast(f"transform({array.text}, x -> {inside})", result), result)


@in_spark("array_length")
def array_length(call: SparkFunctionCall) -> Sql | None:
    """array_length; NULL for an empty array and for every dimension but the first."""
    dimension = call.constant(1)
    if dimension is NOT_CONSTANT:
        return None
    if dimension != 1:
        return Sql("CAST(NULL AS INT)", "INT", null=True)
    return Sql(f"nullif(size({call.text(0)}), 0)", "INT")


in_spark("array_upper")(array_length)
in_spark("array_cardinality")(lambda call: Sql(f"size({call.text(0)})", "INT"))


def _elements(call: SparkFunctionCall) -> int | None:
    element = element_type(call.args[0].type)
    return element if element in _EQUAL and call.args[0].type == call.args[1].type else None


@in_spark("arrayoverlap")
def arrayoverlap(call: SparkFunctionCall) -> Sql | None:
    """&&, in which NULL elements equal nothing."""
    if _elements(call) is None:
        return None
    a, b = call.values()
    return Sql(
        let([a, b], lambda x, y: f"CASE WHEN {x} IS NOT NULL AND {y} IS NOT NULL THEN {_common(x, y)} END"), "BOOLEAN"
    )


def _common(a: str, b: str) -> str:
    return f"coalesce(arrays_overlap({a}, {b}), false)"


def _contains(whole: int, part: int) -> Callable[[SparkFunctionCall], Sql | None]:
    def make(call: SparkFunctionCall) -> Sql | None:
        if _elements(call) is None:
            return None
        values = call.values()

        def body(a: str, b: str) -> str:
            no_null = f"size(array_compact({b})) = size({b})"
            return (
                f"CASE WHEN {a} IS NOT NULL AND {b} IS NOT NULL THEN {no_null} AND size(array_except({b}, {a})) = 0 END"
            )

        return Sql(let([values[whole], values[part]], body), "BOOLEAN")

    return make


in_spark("arraycontains")(_contains(0, 1))
in_spark("arraycontained")(_contains(1, 0))
