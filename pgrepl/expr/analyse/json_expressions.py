"""SQL/JSON's expressions: constructors, aggregates, IS JSON and query functions (the JSON part of parse_expr.c)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.aggregates import make_aggregate, place_window_function
from pgrepl.expr.analyse.casts import Context
from pgrepl.expr.analyse.coerce import IMPLICIT_CAST, coerce_to_specific, coerce_to_target, coercion_location
from pgrepl.expr.analyse.json_queries import (
    Returning,
    format_text,
    query_function,
    returning_of,
    text_of_bytes,
    value_of,
)
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.queries.query import analyze_subquery
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.transform import analyze_where, transform_expr
from pgrepl.expr.walk import location_of
from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.sql.nodes import SubLinkType
from pgrepl.types import builtin, oids

_CONVERT_TO = 1717


def _constructed(scope: Scope, output: nodes.JsonOutput | None, args: Sequence[tree.Expr]) -> Returning:
    """The type that a constructor returns; without RETURNING jsonb if an argument is jsonb, else json."""
    returning = returning_of(scope, output, any_type=True)
    if returning.type:
        return returning
    if any(arg.type == oids.JSONB for arg in args):
        return Returning(oids.JSONB, format="jsonb")
    return Returning(oids.JSON, format="json")


def cast_result(scope: Scope, expr: tree.Expr, returning: Returning) -> tree.Expr:
    """The result of a JSON constructor cast to what RETURNING says (coerceJsonFuncExpr)."""
    at = location_of(expr)
    if returning.format == "json" and returning.type == oids.BYTEA:
        text = coerce_to_specific(scope, expr, oids.TEXT, "JSON_FUNCTION")
        encoding = tree.Const(oids.NAME, value=returning.encoding or "UTF8")
        return tree.FuncExpr(oids.BYTEA, location=at, func=_CONVERT_TO, args=(text, encoding))
    cast = coerce_to_target(
        scope, expr, expr.type, returning.type, returning.typmod, Context.ASSIGNMENT, IMPLICIT_CAST, at
    )
    if cast is None:
        one, other = lookup.type_text(scope.session, expr.type), lookup.type_text(scope.session, returning.type)
        raise PgError("42846", f"cannot cast type {one} to {other}", location=coercion_location(at, expr))
    return cast


def _constructor(
    scope: Scope,
    function: str,
    args: Sequence[tree.Expr],
    returning: Returning,
    location: int,
    *,
    aggregate: tree.Expr | None = None,
    unique: bool = False,
    absent: bool = False,
) -> tree.Expr:
    """The node of a JSON constructor (makeJsonConstructorExpr)."""
    typoid = aggregate.type if aggregate is not None else oids.JSONB if returning.format == "jsonb" else oids.JSON
    placeholder = tree.CaseTestExpr(typoid)
    coercion = cast_result(scope, placeholder, returning)
    return tree.JsonConstructorExpr(
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
def transform_json(node: nodes.SqlJsonExpr, scope: Scope) -> tree.Expr:
    assert isinstance(node, nodes.JsonFuncExpr)
    return query_function(node, scope)


@transform_json.register
def _(node: nodes.JsonObjectExpr, scope: Scope) -> tree.Expr:
    args: list[tree.Expr] = []
    for pair in node.pairs:
        args += (transform_expr(pair.key, scope), value_of(scope, "JSON_OBJECT()", pair.value, ""))
    returning = _constructed(scope, node.output, args)
    return _constructor(
        scope, "JSON_OBJECT", args, returning, node.location, unique=node.unique, absent=node.absent_on_null
    )


@transform_json.register
def _(node: nodes.JsonArrayExpr, scope: Scope) -> tree.Expr:
    args = [value_of(scope, "JSON_ARRAY()", value, "") for value in node.values]
    returning = _constructed(scope, node.output, args)
    return _constructor(scope, "JSON_ARRAY", args, returning, node.location, absent=node.absent_on_null)


@transform_json.register
def _(node: nodes.JsonArrayQuery, scope: Scope) -> tree.Expr:
    """JSON_ARRAY(query) is (SELECT JSON_ARRAYAGG(a) FROM (query) AS q(a))."""
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
def _(node: nodes.JsonAggregate, scope: Scope) -> tree.Expr:
    """JSON_OBJECTAGG and JSON_ARRAYAGG call the aggregate that does what their clauses ask (transformJsonObjectAgg,
    transformJsonArrayAgg, transformJsonAggConstructor)."""
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
    aggregate: tree.Expr
    if node.over is None:
        call = nodes.FuncCall(("pg_catalog", name), agg_order=node.order, location=node.location)
        aggregate = make_aggregate(scope, call, proc, proc.rettype, args, condition, False, False)
    else:
        if node.order:
            message = "aggregate ORDER BY is not implemented for window functions"
            raise PgError("0A000", message, location=node.location)
        window = tree.WindowFunc(
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
def _(node: nodes.JsonParseExpr, scope: Scope) -> tree.Expr:
    if not node.unique:
        arg = value_of(scope, "JSON()", node.value, "json", oids.JSON)
    else:
        arg, typoid = _document(scope, node.value.raw, node.value.format)
        if typoid != oids.TEXT:
            message = "cannot use non-string types with WITH UNIQUE KEYS clause"
            raise PgError("42804", message, location=node.location)
    return _constructor(scope, "JSON", (arg,), _JSON, node.location, unique=node.unique)


@transform_json.register
def _(node: nodes.JsonScalarExpr, scope: Scope) -> tree.Expr:
    arg = transform_expr(node.arg, scope)
    if arg.type == oids.UNKNOWN:
        arg = coerce_to_specific(scope, arg, oids.TEXT, "JSON_SCALAR")
    return _constructor(scope, "JSON_SCALAR", (arg,), _JSON, node.location)


@transform_json.register
def _(node: nodes.JsonSerializeExpr, scope: Scope) -> tree.Expr:
    arg = value_of(scope, "JSON_SERIALIZE()", node.value, "json")
    returning = returning_of(scope, node.output, any_type=True)
    if not returning.type:
        returning = Returning(oids.TEXT, format="json")
    elif returning.type != oids.BYTEA and lookup.category(returning.type) != lookup.STRING_CATEGORY:
        text = lookup.type_text(scope.session, returning.type)
        message = f"cannot use type {text} in RETURNING clause of JSON_SERIALIZE()"
        raise PgError("42804", message, hint="Try returning a string type or bytea.")
    return _constructor(scope, "JSON_SERIALIZE", (arg,), returning, node.location)


# --- IS JSON ------------------------------------------------------------------------------------------------------


@transform_json.register
def _(node: nodes.JsonIsPredicate, scope: Scope) -> tree.Expr:
    arg, typoid = _document(scope, node.arg, None)
    if typoid not in (oids.TEXT, oids.JSON, oids.JSONB):
        text = lookup.type_text(scope.session, typoid)
        raise PgError("42804", f"cannot use type {text} in IS JSON predicate")
    return tree.JsonIsPredicate(oids.BOOL, arg=arg, kind=node.kind, unique=node.unique, location=node.location)


def _document(scope: Scope, raw: nodes.Expr, given: nodes.JsonFormat | None) -> tuple[tree.Expr, int]:
    """A document and its type; a string is text (transformJsonParseArg)."""
    expr = transform_expr(raw, scope)
    if expr.type == oids.BYTEA:
        text = text_of_bytes(expr, given)
        return tree.JsonValueExpr(oids.TEXT, raw=expr, formatted=text, format=format_text(given)), oids.TEXT
    typoid = expr.type
    if typoid == oids.UNKNOWN or lookup.category(typoid) == lookup.STRING_CATEGORY:
        cast = coerce_to_target(scope, expr, typoid, oids.TEXT, -1, Context.IMPLICIT, IMPLICIT_CAST, -1)
        assert cast is not None
        expr, typoid = cast, oids.TEXT
    if given is not None and given.encoding is not None:
        message = "cannot use JSON FORMAT ENCODING clause for non-bytea input types"
        raise PgError("42804", message, location=given.location)
    return expr, typoid
