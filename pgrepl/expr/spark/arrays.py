"""Arrays: construction, elements, membership, and casts of all elements."""

from __future__ import annotations

from pgrepl.expr import tree
from pgrepl.expr.spark.compiler import NOT_CONSTANT, Compiler
from pgrepl.expr.spark.compiler import native as native_node
from pgrepl.expr.spark.functions import SparkFunctionCall, native
from pgrepl.expr.spark.keys import NATURAL
from pgrepl.expr.spark.sql import Sql, calls_python, cast, form_type, let
from pgrepl.types import oids
from pgrepl.types.builtin import element_type

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


@native("array_length")
def array_length(call: SparkFunctionCall) -> Sql | None:
    """array_length; NULL for an empty array and for every dimension but the first."""
    dimension = call.constant(1)
    if dimension is NOT_CONSTANT:
        return None
    if dimension != 1:
        return Sql("CAST(NULL AS INT)", "INT", null=True)
    return Sql(f"nullif(size({call.text(0)}), 0)", "INT")


native("array_upper")(array_length)


@native("array_cardinality")
def array_cardinality(call: SparkFunctionCall) -> Sql:
    return Sql(f"size({call.text(0)})", "INT")


def _elements(call: SparkFunctionCall) -> int | None:
    element = element_type(call.args[0].type)
    return element if element in _EQUAL and call.args[0].type == call.args[1].type else None


@native("arrayoverlap")
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


def _contains(whole: int, part: int) -> object:
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


native("arraycontains")(_contains(0, 1))  # type: ignore[arg-type]
native("arraycontained")(_contains(1, 0))  # type: ignore[arg-type]
