"""CREATE VIEW."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.errors import PgError
from pgrepl.sql.build import build
from pgrepl.sql.nodes import (
    ColumnRef,
    CommonTableExpr,
    DefElem,
    RangeVar,
    ResTarget,
    SelectStmt,
    ViewStmt,
    WithClause,
)


@build
def create_view(
    location: int,
    persistence: str,
    relation: RangeVar,
    columns: list[str] | None,
    options: list[DefElem],
    query: SelectStmt,
    check_option: str | None,
) -> ViewStmt:
    return ViewStmt(
        replace(relation, persistence=persistence),
        tuple(columns or ()),
        query,
        options=tuple(options),
        check_option=check_option,
    )


@build
def create_or_replace_view(
    location: int,
    persistence: str,
    relation: RangeVar,
    columns: list[str] | None,
    options: list[DefElem],
    query: SelectStmt,
    check_option: str | None,
) -> ViewStmt:
    view = create_view(location, persistence, relation, columns, options, query, check_option)
    return replace(view, replace=True)


@build(at=10)
def create_recursive_view(
    location: int,
    persistence: str,
    relation: RangeVar,
    columns: list[str],
    options: list[DefElem],
    query: SelectStmt,
    check_option: str | None,
) -> ViewStmt:
    if check_option is not None:
        raise PgError("0A000", "WITH CHECK OPTION not supported on recursive views", location=location)
    query = _recursive_query(relation.name, columns, query)
    view = create_view(location, persistence, relation, columns, options, query, check_option)
    return replace(view, recursive=True)


@build(at=12)
def create_or_replace_recursive_view(
    location: int,
    persistence: str,
    relation: RangeVar,
    columns: list[str],
    options: list[DefElem],
    query: SelectStmt,
    check_option: str | None,
) -> ViewStmt:
    view = create_recursive_view(location, persistence, relation, columns, options, query, check_option)
    return replace(view, replace=True)


def _recursive_query(name: str, columns: list[str], query: SelectStmt) -> SelectStmt:
    """CREATE RECURSIVE VIEW's query: WITH RECURSIVE name (columns) AS (query) SELECT columns FROM name (as
    makeRecursiveViewSelect does)."""
    return SelectStmt(
        targets=tuple(ResTarget(ColumnRef((column,))) for column in columns),
        from_=(RangeVar(name),),
        with_=WithClause((CommonTableExpr(name, tuple(columns), query),), recursive=True),
    )


@build
def check_option_cascaded(location: int) -> str:
    return "CASCADED"


@build
def check_option_local(location: int) -> str:
    return "LOCAL"
