"""The clauses around a SELECT (WITH, ORDER BY, LIMIT, locking), and expressions in PL/pgSQL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.sql.building import build
from pgrepl.sql.building.select import select, select_distinct
from pgrepl.sql.location import expr_location

# ------------------------------------------------------------------------------------------------ LIMIT


@build
def limit_comma(location: int, count: nodes.Expr, offset: nodes.Expr) -> nodes.SelectLimit:
    hint = "Use separate LIMIT and OFFSET clauses."
    raise PgError("42601", "LIMIT #,# syntax is not supported", hint=hint, location=location)


@build
def offset_rows(location: int, offset: nodes.Expr, _: None) -> nodes.Expr:
    return offset


# ------------------------------------------------------------------------------------------------ WITH


def with_(location: int, ctes: list[nodes.CommonTableExpr]) -> nodes.WithClause:
    return nodes.WithClause(tuple(ctes), False, location)


def cycle(
    location: int, columns: list[str], mark: str, value: nodes.Expr, default: nodes.Expr, path: str
) -> nodes.CTECycleClause:
    return nodes.CTECycleClause(tuple(columns), mark, path, value, default, location)


# ------------------------------------------------------------------------------------------------ whole queries


@build
def with_options(
    location: int,
    query: nodes.SelectStmt,
    order: list[nodes.SortBy] | None = None,
    locks: list[nodes.LockingClause] | None = None,
    limit: nodes.SelectLimit | None = None,
    with_: nodes.WithClause | None = None,
) -> nodes.SelectStmt:
    """A SELECT, VALUES or set operation with the clauses around it. A query in parentheses may have some already:
    `(SELECT a ORDER BY a) ORDER BY a` is an error (insertSelectOptions)."""
    changes: dict[str, Any] = {}
    if order:
        if query.order_by:
            raise _twice("ORDER BY clauses", expr_location(order))
        changes["order_by"] = tuple(order)
    if locks:
        changes["locking"] = query.locking + tuple(locks)
    if limit is not None:
        changes |= _limit_changes(query, limit, bool(order or query.order_by), changes.get("locking", query.locking))
    if with_ is not None:
        if query.with_ is not None:
            raise _twice("WITH clauses", with_.location)
        changes["with_"] = with_
    return replace(query, **changes)


def _limit_changes(
    query: nodes.SelectStmt, limit: nodes.SelectLimit, ordered: bool, locks: tuple[nodes.LockingClause, ...]
) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if limit.offset is not None:
        if query.offset is not None:
            raise _twice("OFFSET clauses", expr_location(limit.offset))
        changes["offset"] = limit.offset
    if limit.count is not None:
        if query.limit is not None:
            raise _twice("LIMIT clauses", expr_location(limit.count))
        changes["limit"] = limit.count
    if query.with_ties:
        raise _twice("limit options", -1)
    if limit.with_ties:
        if not ordered:
            raise PgError("42601", "WITH TIES cannot be specified without ORDER BY clause")
        if any(lock.wait == "SKIP LOCKED" for lock in locks):
            raise PgError("42601", "SKIP LOCKED and WITH TIES options cannot be used together")
        changes["with_ties"] = True
    return changes


def _twice(what: str, location: int) -> PgError:
    return PgError("42601", f"multiple {what} not allowed", location=location)


# --- fragment ---------------------------------------------------------------------------------------------------------


@build
def plpgsql_expression(location: int, distinct: list[nodes.Expr] | None, targets: Any, *rest: Any) -> nodes.SelectStmt:
    *clauses, order, limit, locks = rest
    parts = (targets, None, *clauses)
    query = select(location, *parts) if distinct is None else select_distinct(location, distinct, *parts)
    return with_options(location, query, order, locks, limit)


@build
def plpgsql_parameter(location: int, number: int) -> str:
    return f"${number}"
