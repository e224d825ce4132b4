"""Expressions and assignments in PL/pgSQL."""

from __future__ import annotations

from typing import Any

from pgrepl.sql.build import build
from pgrepl.sql.build.query import with_options
from pgrepl.sql.build.select import select, select_distinct
from pgrepl.sql.nodes import Expr, PlAssign, SelectStmt


@build
def plpgsql_expression(location: int, distinct: list[Expr] | None, targets: Any, *rest: Any) -> SelectStmt:
    *clauses, order, limit, locks = rest
    parts = (targets, None, *clauses)
    query = select(location, *parts) if distinct is None else select_distinct(location, distinct, *parts)
    return with_options(query, order, locks, limit)


@build
def plpgsql_parameter(location: int, number: int) -> str:
    return f"${number}"


@build
def plpgsql_assignment(location: int, name: str, indirection: list[object], _: None, query: SelectStmt) -> PlAssign:
    return PlAssign(name, tuple(indirection), query, location)
