"""SELECT, its clauses, FROM items and SQL/JSON as text."""

from __future__ import annotations

from collections.abc import Iterable

from pgrepl.ground.errors import unsupported
from pgrepl.sql.keywords import quote_identifier, quote_literal
from pgrepl.sql.nodes import (
    Alias,
    ColumnDefinition,
    CommonTableExpr,
    Expr,
    GroupingKind,
    GroupingSet,
    JoinExpr,
    JoinType,
    JsonAggregate,
    JsonArgument,
    JsonArrayExpr,
    JsonArrayQuery,
    JsonBehavior,
    JsonFormat,
    JsonFuncExpr,
    JsonIsPredicate,
    JsonObjectExpr,
    JsonOutput,
    JsonPair,
    JsonParseExpr,
    JsonScalarExpr,
    JsonSerializeExpr,
    JsonTable,
    JsonTableColumn,
    JsonTablePath,
    JsonValue,
    LockingClause,
    Node,
    NullsOrder,
    RangeFunction,
    RangeSubselect,
    RangeTableSample,
    RangeVar,
    ResTarget,
    SelectStmt,
    SortBy,
    SortDir,
    TypeCast,
    UnsupportedFromItem,
    WindowDef,
    WindowFrame,
    WithClause,
)
from tests.sql.deparse.expression import deparse, dotted, in_parentheses, listed, operator_text


def _clauses(*parts: Node | str | None) -> str:
    """The clauses that are there, each behind a blank."""
    texts = [part if isinstance(part, str) else deparse(part) for part in parts if part]
    return "".join(f" {text}" for text in texts)


def _called(name: str, first: str, clauses: str) -> str:
    return f"{name}({first}{clauses})" if first else f"{name}({clauses.strip()})"


@deparse.register
def _(node: JsonFormat) -> str:
    return "FORMAT JSON" + (f" ENCODING {node.encoding}" if node.encoding else "")


@deparse.register
def _(node: JsonValue) -> str:
    return deparse(node.raw) + _clauses(node.format)


@deparse.register
def _(node: JsonOutput) -> str:
    return f"RETURNING {deparse(node.type_name)}" + _clauses(node.format)


@deparse.register
def _(node: JsonPair) -> str:
    return f"{deparse(node.key)} : {deparse(node.value)}"


@deparse.register
def _(node: JsonObjectExpr) -> str:
    nulls = "ABSENT ON NULL" if node.absent_on_null else ""
    clauses = _clauses(nulls, "WITH UNIQUE KEYS" if node.unique else "", node.output)
    return _called("JSON_OBJECT", listed(node.pairs), clauses)


@deparse.register
def _(node: JsonArrayExpr) -> str:
    nulls = "" if node.absent_on_null else "NULL ON NULL"
    return _called("JSON_ARRAY", listed(node.values), _clauses(nulls, node.output))


@deparse.register
def _(node: JsonArrayQuery) -> str:
    return f"JSON_ARRAY({deparse(node.query)}{_clauses(node.format, node.output)})"


@deparse.register
def _(node: JsonAggregate) -> str:
    if node.key is None:
        nulls = "" if node.absent_on_null else "NULL ON NULL"
        order = f"ORDER BY {listed(node.order)}" if node.order else ""
        text = f"JSON_ARRAYAGG({deparse(node.value)}{_clauses(order, nulls, node.output)})"
    else:
        nulls = "ABSENT ON NULL" if node.absent_on_null else ""
        clauses = _clauses(nulls, "WITH UNIQUE KEYS" if node.unique else "", node.output)
        text = f"JSON_OBJECTAGG({deparse(node.key)} : {deparse(node.value)}{clauses})"
    if node.agg_filter is not None:
        text += f" FILTER (WHERE {deparse(node.agg_filter)})"
    if node.over is not None:
        over = node.over
        text += f" OVER {quote_identifier(over.refname or '') if over.over_name else deparse(over)}"
    return text


@deparse.register
def _(node: JsonParseExpr) -> str:
    return f"JSON({deparse(node.value)}{_clauses('WITH UNIQUE KEYS' if node.unique else '')})"


@deparse.register
def _(node: JsonScalarExpr) -> str:
    return f"JSON_SCALAR({deparse(node.arg)})"


@deparse.register
def _(node: JsonSerializeExpr) -> str:
    return f"JSON_SERIALIZE({deparse(node.value)}{_clauses(node.output)})"


@deparse.register
def _(node: JsonIsPredicate) -> str:
    return f"({deparse(node.arg)} IS JSON{_clauses(node.kind, 'WITH UNIQUE KEYS' if node.unique else '')})"


@deparse.register
def _(node: JsonBehavior) -> str:
    return node.kind + _clauses(node.default)


@deparse.register
def _(node: JsonArgument) -> str:
    return f"{deparse(node.value)} AS {quote_identifier(node.name)}"


def _options(node: JsonFuncExpr | JsonTableColumn) -> str:
    wrapper = {"NONE": "WITHOUT WRAPPER", "": ""}.get(node.wrapper, f"WITH {node.wrapper} WRAPPER")
    return _clauses(
        wrapper,
        f"{node.quotes} QUOTES" if node.quotes else "",
        f"{deparse(node.on_empty)} ON EMPTY" if node.on_empty is not None else "",
        f"{deparse(node.on_error)} ON ERROR" if node.on_error is not None else "",
    )


def _passing(arguments: Iterable[JsonArgument]) -> str:
    text = listed(arguments)
    return f"PASSING {text}" if text else ""


@deparse.register
def _(node: JsonFuncExpr) -> str:
    text = f"{deparse(node.context)}, {deparse(node.path)}{_clauses(_passing(node.passing), node.output)}"
    return f"{node.function}({text}{_options(node)})"


@deparse.register
def _(node: JsonTablePath) -> str:
    return quote_literal(node.text) + (f" AS {quote_identifier(node.name)}" if node.name is not None else "")


@deparse.register
def _(node: JsonTableColumn) -> str:
    if node.kind == "nested":
        assert node.path is not None
        return f"NESTED PATH {deparse(node.path)} COLUMNS ({listed(node.columns)})"
    name = quote_identifier(node.name)
    if node.kind == "ordinality":
        return f"{name} FOR ORDINALITY"
    assert node.type_name is not None
    path = f"PATH {deparse(node.path)}" if node.path is not None else ""
    exists = "EXISTS" if node.kind == "exists" else ""
    return f"{name} {deparse(node.type_name)}{_clauses(node.format, exists, path)}{_options(node)}"


@deparse.register
def _(node: JsonTable) -> str:
    text = f"{deparse(node.context)}, {deparse(node.path)}{_clauses(_passing(node.passing))}"
    text += f" COLUMNS ({listed(node.columns)})"
    if node.on_error is not None:
        text += f" {deparse(node.on_error)} ON ERROR"
    alias = ""
    if node.alias is not None:
        columns = ", ".join(map(quote_identifier, node.alias.columns))
        alias = f" AS {quote_identifier(node.alias.name)}" + (f" ({columns})" if columns else "")
    return f"{'LATERAL ' if node.lateral else ''}JSON_TABLE({text}){alias}"


# --- query ------------------------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------------ queries


@deparse.register
def _(node: SelectStmt) -> str:
    parts = [deparse(node.with_)] if node.with_ is not None else []
    if node.op is not None:
        assert node.left is not None and node.right is not None
        operator = node.op.value.upper() + (" ALL" if node.all else "")
        parts.append(f"({deparse(node.left)}) {operator} ({deparse(node.right)})")
    elif node.values is not None:
        parts.append("VALUES " + ", ".join(f"({listed(row)})" for row in node.values))
    else:
        parts += _simple_select(node)
    if node.order_by:
        parts.append(f"ORDER BY {listed(node.order_by)}")
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
        parts.append(f"DISTINCT ON ({listed(node.distinct)})" if node.distinct else "DISTINCT")
    if node.targets:
        parts.append(listed(node.targets))
    if node.into is not None:
        persistence = {"t": "TEMPORARY ", "u": "UNLOGGED "}.get(node.into.persistence, "")
        parts.append(f"INTO {persistence}TABLE {deparse(node.into)}")
    if node.from_:
        parts.append(f"FROM {listed(node.from_)}")
    if node.where is not None:
        parts.append(f"WHERE {deparse(node.where)}")
    if node.group_by:
        parts.append(f"GROUP BY {'DISTINCT ' if node.group_distinct else ''}{listed(node.group_by)}")
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
        text += f" USING {operator_text(node.using)}"
    elif node.dir is not SortDir.DEFAULT:
        text += f" {node.dir.value.upper()}"
    return text + (f" NULLS {node.nulls.value.upper()}" if node.nulls is not NullsOrder.DEFAULT else "")


@deparse.register
def _(node: GroupingSet) -> str:
    if node.kind is GroupingKind.EMPTY:
        return "()"
    return f"{'GROUPING SETS' if node.kind is GroupingKind.SETS else node.kind.value.upper()} ({listed(node.content)})"


@deparse.register
def _(node: LockingClause) -> str:
    of = f" OF {listed(node.relations)}" if node.relations else ""
    return f"FOR {node.strength}{of}" + (f" {node.wait}" if node.wait else "")


@deparse.register
def _(node: WithClause) -> str:
    return f"WITH {'RECURSIVE ' if node.recursive else ''}{listed(node.ctes)}"


@deparse.register
def _(node: CommonTableExpr) -> str:
    materialized = {True: "MATERIALIZED ", False: "NOT MATERIALIZED ", None: ""}[node.materialized]
    text = f"{quote_identifier(node.name)}{in_parentheses(node.columns)} AS {materialized}({deparse(node.query)})"
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
    """A constant where the grammar allows only constants: a typed one is `integer '5'`."""
    if isinstance(node, TypeCast):
        return f"{deparse(node.type_name)} {deparse(node.arg)}"
    return deparse(node)


# ------------------------------------------------------------------------------------------------ FROM


def _aliased(text: str, alias: Alias | None) -> str:
    return text if alias is None else f"{text} AS {quote_identifier(alias.name)}{in_parentheses(alias.columns)}"


@deparse.register
def _(node: RangeVar) -> str:
    name = dotted(part for part in (node.catalog, node.schema, node.name) if part is not None)
    return _aliased(name if node.inh else f"ONLY {name}", node.alias)


@deparse.register
def _(node: RangeSubselect) -> str:
    return _aliased(f"{'LATERAL ' if node.lateral else ''}({deparse(node.subquery)})", node.alias)


@deparse.register
def _(node: ColumnDefinition) -> str:
    collation = f" COLLATE {dotted(node.collation)}" if node.collation else ""
    return f"{quote_identifier(node.name)} {deparse(node.type_name)}{collation}"


@deparse.register
def _(node: RangeFunction) -> str:
    functions = ", ".join(
        deparse(function) + (f" AS ({listed(columns)})" if columns else "") for function, columns in node.functions
    )
    text = f"ROWS FROM ({functions})" if node.rows_from else functions
    text = ("LATERAL " if node.lateral else "") + text + (" WITH ORDINALITY" if node.ordinality else "")
    if not node.coldefs:
        return _aliased(text, node.alias)
    return f"{text} AS {quote_identifier(node.alias.name) if node.alias else ''}({listed(node.coldefs)})"


@deparse.register
def _(node: RangeTableSample) -> str:
    repeatable = f" REPEATABLE ({deparse(node.repeatable)})" if node.repeatable is not None else ""
    return f"{deparse(node.relation)} TABLESAMPLE {dotted(node.method)} ({listed(node.args)}){repeatable}"


@deparse.register
def _(node: JoinExpr) -> str:
    kind = "NATURAL " if node.natural else ""
    if node.kind is not JoinType.INNER:
        kind += node.kind.value.upper() + " "
    text = f"{deparse(node.left)} {kind}JOIN {deparse(node.right)}"
    if node.quals is not None:
        text += f" ON {deparse(node.quals)}"
    elif node.using:
        text += f" USING{in_parentheses(node.using)}"
        if node.using_alias is not None:
            text += f" AS {quote_identifier(node.using_alias.name)}"
    return _aliased(f"({text})", node.alias)


@deparse.register
def _(node: UnsupportedFromItem) -> str:
    raise unsupported(node.what, location=node.location)


# ------------------------------------------------------------------------------------------------ windows


@deparse.register
def _(node: WindowDef) -> str:
    parts = [quote_identifier(node.refname)] if node.refname else []
    if node.partition:
        parts.append(f"PARTITION BY {listed(node.partition)}")
    if node.order:
        parts.append(f"ORDER BY {listed(node.order)}")
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
