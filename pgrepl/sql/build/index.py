"""CREATE INDEX."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.frozen import frozen
from pgrepl.sql.build import build
from pgrepl.sql.build.names import Names
from pgrepl.sql.nodes import DefElem, Expr, IndexElem, IndexStmt, NullsOrder, RangeVar, SortDir


@frozen
class _Options:
    """The part behind an index element: collation, operator class, direction."""

    collation: Names
    opclass: Names
    opclass_options: tuple[DefElem, ...]
    dir: SortDir
    nulls: NullsOrder


@build
def btree(location: int) -> str:
    return "btree"


@build
def index_element_options(
    location: int, collation: Names | None, opclass: Names | None, direction: SortDir, nulls: NullsOrder
) -> _Options:
    return _Options(collation or (), opclass or (), (), direction, nulls)


@build
def index_element_options_of_class(
    location: int,
    collation: Names | None,
    opclass: Names,
    options: list[DefElem],
    direction: SortDir,
    nulls: NullsOrder,
) -> _Options:
    return _Options(collation or (), opclass, tuple(options), direction, nulls)


def _element(name: str | None, expr: Expr | None, options: _Options, location: int) -> IndexElem:
    return IndexElem(
        name,
        expr,
        options.collation,
        options.opclass,
        options.opclass_options,
        options.dir,
        options.nulls,
        location,
    )


@build
def index_column(location: int, name: str, options: _Options) -> IndexElem:
    return _element(name, None, options, location)


@build
def index_expression(location: int, expr: Expr, options: _Options) -> IndexElem:
    return _element(None, expr, options, location)


@build
def index_definition(
    location: int,
    relation: RangeVar,
    method: str,
    elements: list[IndexElem],
    including: list[IndexElem],
    nulls_not_distinct: bool,
    options: list[DefElem],
    tablespace: str | None,
    where: Expr | None,
) -> IndexStmt:
    return IndexStmt(
        None,
        relation,
        tuple(elements),
        method=method,
        including=tuple(including),
        nulls_not_distinct=nulls_not_distinct,
        where=where,
        options=tuple(options),
        tablespace=tablespace,
    )


@build
def create_index(location: int, unique: bool, concurrently: bool, name: str | None, definition: IndexStmt) -> IndexStmt:
    return replace(definition, name=name, unique=unique, concurrently=concurrently)


@build
def create_index_if_not_exists(
    location: int, unique: bool, concurrently: bool, name: str, definition: IndexStmt
) -> IndexStmt:
    return replace(definition, name=name, unique=unique, concurrently=concurrently, if_not_exists=True)
