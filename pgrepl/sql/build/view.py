"""CREATE VIEW, CREATE MATERIALIZED VIEW and REFRESH MATERIALIZED VIEW."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.errors import PgError
from pgrepl.sql.build import build
from pgrepl.sql.build.table import NewRelation, Tail
from pgrepl.sql.nodes import (
    ColumnRef,
    CommonTableExpr,
    CreateTableAsStmt,
    DefElem,
    ObjectType,
    RangeVar,
    RefreshMatViewStmt,
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


# ------------------------------------------------------------------------------------------------ materialized views


@build
def materialized_view_tail(
    location: int, access_method: str | None, options: list[DefElem], tablespace: str | None
) -> Tail:
    return Tail(access_method, tuple(options), None, tablespace)


@build
def create_materialized_view(
    location: int,
    persistence: str,
    target: tuple[NewRelation, list[str] | None, Tail],
    query: SelectStmt,
    with_data: bool,
) -> CreateTableAsStmt:
    (relation, if_not_exists), columns, tail = target
    return CreateTableAsStmt(
        replace(relation, persistence=persistence),
        tuple(columns or ()),
        query,
        with_data,
        if_not_exists,
        ObjectType.MATVIEW,
        options=tail.options,
        tablespace=tail.tablespace,
        access_method=tail.access_method,
    )


@build
def refresh_materialized_view(
    location: int, concurrently: bool, relation: RangeVar, with_data: bool
) -> RefreshMatViewStmt:
    return RefreshMatViewStmt(relation, concurrently, with_data)
