"""Expressions, names, types, operators and function calls as text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from pgrepl.ground.errors import unsupported
from pgrepl.sql.keywords import quote_identifier, quote_literal
from pgrepl.sql.nodes import (
    AArrayExpr,
    AConst,
    AConstKind,
    AExpr,
    AExprKind,
    AIndices,
    AIndirection,
    AStar,
    BooleanTest,
    BoolExpr,
    BoolOp,
    CaseExpr,
    CoalesceExpr,
    CoercionForm,
    CollateClause,
    ColumnRef,
    CurrentOf,
    Expr,
    FuncCall,
    GroupingFunc,
    IsDocument,
    MergeSupportFunc,
    MinMaxExpr,
    NamedArg,
    Node,
    NullTest,
    NullTestType,
    ParamRef,
    RowExpr,
    SetToDefault,
    SQLValueFunction,
    Statement,
    SubLink,
    SubLinkType,
    TypeCast,
    TypeName,
    UnsupportedExpr,
)


@singledispatch
def deparse(node: Node) -> str:
    """The text of a query, an expression, or a part of one."""
    if isinstance(node, Statement):
        raise unsupported("a data-modifying statement in WITH")
    raise TypeError(f"{type(node).__name__} is no part of a query")


def listed(nodes: Iterable[Node]) -> str:
    return ", ".join(map(deparse, nodes))


def dotted(parts: Iterable[str]) -> str:
    return ".".join(map(quote_identifier, parts))


def in_parentheses(names: tuple[str, ...]) -> str:
    return f" ({', '.join(map(quote_identifier, names))})" if names else ""


def operator_text(name: tuple[str, ...]) -> str:
    return name[0] if len(name) == 1 else f"OPERATOR({dotted(name[:-1])}.{name[-1]})"


# --- expression -------------------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------------ values and names


@deparse.register
def _(node: AConst) -> str:
    if node.kind is AConstKind.STRING:
        return quote_literal(str(node.value))
    if node.kind is AConstKind.BITSTRING:
        text = str(node.value)
        return f"{text[0]}{quote_literal(text[1:])}"
    if node.kind is AConstKind.NULL:
        return "NULL"
    if node.kind is AConstKind.BOOLEAN:
        return "TRUE" if node.value else "FALSE"
    text = str(node.value)
    return f"({text})" if text.startswith("-") else text


@deparse.register
def _(node: ColumnRef) -> str:
    return ".".join("*" if isinstance(field, AStar) else quote_identifier(field) for field in node.fields)


@deparse.register
def _(node: ParamRef) -> str:
    return f"${node.number}"


@deparse.register
def _(node: SetToDefault) -> str:
    return "DEFAULT"


@deparse.register
def _(node: CurrentOf) -> str:
    return f"CURRENT OF {quote_identifier(node.cursor)}"


@deparse.register
def _(node: AIndirection) -> str:
    return f"({deparse(node.arg)}){_indirection(node.indirection)}"


def _indirection(parts: Iterable[object]) -> str:
    return "".join(map(_part, parts))


def _part(part: object) -> str:
    if isinstance(part, str):
        return "." + quote_identifier(part)
    if isinstance(part, AStar):
        return ".*"
    assert isinstance(part, AIndices)
    upper = deparse(part.upper) if part.upper else ""
    if not part.is_slice:
        return f"[{upper}]"
    return f"[{deparse(part.lower) if part.lower else ''}:{upper}]"


# the types whose name in SQL says exactly what their name in pg_catalog says
_SQL_TYPES = {
    "bool": "boolean", "int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real",
    "float8": "double precision", "numeric": "numeric", "varchar": "varchar", "json": "json",
    "timestamp": "timestamp", "timestamptz": "timestamp{} with time zone", "time": "time",
    "timetz": "time{} with time zone",
}  # fmt: skip


@deparse.register
def _(node: TypeName) -> str:
    modifiers = f"({listed(node.typmods)})" if node.typmods else ""
    text = _SQL_TYPES.get(node.names[-1]) if node.names[:-1] == ("pg_catalog",) else None
    if text is None:
        text = dotted(node.names)
    text = text.format(modifiers) if "{}" in text and node.names[0] == "pg_catalog" else text + modifiers
    bounds = "".join("[]" if bound < 0 else f"[{bound}]" for bound in node.array_bounds)
    return ("SETOF " if node.setof else "") + text + bounds + ("%TYPE" if node.pct_type else "")


# ------------------------------------------------------------------------------------------------ operators

_PATTERNS = {"~~": "LIKE", "!~~": "NOT LIKE", "~~*": "ILIKE", "!~~*": "NOT ILIKE", "~": "SIMILAR TO"}
_PATTERNS["!~"] = "NOT SIMILAR TO"


@deparse.register
def _(node: AExpr) -> str:
    left = deparse(node.lexpr) if node.lexpr is not None else ""
    kind, right, operator = node.kind, node.rexpr, operator_text(node.name)
    if isinstance(right, tuple):
        if kind is AExprKind.IN:
            return f"({left} {'IN' if operator == '=' else 'NOT IN'} ({listed(right)}))"
        return f"({left} {operator} {deparse(right[0])} AND {deparse(right[1])})"
    assert right is not None
    if kind is AExprKind.OP:
        return f"({left} {operator} {deparse(right)})" if left else f"({operator} {deparse(right)})"
    if kind in (AExprKind.LIKE, AExprKind.ILIKE, AExprKind.SIMILAR):
        return f"({left} {_PATTERNS[operator]} {_pattern(right)})"
    if kind is AExprKind.NULLIF:
        return f"NULLIF({left}, {deparse(right)})"
    if kind in (AExprKind.DISTINCT, AExprKind.NOT_DISTINCT):
        return f"({left} IS {'NOT ' if kind is AExprKind.NOT_DISTINCT else ''}DISTINCT FROM {deparse(right)})"
    return f"({left} {operator} {'ANY' if kind is AExprKind.OP_ANY else 'ALL'} ({deparse(right)}))"


def _pattern(node: Expr) -> str:
    """`pattern ESCAPE character`, which is a call in the tree."""
    if isinstance(node, FuncCall) and node.name in (("pg_catalog", "like_escape"), ("pg_catalog", "similar_to_escape")):
        return " ESCAPE ".join(map(deparse, node.args))
    return deparse(node)


@deparse.register
def _(node: BoolExpr) -> str:
    if node.op is BoolOp.NOT:
        return f"(NOT {deparse(node.args[0])})"
    return "(" + f" {node.op.value.upper()} ".join(map(deparse, node.args)) + ")"


@deparse.register
def _(node: NullTest) -> str:
    return f"({deparse(node.arg)} IS {'NOT ' if node.kind is NullTestType.IS_NOT_NULL else ''}NULL)"


@deparse.register
def _(node: BooleanTest) -> str:
    return f"({deparse(node.arg)} {node.kind.value})"


@deparse.register
def _(node: IsDocument) -> str:
    return f"({deparse(node.arg)} IS DOCUMENT)"


@deparse.register
def _(node: TypeCast) -> str:
    return f"CAST({deparse(node.arg)} AS {deparse(node.type_name)})"


@deparse.register
def _(node: CollateClause) -> str:
    return f"({deparse(node.arg)} COLLATE {dotted(node.collation)})"


@deparse.register
def _(node: SubLink) -> str:
    query = f"({deparse(node.subselect)})"
    if node.kind is SubLinkType.EXISTS:
        return f"EXISTS {query}"
    if node.kind is SubLinkType.ARRAY:
        return f"ARRAY{query}"
    if node.test is None:
        return query
    if not node.operator:
        return f"({deparse(node.test)} IN {query})"
    quantifier = "ALL" if node.kind is SubLinkType.ALL else "ANY"
    return f"({deparse(node.test)} {operator_text(node.operator)} {quantifier} {query})"


@deparse.register
def _(node: RowExpr) -> str:
    return f"{'ROW' if node.explicit else ''}({listed(node.args)})"


@deparse.register
def _(node: AArrayExpr) -> str:
    return f"ARRAY{_elements(node)}"


def _elements(node: AArrayExpr) -> str:
    """The elements of an array. A nested array is printed without the word ARRAY, which makes the same tree."""
    return "[" + ", ".join(_elements(e) if isinstance(e, AArrayExpr) else deparse(e) for e in node.elements) + "]"


@deparse.register
def _(node: CaseExpr) -> str:
    arg = f" {deparse(node.arg)}" if node.arg is not None else ""
    whens = "".join(f" WHEN {deparse(when.condition)} THEN {deparse(when.result)}" for when in node.whens)
    default = f" ELSE {deparse(node.default)}" if node.default is not None else ""
    return f"CASE{arg}{whens}{default} END"


# ------------------------------------------------------------------------------------------------ functions


@deparse.register
def _(node: SQLValueFunction) -> str:
    return node.name.upper() + (f"({node.typmod})" if node.typmod >= 0 else "")


@deparse.register
def _(node: CoalesceExpr) -> str:
    return f"COALESCE({listed(node.args)})"


@deparse.register
def _(node: MinMaxExpr) -> str:
    return f"{'GREATEST' if node.greatest else 'LEAST'}({listed(node.args)})"


@deparse.register
def _(node: GroupingFunc) -> str:
    return f"GROUPING({listed(node.args)})"


@deparse.register
def _(_: MergeSupportFunc) -> str:
    return "MERGE_ACTION()"


@deparse.register
def _(node: NamedArg) -> str:
    return f"{quote_identifier(node.name)} => {deparse(node.arg)}"


@deparse.register
def _(node: UnsupportedExpr) -> str:
    raise unsupported(node.what, location=node.location)


@deparse.register
def _(node: FuncCall) -> str:
    if node.form is CoercionForm.SQL_SYNTAX:
        return _special_syntax(node)
    args = list(map(deparse, node.args))
    if node.variadic:
        args[-1] = f"VARIADIC {args[-1]}"
    text = "*" if node.star else ("DISTINCT " if node.distinct else "") + ", ".join(args)
    order = f"ORDER BY {listed(node.agg_order)}" if node.agg_order else ""
    if order and not node.within_group:
        text += f" {order}"
    text = f"{dotted(node.name)}({text})"
    if node.within_group:
        text += f" WITHIN GROUP ({order})"
    if node.agg_filter is not None:
        text += f" FILTER (WHERE {deparse(node.agg_filter)})"
    if node.over is not None:
        over = node.over
        text += f" OVER {quote_identifier(over.refname or '') if over.over_name else deparse(over)}"
    return text


_TRIMS = {"btrim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}


def _special_syntax(node: FuncCall) -> str:
    name, args = node.name[-1], list(map(deparse, node.args))
    if name in _TRIMS:
        characters, source = (args[1], args[:1]) if len(args) == 2 else ("", args)
        return f"TRIM({_TRIMS[name]} {characters} FROM {', '.join(source)})"
    if name == "extract":
        return f"EXTRACT({args[0]} FROM {args[1]})"
    if name == "overlay":
        return f"OVERLAY({args[0]} PLACING {args[1]} FROM {args[2]}" + (f" FOR {args[3]})" if args[3:] else ")")
    if name == "position":
        return f"POSITION({args[1]} IN {args[0]})"
    if name == "substring":
        return f"SUBSTRING({args[0]} FROM {args[1]}" + (f" FOR {args[2]})" if args[2:] else ")")
    if name == "timezone":
        return f"({args[1]} AT TIME ZONE {args[0]})" if args[1:] else f"({args[0]} AT LOCAL)"
    if name == "overlaps":
        return f"(({args[0]}, {args[1]}) OVERLAPS ({args[2]}, {args[3]}))"
    if name == "pg_collation_for":
        return f"COLLATION FOR ({args[0]})"
    if name == "system_user":
        return "SYSTEM_USER"
    form = args[1].strip("'") if args[1:] else ""
    if name == "is_normalized":
        return f"({args[0]} IS {form + ' ' if form else ''}NORMALIZED)"
    assert name == "normalize", name
    return f"NORMALIZE({args[0]}, {form})" if form else f"NORMALIZE({args[0]})"
