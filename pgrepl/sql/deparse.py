"""Nodes → text: one canonical, fully parenthesised spelling of a raw query or expression.

The text parses to the same tree again, for PostgreSQL too. Types have the names that PostgreSQL prints (`integer`,
`timestamp with time zone`), casts are CAST(… AS …), every operator stands in its own parentheses.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from pgrepl.errors import unsupported
from pgrepl.sql.nodes import (
    AArrayExpr,
    AConst,
    AConstKind,
    AExpr,
    AExprKind,
    AIndices,
    AIndirection,
    Alias,
    AStar,
    BooleanTest,
    BoolExpr,
    BoolOp,
    CaseExpr,
    CoalesceExpr,
    CoercionForm,
    CollateClause,
    ColumnDefinition,
    ColumnRef,
    CommonTableExpr,
    CurrentOf,
    Expr,
    FuncCall,
    GroupingFunc,
    GroupingKind,
    GroupingSet,
    JoinExpr,
    JoinType,
    LockingClause,
    MinMaxExpr,
    NamedArg,
    Node,
    NullsOrder,
    NullTest,
    NullTestType,
    ParamRef,
    RangeFunction,
    RangeSubselect,
    RangeTableSample,
    RangeVar,
    ResTarget,
    RowExpr,
    SelectStmt,
    SetToDefault,
    SortBy,
    SortDir,
    SQLValueFunction,
    Statement,
    SubLink,
    SubLinkType,
    TypeCast,
    TypeName,
    UnsupportedExpr,
    UnsupportedFromItem,
    WindowDef,
    WindowFrame,
    WithClause,
)
from pgrepl.sql.quote import quote_identifier, quote_literal


@singledispatch
def deparse(node: Node) -> str:
    """The text of a query, an expression, or a part of one."""
    if isinstance(node, Statement):
        raise unsupported("a data-modifying statement in WITH")
    raise TypeError(f"{type(node).__name__} is no part of a query")


def _list(nodes: Iterable[Node]) -> str:
    return ", ".join(map(deparse, nodes))


def _name(parts: Iterable[str]) -> str:
    return ".".join(map(quote_identifier, parts))


def _columns(names: tuple[str, ...]) -> str:
    return f" ({', '.join(map(quote_identifier, names))})" if names else ""


def _operator(name: tuple[str, ...]) -> str:
    return name[0] if len(name) == 1 else f"OPERATOR({_name(name[:-1])}.{name[-1]})"


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
    modifiers = f"({_list(node.typmods)})" if node.typmods else ""
    text = _SQL_TYPES.get(node.names[-1]) if node.names[:-1] == ("pg_catalog",) else None
    if text is None:
        text = _name(node.names)
    text = text.format(modifiers) if "{}" in text and node.names[0] == "pg_catalog" else text + modifiers
    bounds = "".join("[]" if bound < 0 else f"[{bound}]" for bound in node.array_bounds)
    return ("SETOF " if node.setof else "") + text + bounds + ("%TYPE" if node.pct_type else "")


# ------------------------------------------------------------------------------------------------ operators

_PATTERNS = {"~~": "LIKE", "!~~": "NOT LIKE", "~~*": "ILIKE", "!~~*": "NOT ILIKE", "~": "SIMILAR TO"}
_PATTERNS["!~"] = "NOT SIMILAR TO"


@deparse.register
def _(node: AExpr) -> str:
    left = deparse(node.lexpr) if node.lexpr is not None else ""
    kind, right, operator = node.kind, node.rexpr, _operator(node.name)
    if isinstance(right, tuple):
        if kind is AExprKind.IN:
            return f"({left} {'IN' if operator == '=' else 'NOT IN'} ({_list(right)}))"
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
def _(node: TypeCast) -> str:
    return f"CAST({deparse(node.arg)} AS {deparse(node.type_name)})"


@deparse.register
def _(node: CollateClause) -> str:
    return f"({deparse(node.arg)} COLLATE {_name(node.collation)})"


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
    return f"({deparse(node.test)} {_operator(node.operator)} {quantifier} {query})"


@deparse.register
def _(node: RowExpr) -> str:
    return f"{'ROW' if node.explicit else ''}({_list(node.args)})"


@deparse.register
def _(node: AArrayExpr) -> str:
    return f"ARRAY{_elements(node)}"


def _elements(node: AArrayExpr) -> str:
    """An array within an array has no word ARRAY: the grammar allows it, but the tree is the same without."""
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
    return f"COALESCE({_list(node.args)})"


@deparse.register
def _(node: MinMaxExpr) -> str:
    return f"{'GREATEST' if node.greatest else 'LEAST'}({_list(node.args)})"


@deparse.register
def _(node: GroupingFunc) -> str:
    return f"GROUPING({_list(node.args)})"


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
    order = f"ORDER BY {_list(node.agg_order)}" if node.agg_order else ""
    if order and not node.within_group:
        text += f" {order}"
    text = f"{_name(node.name)}({text})"
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


@deparse.register
def _(node: WindowDef) -> str:
    parts = [quote_identifier(node.refname)] if node.refname else []
    if node.partition:
        parts.append(f"PARTITION BY {_list(node.partition)}")
    if node.order:
        parts.append(f"ORDER BY {_list(node.order)}")
    if node.frame is not None:
        parts.append(_frame(node.frame))
    return f"({' '.join(parts)})"


def _frame(frame: WindowFrame) -> str:
    start = f"{deparse(frame.start_offset)} {frame.start}" if frame.start_offset else frame.start
    text = f"{frame.mode} {start}"
    if frame.end is not None:
        end = f"{deparse(frame.end_offset)} {frame.end}" if frame.end_offset else frame.end
        text = f"{frame.mode} BETWEEN {start} AND {end}"
    return text + (f" EXCLUDE {frame.exclude}" if frame.exclude else "")


# ------------------------------------------------------------------------------------------------ queries


@deparse.register
def _(node: SelectStmt) -> str:
    parts = [deparse(node.with_)] if node.with_ is not None else []
    if node.op is not None:
        assert node.left is not None and node.right is not None
        operator = node.op.value.upper() + (" ALL" if node.all else "")
        parts.append(f"({deparse(node.left)}) {operator} ({deparse(node.right)})")
    elif node.values is not None:
        parts.append("VALUES " + ", ".join(f"({_list(row)})" for row in node.values))
    else:
        parts += _simple_select(node)
    if node.order_by:
        parts.append(f"ORDER BY {_list(node.order_by)}")
    if node.limit is not None and node.with_ties:
        parts.append(f"FETCH FIRST ({deparse(node.limit)}) ROWS WITH TIES")
    elif node.limit is not None:
        parts.append(f"LIMIT {deparse(node.limit)}")
    if node.offset is not None:
        parts.append(f"OFFSET {deparse(node.offset)}")
    parts += map(deparse, node.locking)
    return " ".join(parts)


def _simple_select(node: SelectStmt) -> list[str]:
    parts = ["SELECT"]
    if node.distinct is not None:
        parts.append(f"DISTINCT ON ({_list(node.distinct)})" if node.distinct else "DISTINCT")
    if node.targets:
        parts.append(_list(node.targets))
    if node.into is not None:
        persistence = {"t": "TEMPORARY ", "u": "UNLOGGED "}.get(node.into.persistence, "")
        parts.append(f"INTO {persistence}TABLE {deparse(node.into)}")
    if node.from_:
        parts.append(f"FROM {_list(node.from_)}")
    if node.where is not None:
        parts.append(f"WHERE {deparse(node.where)}")
    if node.group_by:
        parts.append(f"GROUP BY {'DISTINCT ' if node.group_distinct else ''}{_list(node.group_by)}")
    if node.having is not None:
        parts.append(f"HAVING {deparse(node.having)}")
    if node.windows:
        parts.append("WINDOW " + ", ".join(f"{quote_identifier(w.name or '')} AS {deparse(w)}" for w in node.windows))
    return parts


@deparse.register
def _(node: ResTarget) -> str:
    assert node.value is not None
    return deparse(node.value) + (f" AS {quote_identifier(node.name)}" if node.name is not None else "")


@deparse.register
def _(node: SortBy) -> str:
    text = deparse(node.node)
    if node.dir is SortDir.USING:
        text += f" USING {_operator(node.using)}"
    elif node.dir is not SortDir.DEFAULT:
        text += f" {node.dir.value.upper()}"
    return text + (f" NULLS {node.nulls.value.upper()}" if node.nulls is not NullsOrder.DEFAULT else "")


@deparse.register
def _(node: GroupingSet) -> str:
    if node.kind is GroupingKind.EMPTY:
        return "()"
    return f"{'GROUPING SETS' if node.kind is GroupingKind.SETS else node.kind.value.upper()} ({_list(node.content)})"


@deparse.register
def _(node: LockingClause) -> str:
    of = f" OF {_list(node.relations)}" if node.relations else ""
    return f"FOR {node.strength}{of}" + (f" {node.wait}" if node.wait else "")


@deparse.register
def _(node: WithClause) -> str:
    return f"WITH {'RECURSIVE ' if node.recursive else ''}{_list(node.ctes)}"


@deparse.register
def _(node: CommonTableExpr) -> str:
    materialized = {True: "MATERIALIZED ", False: "NOT MATERIALIZED ", None: ""}[node.materialized]
    text = f"{quote_identifier(node.name)}{_columns(node.columns)} AS {materialized}({deparse(node.query)})"
    if (search := node.search) is not None:
        order = "BREADTH" if search.breadth_first else "DEPTH"
        by = ", ".join(map(quote_identifier, search.columns))
        text += f" SEARCH {order} FIRST BY {by} SET {quote_identifier(search.sequence_column)}"
    if (cycle := node.cycle) is not None:
        of = ", ".join(map(quote_identifier, cycle.columns))
        text += f" CYCLE {of} SET {quote_identifier(cycle.mark_column)}"
        if cycle.mark_value is not None and cycle.mark_default is not None:
            text += f" TO {_constant(cycle.mark_value)} DEFAULT {_constant(cycle.mark_default)}"
        text += f" USING {quote_identifier(cycle.path_column)}"
    return text


def _constant(node: Expr) -> str:
    """A constant where the grammar takes nothing else: a typed one is `integer '5'`."""
    if isinstance(node, TypeCast):
        return f"{deparse(node.type_name)} {deparse(node.arg)}"
    return deparse(node)


# ------------------------------------------------------------------------------------------------ FROM


def _aliased(text: str, alias: Alias | None) -> str:
    return text if alias is None else f"{text} AS {quote_identifier(alias.name)}{_columns(alias.columns)}"


@deparse.register
def _(node: RangeVar) -> str:
    name = _name(part for part in (node.catalog, node.schema, node.name) if part is not None)
    return _aliased(name if node.inh else f"ONLY {name}", node.alias)


@deparse.register
def _(node: RangeSubselect) -> str:
    return _aliased(f"{'LATERAL ' if node.lateral else ''}({deparse(node.subquery)})", node.alias)


@deparse.register
def _(node: ColumnDefinition) -> str:
    collation = f" COLLATE {_name(node.collation)}" if node.collation else ""
    return f"{quote_identifier(node.name)} {deparse(node.type_name)}{collation}"


@deparse.register
def _(node: RangeFunction) -> str:
    functions = ", ".join(
        deparse(function) + (f" AS ({_list(columns)})" if columns else "") for function, columns in node.functions
    )
    text = f"ROWS FROM ({functions})" if node.rows_from else functions
    text = ("LATERAL " if node.lateral else "") + text + (" WITH ORDINALITY" if node.ordinality else "")
    if not node.coldefs:
        return _aliased(text, node.alias)
    return f"{text} AS {quote_identifier(node.alias.name) if node.alias else ''}({_list(node.coldefs)})"


@deparse.register
def _(node: RangeTableSample) -> str:
    repeatable = f" REPEATABLE ({deparse(node.repeatable)})" if node.repeatable is not None else ""
    return f"{deparse(node.relation)} TABLESAMPLE {_name(node.method)} ({_list(node.args)}){repeatable}"


@deparse.register
def _(node: JoinExpr) -> str:
    kind = "NATURAL " if node.natural else ""
    if node.kind is not JoinType.INNER:
        kind += node.kind.value.upper() + " "
    text = f"{deparse(node.left)} {kind}JOIN {deparse(node.right)}"
    if node.quals is not None:
        text += f" ON {deparse(node.quals)}"
    elif node.using:
        text += f" USING{_columns(node.using)}"
        if node.using_alias is not None:
            text += f" AS {quote_identifier(node.using_alias.name)}"
    return _aliased(f"({text})", node.alias)


@deparse.register
def _(node: UnsupportedFromItem) -> str:
    raise unsupported(node.what, location=node.location)
