"""SQL/JSON as text."""

from __future__ import annotations

from collections.abc import Iterable

from pgrepl.sql.deparse.common import deparse, listed
from pgrepl.sql.nodes import (
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
    Node,
)
from pgrepl.sql.quote import quote_identifier, quote_literal


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
