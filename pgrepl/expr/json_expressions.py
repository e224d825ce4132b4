"""SQL/JSON's expressions: constructors, aggregates, IS JSON and query functions (the JSON part of parse_expr.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.aggregates import make_aggregate, place_window_function
from pgrepl.expr.casts import Context
from pgrepl.expr.coerce import IMPLICIT_CAST, coerce_to_specific, coerce_to_target, coercion_location
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.scope import Scope
from pgrepl.expr.transform import analyze_where, transform_expr
from pgrepl.expr.tree import (
    CaseTestExpr,
    Const,
    Expr,
    FuncExpr,
    JsonConstructorExpr,
    JsonIsPredicate,
    JsonValueExpr,
    WindowFunc,
)
from pgrepl.expr.typenames import type_of_name
from pgrepl.expr.walk import location_of
from pgrepl.sql import nodes
from pgrepl.sql.nodes import CoercionForm, SubLinkType
from pgrepl.types import builtin, oids

_CONVERT_FROM, _CONVERT_TO, _TO_JSON, _TO_JSONB = 1714, 1717, 3176, 3787
# values of these types go into a path as they are (JsonItemFromDatum)
_PATH_VALUES = frozenset(
    {
        oids.BOOL, oids.NUMERIC, oids.INT2, oids.INT4, oids.INT8, oids.FLOAT4, oids.FLOAT8, oids.TEXT, oids.VARCHAR,
        oids.DATE, oids.TIME, oids.TIMETZ, oids.TIMESTAMP, oids.TIMESTAMPTZ,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Returning:
    """What a function returns. type 0: nothing was said. format is "", json or jsonb."""

    type: int
    typmod: int = -1
    format: str = ""
    encoding: str | None = None


# --- values and formats -------------------------------------------------------------------------------------------


def value_of(
    scope: Scope, construct: str, value: nodes.JsonValue, format: str, target: int = 0, *, passing: bool = False
) -> Expr:
    """A value, made json or jsonb where its format asks for it (transformJsonValueExpr)."""
    raw = transform_expr(value.raw, scope)
    if raw.type == oids.UNKNOWN:
        raw = coerce_to_specific(scope, raw, oids.TEXT, construct)
    given = value.format
    is_string = typefacts.category(raw.type) == typefacts.STRING_CATEGORY
    if given is not None:
        if given.encoding is not None and raw.type != oids.BYTEA:
            message = "JSON ENCODING clause is only allowed for bytea input type"
            raise PgError("42804", message, location=given.location)
        format = "" if raw.type in (oids.JSON, oids.JSONB) else "json"
    elif passing and (raw.type in _PATH_VALUES or is_string):
        return raw
    elif not passing and raw.type in (oids.JSON, oids.JSONB):
        format = ""
    if not format and (not target or raw.type == target):
        return raw
    if not passing and not target and raw.type != oids.BYTEA and not is_string:
        kind = "implicit" if given is None else "explicit"
        at = given.location if given is not None else location_of(raw)
        raise PgError("42804", f"cannot use non-string types with {kind} FORMAT JSON clause", location=at)
    expr = raw
    if format == "json" and raw.type == oids.BYTEA:
        expr = _text_of_bytes(raw, given)
    wanted = target or (oids.JSONB if format == "jsonb" else oids.JSON)
    formatted = _made_json(scope, expr, wanted, cast_only=bool(target))
    if formatted is expr:
        return raw
    return JsonValueExpr(formatted.type, raw=raw, formatted=formatted, format=format_text(given))


def _made_json(scope: Scope, expr: Expr, target: int, *, cast_only: bool) -> Expr:
    at = location_of(expr)
    cast = coerce_to_target(scope, expr, expr.type, target, -1, Context.EXPLICIT, CoercionForm.EXPLICIT_CAST, at)
    if cast is not None:
        return cast
    if cast_only:
        one, other = typefacts.type_text(scope.session, expr.type), typefacts.type_text(scope.session, target)
        raise PgError("42846", f"cannot cast type {one} to {other}", location=at)
    return FuncExpr(target, location=at, func=_TO_JSON if target == oids.JSON else _TO_JSONB, args=(expr,))


def format_text(given: nodes.JsonFormat | None) -> str:
    if given is None:
        return ""
    return " FORMAT JSON" + (f" ENCODING {given.encoding}" if given.encoding is not None else "")


def _encoding(given: nodes.JsonFormat | None) -> Const:
    name = given.encoding if given is not None and given.encoding is not None else "UTF8"
    return Const(oids.NAME, value=name)


def _text_of_bytes(expr: Expr, given: nodes.JsonFormat | None) -> Expr:
    """As makeJsonByteaToTextConversion does."""
    return FuncExpr(oids.TEXT, location=location_of(expr), func=_CONVERT_FROM, args=(expr, _encoding(given)))


def returning_of(scope: Scope, output: nodes.JsonOutput | None, *, any_type: bool) -> Returning:
    """As transformJsonOutput does. any_type: FORMAT may stand with types that are no strings."""
    if output is None:
        return Returning(0)
    typoid, typmod = type_of_name(scope.session, output.type_name)
    if output.type_name.setof:
        raise PgError("0A000", "returning SETOF types is not supported in SQL/JSON functions")
    known = builtin.type_by_oid(typoid)
    if known is not None and known.typtype == "p":
        raise PgError("0A000", "returning pseudo-types is not supported in SQL/JSON functions")
    given = output.format
    if given is None:
        return Returning(typoid, typmod, "jsonb" if typoid == oids.JSONB else "json")
    if not any_type and typoid not in (oids.BYTEA, oids.JSON, oids.JSONB):
        if typefacts.category(typoid) != typefacts.STRING_CATEGORY:
            message = "cannot use JSON format with non-string output types"
            raise PgError("22023", message, location=given.location)
    if given.encoding is not None and typoid != oids.BYTEA:
        raise PgError("0A000", "cannot set JSON encoding for non-bytea output types", location=given.location)
    if given.encoding not in (None, "UTF8"):
        hint = "Only UTF8 JSON encoding is supported."
        raise PgError("0A000", "unsupported JSON encoding", hint=hint, location=given.location)
    return Returning(typoid, typmod, "json", given.encoding)


def _constructed(scope: Scope, output: nodes.JsonOutput | None, args: Sequence[Expr]) -> Returning:
    """What a constructor returns; unless said jsonb if an argument is jsonb, else json."""
    found = returning_of(scope, output, any_type=True)
    if found.type:
        return found
    if any(arg.type == oids.JSONB for arg in args):
        return Returning(oids.JSONB, format="jsonb")
    return Returning(oids.JSON, format="json")


def cast_result(scope: Scope, expr: Expr, returning: Returning) -> Expr:
    """As coerceJsonFuncExpr does."""
    at = location_of(expr)
    if returning.format == "json" and returning.type == oids.BYTEA:
        text = coerce_to_specific(scope, expr, oids.TEXT, "JSON_FUNCTION")
        encoding = Const(oids.NAME, value=returning.encoding or "UTF8")
        return FuncExpr(oids.BYTEA, location=at, func=_CONVERT_TO, args=(text, encoding))
    cast = coerce_to_target(
        scope, expr, expr.type, returning.type, returning.typmod, Context.ASSIGNMENT, IMPLICIT_CAST, at
    )
    if cast is None:
        one, other = typefacts.type_text(scope.session, expr.type), typefacts.type_text(scope.session, returning.type)
        raise PgError("42846", f"cannot cast type {one} to {other}", location=coercion_location(at, expr))
    return cast


def _constructor(
    scope: Scope,
    function: str,
    args: Sequence[Expr],
    returning: Returning,
    location: int,
    *,
    aggregate: Expr | None = None,
    unique: bool = False,
    absent: bool = False,
) -> Expr:
    """As makeJsonConstructorExpr does."""
    made = aggregate.type if aggregate is not None else oids.JSONB if returning.format == "jsonb" else oids.JSON
    placeholder = CaseTestExpr(made)
    coercion = cast_result(scope, placeholder, returning)
    return JsonConstructorExpr(
        returning.type,
        typmod=returning.typmod,
        location=location,
        function=function,
        args=tuple(args),
        aggregate=aggregate,
        coercion=None if coercion is placeholder else coercion,
        binary=returning.format == "jsonb",
        absent_on_null=absent,
        unique=unique,
    )


# --- constructors -------------------------------------------------------------------------------------------------


@singledispatch
def transform_json(node: nodes.SqlJsonExpr, scope: Scope) -> Expr:
    from pgrepl.expr.json_queries import query_function

    assert isinstance(node, nodes.JsonFuncExpr)
    return query_function(node, scope)


@transform_json.register
def _(node: nodes.JsonObjectExpr, scope: Scope) -> Expr:
    args: list[Expr] = []
    for pair in node.pairs:
        args += (transform_expr(pair.key, scope), value_of(scope, "JSON_OBJECT()", pair.value, ""))
    returning = _constructed(scope, node.output, args)
    return _constructor(
        scope, "JSON_OBJECT", args, returning, node.location, unique=node.unique, absent=node.absent_on_null
    )


@transform_json.register
def _(node: nodes.JsonArrayExpr, scope: Scope) -> Expr:
    args = [value_of(scope, "JSON_ARRAY()", value, "") for value in node.values]
    returning = _constructed(scope, node.output, args)
    return _constructor(scope, "JSON_ARRAY", args, returning, node.location, absent=node.absent_on_null)


@transform_json.register
def _(node: nodes.JsonArrayQuery, scope: Scope) -> Expr:
    """JSON_ARRAY(query) is (SELECT JSON_ARRAYAGG(a) FROM (query) AS q(a))."""
    from pgrepl.expr.query import analyze_subquery

    assert isinstance(node.query, nodes.SelectStmt)
    if len(analyze_subquery(node.query, scope).columns) != 1:
        raise PgError("42601", "subquery must return only one column", location=node.location)
    column = nodes.JsonValue(nodes.ColumnRef(("q", "a"), node.location), node.format)
    gathered = nodes.JsonAggregate(column, absent_on_null=True, output=node.output, location=node.location)
    select = nodes.SelectStmt(
        targets=(nodes.ResTarget(gathered),), from_=(nodes.RangeSubselect(node.query, nodes.Alias("q", ("a",))),)
    )
    return transform_expr(nodes.SubLink(SubLinkType.EXPR, None, (), select, node.location), scope)


@transform_json.register
def _(node: nodes.JsonAggregate, scope: Scope) -> Expr:
    """As transformJsonObjectAgg, transformJsonArrayAgg and transformJsonAggConstructor do."""
    function = "JSON_ARRAYAGG" if node.key is None else "JSON_OBJECTAGG"
    keys = [] if node.key is None else [transform_expr(node.key, scope)]
    args = [*keys, value_of(scope, function + "()", node.value, "")]
    returning = _constructed(scope, node.output, args)
    name = "jsonb" if returning.format == "jsonb" else "json"
    name += "_agg" if node.key is None else "_object_agg"
    name += "_unique" if node.unique else ""
    name += "_strict" if node.absent_on_null else ""
    (proc,) = builtin.procs_by_name(name)
    condition = None
    if node.agg_filter is not None:
        condition = analyze_where(scope, node.agg_filter, ExprKind.FILTER, "FILTER")
    aggregate: Expr
    if node.over is None:
        call = nodes.FuncCall(("pg_catalog", name), agg_order=node.order, location=node.location)
        aggregate = make_aggregate(scope, call, proc, proc.rettype, args, condition, False, False)
    else:
        if node.order:
            message = "aggregate ORDER BY is not implemented for window functions"
            raise PgError("0A000", message, location=node.location)
        window = WindowFunc(
            proc.rettype, location=node.location, func=proc.oid, args=tuple(args), filter=condition, is_aggregate=True
        )
        aggregate = place_window_function(scope, window, node.over)
    return _constructor(
        scope,
        function,
        (),
        returning,
        node.location,
        aggregate=aggregate,
        unique=node.unique,
        absent=node.absent_on_null,
    )


_JSON = Returning(oids.JSON, format="json")


@transform_json.register
def _(node: nodes.JsonParseExpr, scope: Scope) -> Expr:
    if not node.unique:
        arg = value_of(scope, "JSON()", node.value, "json", oids.JSON)
    else:
        arg, typoid = _document(scope, node.value.raw, node.value.format)
        if typoid != oids.TEXT:
            message = "cannot use non-string types with WITH UNIQUE KEYS clause"
            raise PgError("42804", message, location=node.location)
    return _constructor(scope, "JSON", (arg,), _JSON, node.location, unique=node.unique)


@transform_json.register
def _(node: nodes.JsonScalarExpr, scope: Scope) -> Expr:
    arg = transform_expr(node.arg, scope)
    if arg.type == oids.UNKNOWN:
        arg = coerce_to_specific(scope, arg, oids.TEXT, "JSON_SCALAR")
    return _constructor(scope, "JSON_SCALAR", (arg,), _JSON, node.location)


@transform_json.register
def _(node: nodes.JsonSerializeExpr, scope: Scope) -> Expr:
    arg = value_of(scope, "JSON_SERIALIZE()", node.value, "json")
    returning = returning_of(scope, node.output, any_type=True)
    if not returning.type:
        returning = Returning(oids.TEXT, format="json")
    elif returning.type != oids.BYTEA and typefacts.category(returning.type) != typefacts.STRING_CATEGORY:
        text = typefacts.type_text(scope.session, returning.type)
        message = f"cannot use type {text} in RETURNING clause of JSON_SERIALIZE()"
        raise PgError("42804", message, hint="Try returning a string type or bytea.")
    return _constructor(scope, "JSON_SERIALIZE", (arg,), returning, node.location)


# --- IS JSON ------------------------------------------------------------------------------------------------------


@transform_json.register
def _(node: nodes.JsonIsPredicate, scope: Scope) -> Expr:
    arg, typoid = _document(scope, node.arg, None)
    if typoid not in (oids.TEXT, oids.JSON, oids.JSONB):
        text = typefacts.type_text(scope.session, typoid)
        raise PgError("42804", f"cannot use type {text} in IS JSON predicate")
    return JsonIsPredicate(oids.BOOL, arg=arg, kind=node.kind, unique=node.unique, location=node.location)


def _document(scope: Scope, raw: nodes.Expr, given: nodes.JsonFormat | None) -> tuple[Expr, int]:
    """A document and its type; a string is text (transformJsonParseArg)."""
    expr = transform_expr(raw, scope)
    if expr.type == oids.BYTEA:
        text = _text_of_bytes(expr, given)
        return JsonValueExpr(oids.TEXT, raw=expr, formatted=text, format=format_text(given)), oids.TEXT
    typoid = expr.type
    if typoid == oids.UNKNOWN or typefacts.category(typoid) == typefacts.STRING_CATEGORY:
        cast = coerce_to_target(scope, expr, typoid, oids.TEXT, -1, Context.IMPLICIT, IMPLICIT_CAST, -1)
        assert cast is not None
        expr, typoid = cast, oids.TEXT
    if given is not None and given.encoding is not None:
        message = "cannot use JSON FORMAT ENCODING clause for non-bytea input types"
        raise PgError("42804", message, location=given.location)
    return expr, typoid
