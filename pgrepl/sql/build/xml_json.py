"""SQL/XML and SQL/JSON: unsupported nodes that keep their kind and their argument expressions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pgrepl.errors import PgError
from pgrepl.sql.build import build
from pgrepl.sql.nodes import (
    AConst,
    AConstKind,
    Alias,
    CoercionForm,
    DefElem,
    Expr,
    FuncCall,
    TypeName,
    UnsupportedExpr,
    UnsupportedFromItem,
)


def _expressions(children: Iterable[Any]) -> Iterator[Expr]:
    for child in children:
        if isinstance(child, Expr):
            yield child
        elif isinstance(child, (list, tuple)):
            yield from _expressions(child)


def _unsupported(name: str, what: str) -> None:
    @build(name)
    def unsupported(location: int, *children: Any) -> UnsupportedExpr:
        return UnsupportedExpr(what, tuple(_expressions(children)), location)


for _name in (
    "xmlconcat", "xmlelement", "xmlexists", "xmlforest", "xmlparse", "xmlpi", "xmlroot", "xmlserialize", "json_object",
    "json_array", "json", "json_scalar", "json_serialize", "json_query", "json_exists", "json_objectagg",
    "json_arrayagg",
):  # fmt: skip
    _unsupported(_name, _name.upper())
_unsupported("json_value_call", "JSON_VALUE")


@build
def json_object_call(location: int, args: list[Expr]) -> FuncCall:
    """json_object(…) with plain arguments, which is an ordinary function call."""
    name = ("pg_catalog", "json_object")
    return FuncCall(name, tuple(args), form=CoercionForm.EXPLICIT_CALL, location=location)


@build("json_any", "unique_keys_short", "no_unique_keys_short", "no_key_uniqueness")
def nothing(location: int) -> None:
    """Grammar alternatives that only carry a precedence and have no value."""


@build
def json_encoding(location: int, name: str) -> None:
    if name.lower() not in ("utf8", "utf16", "utf32"):
        raise PgError("22023", f"unrecognized JSON encoding: {name}")


# ------------------------------------------------------------------------------------------------ in FROM


@build
def xmltable(location: int, *children: Any) -> UnsupportedFromItem:
    return UnsupportedFromItem("XMLTABLE", tuple(_expressions(children)), location=location)


@build
def json_path_expr(location: int, path: Expr) -> tuple[int, Expr]:
    return location, path


@build
def json_table(location: int, value: Any, path: tuple[int, Expr], *children: Any) -> UnsupportedFromItem:
    at, expression = path
    if not (isinstance(expression, AConst) and expression.kind is AConstKind.STRING):
        message = "only string constants are supported in JSON_TABLE path specification"
        raise PgError("0A000", message, location=at)
    return UnsupportedFromItem("JSON_TABLE", tuple(_expressions((value, expression, *children))), location=location)


@build
def xml_table(location: int, item: UnsupportedFromItem, alias: Alias | None) -> UnsupportedFromItem:
    return replace(item, alias=alias)


_NULLABILITY = "__pg__is_not_null"


@build
def xml_named_option(location: int, name: str, value: Expr) -> DefElem:
    if name == _NULLABILITY:
        raise PgError("42601", f'option name "{name}" cannot be used in XMLTABLE', location=location)
    return DefElem(name, value, location)


@build
def xml_default(location: int, value: Expr) -> DefElem:
    return DefElem("default", value, location)


@build
def xml_path(location: int, value: Expr) -> DefElem:
    return DefElem("path", value, location)


@build
def xml_null(location: int) -> DefElem:
    return DefElem(_NULLABILITY, None, location)


@build
def xml_column(location: int, name: str, type_name: TypeName, options: list[DefElem]) -> list[Any]:
    once = {
        "default": "only one DEFAULT value is allowed",
        "path": "only one PATH value per column is allowed",
        _NULLABILITY: f'conflicting or redundant NULL / NOT NULL declarations for column "{name}"',
    }
    seen = set()
    for option in options:
        if option.name not in once:
            raise PgError("42601", f'unrecognized column option "{option.name}"', location=option.location)
        if option.name in seen:
            raise PgError("42601", once[option.name], location=option.location)
        seen.add(option.name)
    return [option.value for option in options]
