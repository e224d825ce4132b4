"""SQL/JSON: constructors, query functions, aggregates, IS JSON and JSON_TABLE."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.sql.building import build
from pgrepl.sql.building.expression import not_

Behaviors = tuple[nodes.JsonBehavior | None, nodes.JsonBehavior | None]

# --- values, formats ----------------------------------------------------------------------------------------------


@build
def json_encoding(location: int, name: str) -> nodes.JsonFormat:
    if name.lower() not in ("utf8", "utf16", "utf32"):
        raise PgError("22023", f"unrecognized JSON encoding: {name}")
    return nodes.JsonFormat(name.upper(), location)


# --- constructors -------------------------------------------------------------------------------------------------


@build
def json_object_call(location: int, args: list[nodes.Expr]) -> nodes.FuncCall:
    """json_object(…) with plain arguments, which is an ordinary function call."""
    name = ("pg_catalog", "json_object")
    return nodes.FuncCall(name, tuple(args), form=nodes.CoercionForm.EXPLICIT_CALL, location=location)


@build
def json_object(
    location: int, pairs: list[nodes.JsonPair], absent: bool | None, unique: bool, output: nodes.JsonOutput | None
) -> nodes.JsonObjectExpr:
    return nodes.JsonObjectExpr(tuple(pairs), bool(absent), unique, output, location)


@build
def json_array(
    location: int, values: list[nodes.JsonValue], absent: bool | None, output: nodes.JsonOutput | None
) -> nodes.JsonArrayExpr:
    return nodes.JsonArrayExpr(tuple(values), absent is not False, output, location)


@build
def json_objectagg(
    location: int, pair: nodes.JsonPair, absent: bool | None, unique: bool, output: nodes.JsonOutput | None
) -> nodes.JsonAggregate:
    return nodes.JsonAggregate(
        pair.value, pair.key, absent_on_null=bool(absent), unique=unique, output=output, location=location
    )


@build
def json_arrayagg(
    location: int,
    value: nodes.JsonValue,
    order: list[nodes.SortBy] | None,
    absent: bool | None,
    output: nodes.JsonOutput | None,
) -> nodes.JsonAggregate:
    return nodes.JsonAggregate(
        value, order=tuple(order or ()), absent_on_null=absent is not False, output=output, location=location
    )


@build
def json_aggregate_expr(
    location: int, function: nodes.JsonAggregate, filter: nodes.Expr | None, over: nodes.WindowDef | None
) -> nodes.JsonAggregate:
    return function if filter is None and over is None else replace(function, agg_filter=filter, over=over)


# --- IS JSON ------------------------------------------------------------------------------------------------------


def is_json(location: int, operand: nodes.Expr, kind: str, unique: bool) -> nodes.Expr:
    return nodes.JsonIsPredicate(operand, kind, unique, location)


@build
def is_not_json(location: int, operand: nodes.Expr, kind: str, unique: bool) -> nodes.Expr:
    return not_(location, is_json(location, operand, kind, unique))


# --- query functions ----------------------------------------------------------------------------------------------


@build
def json_query(
    location: int,
    context: nodes.JsonValue,
    path: nodes.Expr,
    passing: list[nodes.JsonArgument] | None,
    output: nodes.JsonOutput | None,
    wrapper: str,
    quotes: str,
    behaviors: Behaviors,
) -> nodes.JsonFuncExpr:
    return nodes.JsonFuncExpr(
        "JSON_QUERY", context, path, tuple(passing or ()), output, wrapper, quotes, *behaviors, location=location
    )


@build
def json_value_call(
    location: int,
    context: nodes.JsonValue,
    path: nodes.Expr,
    passing: list[nodes.JsonArgument] | None,
    output: nodes.JsonOutput | None,
    behaviors: Behaviors,
) -> nodes.JsonFuncExpr:
    return nodes.JsonFuncExpr(
        "JSON_VALUE",
        context,
        path,
        tuple(passing or ()),
        output,
        on_empty=behaviors[0],
        on_error=behaviors[1],
        location=location,
    )


# --- JSON_TABLE ---------------------------------------------------------------------------------------------------


@build
def json_table(
    location: int,
    context: nodes.JsonValue,
    path: tuple[int, nodes.Expr],
    name: tuple[str, int] | None,
    passing: list[nodes.JsonArgument] | None,
    columns: list[nodes.JsonTableColumn],
    on_error: nodes.JsonBehavior | None,
) -> nodes.JsonTable:
    at, text = path
    if not (isinstance(text, nodes.AConst) and text.kind is nodes.AConstKind.STRING):
        message = "only string constants are supported in JSON_TABLE path specification"
        raise PgError("0A000", message, location=at)
    row_path = nodes.JsonTablePath(str(text.value), name[0] if name else None, at, name[1] if name else -1)
    return nodes.JsonTable(context, row_path, tuple(passing or ()), tuple(columns), on_error, location=location)


@build
def json_regular_column(
    location: int,
    name: str,
    type_name: nodes.TypeName,
    format: nodes.JsonFormat | None,
    path: nodes.JsonTablePath | None,
    wrapper: str,
    quotes: str,
    behaviors: Behaviors,
) -> nodes.JsonTableColumn:
    kind = "regular" if format is None else "formatted"
    return nodes.JsonTableColumn(
        kind, name, type_name, format, path, wrapper, quotes, behaviors[0], behaviors[1], location=location
    )


@build
def json_nested_columns(
    locations: tuple[int, int], text: str, name: tuple[str, int] | None, columns: list[nodes.JsonTableColumn]
) -> nodes.JsonTableColumn:
    path = nodes.JsonTablePath(text, name[0] if name else None, locations[1], name[1] if name else -1)
    return nodes.JsonTableColumn("nested", path=path, columns=tuple(columns), location=locations[0])
