"""SQL/XML: unsupported nodes that keep their kind and their argument expressions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pgrepl.errors import PgError
from pgrepl.sql.build import build
from pgrepl.sql.nodes import (
    Alias,
    DefElem,
    Expr,
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
    "xmlconcat", "xmlelement", "xmlexists", "xmlforest", "xmlparse", "xmlpi", "xmlroot", "xmlserialize",
):  # fmt: skip
    _unsupported(_name, _name.upper())


# ------------------------------------------------------------------------------------------------ in FROM


@build
def xmltable(location: int, *children: Any) -> UnsupportedFromItem:
    return UnsupportedFromItem("XMLTABLE", tuple(_expressions(children)), location=location)


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
