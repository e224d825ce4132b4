"""JSON_EXISTS, JSON_QUERY and JSON_VALUE (transformJsonFuncExpr), also as columns of JSON_TABLE; FORMAT and
RETURNING.
"""

from __future__ import annotations

from dataclasses import dataclass

from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import Context, type_of_name
from pgrepl.expr.analyse.coerce import IMPLICIT_CAST, coerce_to_specific, coerce_to_target
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.transform import transform_expr
from pgrepl.expr.walk import children, location_of, returns_set, walk_deep
from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.sql.nodes import CoercionForm
from pgrepl.types import builtin, oids
from pgrepl.types.json import Jsonb

_CONVERT_FROM, _TO_JSON, _TO_JSONB = 1714, 3176, 3787
# values of these types go into a path as they are (JsonItemFromDatum)
_PATH_VALUES = frozenset(
    {
        oids.BOOL, oids.NUMERIC, oids.INT2, oids.INT4, oids.INT8, oids.FLOAT4, oids.FLOAT8, oids.TEXT, oids.VARCHAR,
        oids.DATE, oids.TIME, oids.TIMETZ, oids.TIMESTAMP, oids.TIMESTAMPTZ,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Returning:
    """The RETURNING clause of a function. type 0: there is none. format is "", json or jsonb."""

    type: int
    typmod: int = -1
    format: str = ""
    encoding: str | None = None


# --- values and formats -------------------------------------------------------------------------------------------


def value_of(
    scope: Scope, construct: str, value: nodes.JsonValue, format: str, target: int = 0, *, passing: bool = False
) -> tree.Expr:
    """A value, made json or jsonb where its format asks for it (transformJsonValueExpr)."""
    raw = transform_expr(value.raw, scope)
    if raw.type == oids.UNKNOWN:
        raw = coerce_to_specific(scope, raw, oids.TEXT, construct)
    given = value.format
    is_string = lookup.category(raw.type) == lookup.STRING_CATEGORY
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
        expr = text_of_bytes(raw, given)
    wanted = target or (oids.JSONB if format == "jsonb" else oids.JSON)
    formatted = _made_json(scope, expr, wanted, cast_only=bool(target))
    if formatted is expr:
        return raw
    return tree.JsonValueExpr(formatted.type, raw=raw, formatted=formatted, format=format_text(given))


def _made_json(scope: Scope, expr: tree.Expr, target: int, *, cast_only: bool) -> tree.Expr:
    at = location_of(expr)
    cast = coerce_to_target(scope, expr, expr.type, target, -1, Context.EXPLICIT, CoercionForm.EXPLICIT_CAST, at)
    if cast is not None:
        return cast
    if cast_only:
        one, other = lookup.type_text(scope.session, expr.type), lookup.type_text(scope.session, target)
        raise PgError("42846", f"cannot cast type {one} to {other}", location=at)
    return tree.FuncExpr(target, location=at, func=_TO_JSON if target == oids.JSON else _TO_JSONB, args=(expr,))


def format_text(given: nodes.JsonFormat | None) -> str:
    if given is None:
        return ""
    return " FORMAT JSON" + (f" ENCODING {given.encoding}" if given.encoding is not None else "")


def _encoding(given: nodes.JsonFormat | None) -> tree.Const:
    name = given.encoding if given is not None and given.encoding is not None else "UTF8"
    return tree.Const(oids.NAME, value=name)


def text_of_bytes(expr: tree.Expr, given: nodes.JsonFormat | None) -> tree.Expr:
    """A bytea as text in the encoding that FORMAT JSON names (makeJsonByteaToTextConversion)."""
    return tree.FuncExpr(oids.TEXT, location=location_of(expr), func=_CONVERT_FROM, args=(expr, _encoding(given)))


def returning_of(scope: Scope, output: nodes.JsonOutput | None, *, any_type: bool) -> Returning:
    """The type and form that RETURNING asks for (transformJsonOutput). any_type: FORMAT may stand with types that are
    no strings."""
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
        if lookup.category(typoid) != lookup.STRING_CATEGORY:
            message = "cannot use JSON format with non-string output types"
            raise PgError("22023", message, location=given.location)
    if given.encoding is not None and typoid != oids.BYTEA:
        raise PgError("0A000", "cannot set JSON encoding for non-bytea output types", location=given.location)
    if given.encoding not in (None, "UTF8"):
        hint = "Only UTF8 JSON encoding is supported."
        raise PgError("0A000", "unsupported JSON encoding", hint=hint, location=given.location)
    return Returning(typoid, typmod, "json", given.encoding)


# --- json queries -----------------------------------------------------------------------------------------------------


_ALLOWED = {
    "JSON_QUERY": ("ERROR", "NULL", "EMPTY ARRAY", "EMPTY OBJECT", "DEFAULT"),
    "JSON_VALUE": ("ERROR", "NULL", "DEFAULT"),
    "JSON_EXISTS": ("ERROR", "TRUE", "FALSE", "UNKNOWN"),
}
_WORDS = {
    "JSON_QUERY": "ERROR, NULL, EMPTY ARRAY, EMPTY OBJECT, or DEFAULT expression",
    "JSON_VALUE": "ERROR, NULL, or DEFAULT expression",
    "JSON_EXISTS": "ERROR, TRUE, FALSE, or UNKNOWN",
}
_COLUMNS = {"JSON_QUERY": "formatted", "JSON_VALUE": "scalar", "JSON_EXISTS": "EXISTS"}
_DEFAULT_TYPES = {"JSON_EXISTS": oids.BOOL, "JSON_QUERY": oids.JSONB, "JSON_VALUE": oids.TEXT, "JSON_TABLE": oids.JSONB}


def query_function(node: nodes.JsonFuncExpr, scope: Scope, context: tree.Expr | None = None) -> tree.Expr:
    """context: the value that a column of JSON_TABLE looks at."""
    _check(node)
    function = node.function
    if context is None:
        format = "jsonb" if function in ("JSON_QUERY", "JSON_TABLE") else ""
        context = value_of(scope, function, node.context, format, oids.JSONB)
    path = _path(scope, node.path)
    passing = tuple(
        assign_collations(value_of(scope, function, argument.value, "jsonb", passing=True)) for argument in node.passing
    )
    returning = returning_of(scope, node.output, any_type=False)
    if not returning.type:
        returning = Returning(_DEFAULT_TYPES[function], format="jsonb")
    typoid, typmod = returning.type, returning.typmod
    omit_quotes = function == "JSON_VALUE" or node.quotes == "OMIT"
    coercion = ""
    is_other = typoid != oids.JSONB or omit_quotes
    if (function == "JSON_EXISTS" and typoid != oids.BOOL) or (function == "JSON_QUERY" and is_other):
        coercion = "json"
    elif function == "JSON_VALUE" and typoid != oids.TEXT:
        known = builtin.type_by_oid(typoid)
        coercion = "json" if known is not None and known.typtype == "d" else "io"
    otherwise = {"JSON_EXISTS": "FALSE", "JSON_TABLE": "EMPTY ARRAY"}.get(function, "NULL")
    on_error, error_value, error_coerced = _behavior(scope, node.on_error, otherwise, returning)
    on_empty: str = ""
    empty_value: tree.Expr | None = None
    empty_coerced = False
    if function in ("JSON_QUERY", "JSON_VALUE"):
        on_empty, empty_value, empty_coerced = _behavior(scope, node.on_empty, "NULL", returning)
    return tree.JsonExpr(
        typoid,
        typmod=typmod,
        collation=lookup.collation(typoid),
        location=node.location,
        function=function,
        context=assign_collations(context),
        path=path,
        passing=passing,
        names=tuple(argument.name for argument in node.passing),
        binary=returning.format == "jsonb",
        coercion=coercion,
        wrapper=node.wrapper if node.wrapper != "NONE" else "",
        omit_quotes=omit_quotes,
        on_empty=on_empty,
        empty_value=empty_value,
        empty_coerced=empty_coerced,
        on_error=on_error,
        error_value=error_value,
        error_coerced=error_coerced,
        column=node.column or "",
    )


def _check(node: nodes.JsonFuncExpr) -> None:
    """Refuse clauses that do not go with the function."""
    function = node.function
    given = node.output.format if node.output is not None else None
    if given is not None and function != "JSON_QUERY":
        message = f"cannot specify FORMAT JSON in RETURNING clause of {function}()"
        raise PgError("42601", message, location=given.location)
    if function == "JSON_QUERY" and node.quotes == "OMIT" and node.wrapper not in ("", "NONE"):
        message = "SQL/JSON QUOTES behavior must not be specified when WITH WRAPPER is used"
        raise PgError("42601", message, location=node.location)
    for clause, behavior in (("ON EMPTY", node.on_empty), ("ON ERROR", node.on_error)):
        if behavior is None or function not in _ALLOWED or behavior.kind in _ALLOWED[function]:
            continue
        if node.column is None:
            message, where = f"invalid {clause} behavior", f"{function}()"
        else:
            message = f'invalid {clause} behavior for column "{node.column}"'
            where = f"{_COLUMNS[function]} columns"
        detail = f"Only {_WORDS[function]} is allowed in {clause} for {where}."
        raise PgError("42601", message, detail=detail, location=behavior.location)


def _path(scope: Scope, raw: nodes.Expr) -> tree.Expr:
    path = transform_expr(raw, scope)
    at = location_of(path)
    cast = coerce_to_target(scope, path, path.type, oids.JSONPATH, -1, Context.EXPLICIT, IMPLICIT_CAST, at)
    if cast is None:
        text = lookup.type_text(scope.session, path.type)
        message = f"JSON path expression must be of type jsonpath, not of type {text}"
        raise PgError("42804", message, location=at)
    return assign_collations(cast)


# --- ON EMPTY, ON ERROR -------------------------------------------------------------------------------------------

_CONSTANTS: dict[str, tree.Const] = {
    "NULL": tree.Const(oids.INT4),
    "UNKNOWN": tree.Const(oids.INT4),
    "TRUE": tree.Const(oids.BOOL, value=True),
    "FALSE": tree.Const(oids.BOOL, value=False),
    "EMPTY ARRAY": tree.Const(oids.JSONB, value=Jsonb("[]")),
    "EMPTY OBJECT": tree.Const(oids.JSONB, value=Jsonb("{}")),
}


def _behavior(
    scope: Scope, behavior: nodes.JsonBehavior | None, otherwise: str, returning: Returning
) -> tuple[str, tree.Expr | None, bool]:
    """The words of a clause, its value, and whether that is cast at runtime (transformJsonBehavior)."""
    kind = behavior.kind if behavior is not None else otherwise
    if kind == "ERROR":
        return kind, None, False
    if behavior is not None and behavior.default is not None:
        expr = _default(scope, behavior.default)
    else:
        expr = _CONSTANTS[kind]
    if expr.type == returning.type:
        return kind, assign_collations(expr), False
    is_null = isinstance(expr, tree.Const) and expr.value is None
    to_integer = lookup.base(returning.type) == oids.INT4
    if is_null or expr.type == oids.JSONB or (expr.type == oids.BOOL and not to_integer):
        if expr.type == oids.BOOL:
            expr = tree.Const(oids.JSONB, value=Jsonb("true" if kind == "TRUE" else "false"))
        return kind, expr, True
    at = behavior.location if behavior is not None else -1
    is_text = lookup.category(returning.type) in (lookup.STRING_CATEGORY, "V")
    context = Context.ASSIGNMENT if is_text else Context.EXPLICIT
    cast = coerce_to_target(
        scope, expr, expr.type, returning.type, returning.typmod, context, CoercionForm.EXPLICIT_CAST, at
    )
    if cast is None:
        one, other = lookup.type_text(scope.session, expr.type), lookup.type_text(scope.session, returning.type)
        hint = f"You will need to explicitly cast the expression to type {other}." if kind == "DEFAULT" else None
        message = f"cannot cast behavior expression of type {one} to {other}"
        raise PgError("42846", message, hint=hint, location=location_of(expr))
    return kind, assign_collations(cast), False


_PASSED = (tree.RelabelType, tree.CoerceViaIO, tree.ArrayCoerceExpr, tree.CollateExpr)


def _default(scope: Scope, raw: nodes.Expr) -> tree.Expr:
    expr = transform_expr(raw, scope)
    if not _is_plain(expr):
        problem = "can only specify a constant, non-aggregate function, or operator expression for DEFAULT"
        raise PgError("42804", problem, location=location_of(expr))
    if any(isinstance(node, tree.Var) and node.levelsup == level for node, level in walk_deep(expr)):
        problem = "DEFAULT expression must not contain column references"
        raise PgError("42804", problem, location=location_of(expr))
    if returns_set(expr):
        raise PgError("42804", "DEFAULT expression must not return a set", location=location_of(expr))
    return expr


def _is_plain(expr: tree.Expr) -> bool:
    """As ValidJsonBehaviorDefaultExpr does; of what is cast any part may decide."""
    if isinstance(expr, (tree.Const, tree.FuncExpr, tree.OpExpr)):
        return True
    return isinstance(expr, _PASSED) and any(_is_plain(child) for child in children(expr))
