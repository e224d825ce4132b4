"""The values that SQL/JSON's expressions take, and what they return: FORMAT and RETURNING."""

from __future__ import annotations

from dataclasses import dataclass

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.casts import Context
from pgrepl.expr.coerce import coerce_to_specific, coerce_to_target
from pgrepl.expr.scope import Scope
from pgrepl.expr.transform import transform_expr
from pgrepl.expr.tree import Const, Expr, FuncExpr, JsonValueExpr
from pgrepl.expr.typenames import type_of_name
from pgrepl.expr.walk import location_of
from pgrepl.sql import nodes
from pgrepl.sql.nodes import CoercionForm
from pgrepl.types import builtin, oids

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
        expr = text_of_bytes(raw, given)
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


def text_of_bytes(expr: Expr, given: nodes.JsonFormat | None) -> Expr:
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
