"""SQL/JSON: constructors, query functions, aggregates, IS JSON and JSON_TABLE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.operator import not_
from pgrepl.sql.nodes import (
    AConst,
    AConstKind,
    Alias,
    CoercionForm,
    Expr,
    FuncCall,
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
    SelectStmt,
    SortBy,
    TypeName,
    WindowDef,
)

Behaviors = tuple[JsonBehavior | None, JsonBehavior | None]

# --- values, formats ----------------------------------------------------------------------------------------------


@build
def json_plain_value(location: int, raw: Expr) -> JsonValue:
    return JsonValue(raw)


@build
def json_formatted_value(location: int, raw: Expr, format: JsonFormat) -> JsonValue:
    return JsonValue(raw, format)


@build
def json_format(location: int) -> JsonFormat:
    return JsonFormat(location=location)


@build
def json_encoding(location: int, name: str) -> JsonFormat:
    if name.lower() not in ("utf8", "utf16", "utf32"):
        raise PgError("22023", f"unrecognized JSON encoding: {name}")
    return JsonFormat(name.upper(), location)


@build
def json_returning(location: int, type_name: TypeName, format: JsonFormat | None) -> JsonOutput:
    return JsonOutput(type_name, format)


@build
def json_member(location: int, key: Expr, value: JsonValue) -> JsonPair:
    return JsonPair(key, value)


@build("unique_keys_short")
def unique_keys(location: int) -> bool:
    return True


@build("no_unique_keys_short", "no_key_uniqueness")
def no_unique_keys(location: int) -> bool:
    return False


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
def json_object_empty(location: int, output: JsonOutput | None) -> JsonObjectExpr:
    return JsonObjectExpr(output=output, location=location)


@build
def json_array(location: int, values: list[JsonValue], absent: bool | None, output: JsonOutput | None) -> JsonArrayExpr:
    return JsonArrayExpr(tuple(values), absent is not False, output, location)


@build
def json_array_query(
    location: int, query: SelectStmt, format: JsonFormat | None, output: JsonOutput | None
) -> JsonArrayQuery:
    return JsonArrayQuery(query, format, output, location)


@build
def json_array_empty(location: int, output: JsonOutput | None) -> JsonArrayExpr:
    return JsonArrayExpr(output=output, location=location)


@build
def json(location: int, value: JsonValue, unique: bool) -> JsonParseExpr:
    return JsonParseExpr(value, unique, location)


@build
def json_scalar(location: int, arg: Expr) -> JsonScalarExpr:
    return JsonScalarExpr(arg, location)


@build
def json_serialize(location: int, value: JsonValue, output: JsonOutput | None) -> JsonSerializeExpr:
    return JsonSerializeExpr(value, output, location)


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


def _word(alias: str, value: str) -> None:
    @build(alias)
    def word(location: int, *_: Any) -> str:
        return value


for _alias, _value in (
    ("json_any", ""), ("json_is_array", "ARRAY"), ("json_is_object", "OBJECT"), ("json_is_scalar", "SCALAR"),
    ("json_no_wrapper", "NONE"), ("json_conditional", "CONDITIONAL"), ("json_unconditional", "UNCONDITIONAL"),
    ("json_keep", "KEEP"), ("json_omit", "OMIT"), ("json_unsaid", ""),
):  # fmt: skip
    _word(_alias, _value)


@build
def is_json(location: int, operand: Expr, kind: str, unique: bool) -> Expr:
    return JsonIsPredicate(operand, kind, unique, location)


@build
def is_not_json(location: int, operand: Expr, kind: str, unique: bool) -> Expr:
    return not_(location, is_json(location, operand, kind, unique))


# --- query functions ----------------------------------------------------------------------------------------------


def _behavior(alias: str, kind: str) -> None:
    @build(alias)
    def behavior(location: int, default: Expr | None = None) -> JsonBehavior:
        return JsonBehavior(kind, default, location)


for _kind in ("ERROR", "NULL", "TRUE", "FALSE", "UNKNOWN", "EMPTY ARRAY", "EMPTY OBJECT", "DEFAULT"):
    _behavior("json_behavior_" + _kind.lower().replace(" ", "_"), _kind)


@build
def json_on_empty(location: int, behavior: JsonBehavior) -> Behaviors:
    return behavior, None


@build
def json_on_error_only(location: int, behavior: JsonBehavior) -> Behaviors:
    return None, behavior


@build
def json_no_behavior(location: int) -> Behaviors:
    return None, None


@build
def json_argument(location: int, value: JsonValue, name: str) -> JsonArgument:
    return JsonArgument(value, name)


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
def json_exists(
    location: int, context: JsonValue, path: Expr, passing: list[JsonArgument] | None, on_error: JsonBehavior | None
) -> JsonFuncExpr:
    return JsonFuncExpr("JSON_EXISTS", context, path, tuple(passing or ()), on_error=on_error, location=location)


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
def json_path_expr(location: int, path: Expr) -> tuple[int, Expr]:
    return location, path


@build(at=2)
def json_path_name(location: int, name: str) -> tuple[str, int]:
    return name, location


@build(at=2)
def json_column_path(location: int, text: str) -> JsonTablePath:
    return JsonTablePath(text, location=location)


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
def json_table_item(location: int, table: JsonTable, alias: Alias | None) -> JsonTable:
    return replace(table, alias=alias)


@build
def lateral_json_table(location: int, table: JsonTable, alias: Alias | None) -> JsonTable:
    return replace(table, alias=alias, lateral=True)


@build
def json_ordinality_column(location: int, name: str) -> JsonTableColumn:
    return JsonTableColumn("ordinality", name, location=location)


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
def json_exists_column(
    location: int, name: str, type_name: TypeName, path: JsonTablePath | None, on_error: JsonBehavior | None
) -> JsonTableColumn:
    return JsonTableColumn("exists", name, type_name, path=path, on_error=on_error, location=location)


@build(at=(1, 3))
def json_nested_columns(
    locations: tuple[int, int],
    _: None,
    text: str,
    name: tuple[str, int] | None,
    columns: list[JsonTableColumn],
) -> JsonTableColumn:
    path = JsonTablePath(text, name[0] if name else None, locations[1], name[1] if name else -1)
    return JsonTableColumn("nested", path=path, columns=tuple(columns), location=locations[0])
