"""SQL/JSON: constructors, query functions, aggregates, IS JSON and JSON_TABLE."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.expression import not_
from pgrepl.sql.nodes import (
    AConst,
    AConstKind,
    CoercionForm,
    Expr,
    FuncCall,
    JsonAggregate,
    JsonArgument,
    JsonArrayExpr,
    JsonBehavior,
    JsonFormat,
    JsonFuncExpr,
    JsonIsPredicate,
    JsonObjectExpr,
    JsonOutput,
    JsonPair,
    JsonTable,
    JsonTableColumn,
    JsonTablePath,
    JsonValue,
    SortBy,
    TypeName,
    WindowDef,
)

Behaviors = tuple[JsonBehavior | None, JsonBehavior | None]

# --- values, formats ----------------------------------------------------------------------------------------------


@build
def json_encoding(location: int, name: str) -> JsonFormat:
    if name.lower() not in ("utf8", "utf16", "utf32"):
        raise PgError("22023", f"unrecognized JSON encoding: {name}")
    return JsonFormat(name.upper(), location)


# --- constructors -------------------------------------------------------------------------------------------------


@build
def json_object_call(location: int, args: list[Expr]) -> FuncCall:
    """json_object(…) with plain arguments, which is an ordinary function call."""
    name = ("pg_catalog", "json_object")
    return FuncCall(name, tuple(args), form=CoercionForm.EXPLICIT_CALL, location=location)


@build
def json_object(
    location: int, pairs: list[JsonPair], absent: bool | None, unique: bool, output: JsonOutput | None
) -> JsonObjectExpr:
    return JsonObjectExpr(tuple(pairs), bool(absent), unique, output, location)


@build
def json_array(location: int, values: list[JsonValue], absent: bool | None, output: JsonOutput | None) -> JsonArrayExpr:
    return JsonArrayExpr(tuple(values), absent is not False, output, location)


@build
def json_objectagg(
    location: int, pair: JsonPair, absent: bool | None, unique: bool, output: JsonOutput | None
) -> JsonAggregate:
    return JsonAggregate(
        pair.value, pair.key, absent_on_null=bool(absent), unique=unique, output=output, location=location
    )


@build
def json_arrayagg(
    location: int, value: JsonValue, order: list[SortBy] | None, absent: bool | None, output: JsonOutput | None
) -> JsonAggregate:
    return JsonAggregate(
        value, order=tuple(order or ()), absent_on_null=absent is not False, output=output, location=location
    )


@build
def json_aggregate_expr(
    location: int, function: JsonAggregate, filter: Expr | None, over: WindowDef | None
) -> JsonAggregate:
    return function if filter is None and over is None else replace(function, agg_filter=filter, over=over)


# --- IS JSON ------------------------------------------------------------------------------------------------------


def is_json(location: int, operand: Expr, kind: str, unique: bool) -> Expr:
    return JsonIsPredicate(operand, kind, unique, location)


@build
def is_not_json(location: int, operand: Expr, kind: str, unique: bool) -> Expr:
    return not_(location, is_json(location, operand, kind, unique))


# --- query functions ----------------------------------------------------------------------------------------------


@build
def json_query(
    location: int,
    context: JsonValue,
    path: Expr,
    passing: list[JsonArgument] | None,
    output: JsonOutput | None,
    wrapper: str,
    quotes: str,
    behaviors: Behaviors,
) -> JsonFuncExpr:
    return JsonFuncExpr(
        "JSON_QUERY", context, path, tuple(passing or ()), output, wrapper, quotes, *behaviors, location=location
    )


@build
def json_value_call(
    location: int,
    context: JsonValue,
    path: Expr,
    passing: list[JsonArgument] | None,
    output: JsonOutput | None,
    behaviors: Behaviors,
) -> JsonFuncExpr:
    return JsonFuncExpr(
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
    context: JsonValue,
    path: tuple[int, Expr],
    name: tuple[str, int] | None,
    passing: list[JsonArgument] | None,
    columns: list[JsonTableColumn],
    on_error: JsonBehavior | None,
) -> JsonTable:
    at, text = path
    if not (isinstance(text, AConst) and text.kind is AConstKind.STRING):
        message = "only string constants are supported in JSON_TABLE path specification"
        raise PgError("0A000", message, location=at)
    row_path = JsonTablePath(str(text.value), name[0] if name else None, at, name[1] if name else -1)
    return JsonTable(context, row_path, tuple(passing or ()), tuple(columns), on_error, location=location)


@build
def json_regular_column(
    location: int,
    name: str,
    type_name: TypeName,
    format: JsonFormat | None,
    path: JsonTablePath | None,
    wrapper: str,
    quotes: str,
    behaviors: Behaviors,
) -> JsonTableColumn:
    kind = "regular" if format is None else "formatted"
    return JsonTableColumn(
        kind, name, type_name, format, path, wrapper, quotes, behaviors[0], behaviors[1], location=location
    )


@build
def json_nested_columns(
    locations: tuple[int, int], text: str, name: tuple[str, int] | None, columns: list[JsonTableColumn]
) -> JsonTableColumn:
    path = JsonTablePath(text, name[0] if name else None, locations[1], name[1] if name else -1)
    return JsonTableColumn("nested", path=path, columns=tuple(columns), location=locations[0])
