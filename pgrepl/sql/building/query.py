"""The clauses around a SELECT (WITH, ORDER BY, LIMIT, locking), and expressions in PL/pgSQL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.names import integer_constant
from pgrepl.sql.building.select import select, select_distinct
from pgrepl.sql.location import expr_location
from pgrepl.sql.nodes import (
    CommonTableExpr,
    CTECycleClause,
    CTESearchClause,
    Expr,
    LockingClause,
    PlAssign,
    RangeVar,
    SelectStmt,
    SortBy,
    Statement,
    WithClause,
)

# ------------------------------------------------------------------------------------------------ LIMIT


@dataclass(slots=True)
class _Limit:
    count: Expr | None = None
    offset: Expr | None = None
    with_ties: bool = False


@build
def limit(location: int, count: Expr) -> _Limit:
    return _Limit(count)


@build
def limit_comma(location: int, count: Expr, offset: Expr) -> _Limit:
    hint = "Use separate LIMIT and OFFSET clauses."
    raise PgError("42601", "LIMIT #,# syntax is not supported", hint=hint, location=location)


@build
def fetch(location: int, _: None, count: Expr, __: None) -> _Limit:
    return _Limit(count)


@build
def fetch_with_ties(location: int, _: None, count: Expr, __: None) -> _Limit:
    return _Limit(count, with_ties=True)


@build
def fetch_one(location: int, _: None, __: None) -> _Limit:
    return _Limit(integer_constant(1))


@build
def fetch_one_with_ties(location: int, _: None, __: None) -> _Limit:
    return _Limit(integer_constant(1), with_ties=True)


@build
def offset_rows(location: int, offset: Expr, _: None) -> Expr:
    return offset


@build
def limit_offset(location: int, limit: _Limit, offset: Expr) -> _Limit:
    limit.offset = offset
    return limit


@build
def offset_limit(location: int, offset: Expr, limit: _Limit) -> _Limit:
    limit.offset = offset
    return limit


@build
def limit_only(location: int, limit: _Limit) -> _Limit:
    return limit


@build
def offset_only(location: int, offset: Expr) -> _Limit:
    return _Limit(offset=offset)


# ------------------------------------------------------------------------------------------------ locking

for _alias, _words in {
    "for_update": "UPDATE", "for_no_key_update": "NO KEY UPDATE", "for_share": "SHARE", "for_key_share": "KEY SHARE",
    "nowait": "NOWAIT", "skip_locked": "SKIP LOCKED",
}.items():  # fmt: skip
    build(_alias)(lambda location, words=_words: words)


@build
def locking(location: int, strength: str, relations: list[RangeVar], wait: str | None) -> LockingClause:
    return LockingClause(strength, tuple(relations), wait)


# ------------------------------------------------------------------------------------------------ WITH


@build("with")
def with_(location: int, ctes: list[CommonTableExpr]) -> WithClause:
    return WithClause(tuple(ctes), False, location)


@build
def with_recursive(location: int, ctes: list[CommonTableExpr]) -> WithClause:
    return WithClause(tuple(ctes), True, location)


@build
def common_table_expr(
    location: int,
    name: str,
    columns: list[str] | None,
    materialized: bool | None,
    query: Statement,
    search: CTESearchClause | None,
    cycle: CTECycleClause | None,
) -> CommonTableExpr:
    return CommonTableExpr(name, tuple(columns or ()), query, materialized, search, cycle, location)


@build
def search_depth(location: int, columns: list[str], sequence: str) -> CTESearchClause:
    return CTESearchClause(tuple(columns), False, sequence, location)


@build
def search_breadth(location: int, columns: list[str], sequence: str) -> CTESearchClause:
    return CTESearchClause(tuple(columns), True, sequence, location)


@build
def cycle(location: int, columns: list[str], mark: str, value: Expr, default: Expr, path: str) -> CTECycleClause:
    return CTECycleClause(tuple(columns), mark, path, value, default, location)


@build
def cycle_plain(location: int, columns: list[str], mark: str, path: str) -> CTECycleClause:
    return CTECycleClause(tuple(columns), mark, path, location=location)


# ------------------------------------------------------------------------------------------------ whole queries


def with_options(
    query: SelectStmt,
    order: list[SortBy] | None = None,
    locks: list[LockingClause] | None = None,
    limit: _Limit | None = None,
    with_: WithClause | None = None,
) -> SelectStmt:
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


def _limit_changes(query: SelectStmt, limit: _Limit, ordered: bool, locks: tuple[LockingClause, ...]) -> dict[str, Any]:
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


@build
def select_sorted(location: int, query: SelectStmt, order: list[SortBy]) -> SelectStmt:
    return with_options(query, order)


@build
def select_locked(
    location: int, query: SelectStmt, order: list[SortBy] | None, locks: list[LockingClause], limit: _Limit | None
) -> SelectStmt:
    return with_options(query, order, locks, limit)


@build
def select_limited(
    location: int, query: SelectStmt, order: list[SortBy] | None, limit: _Limit, locks: list[LockingClause] | None
) -> SelectStmt:
    return with_options(query, order, locks, limit)


@build
def select_with(location: int, with_: WithClause, query: SelectStmt) -> SelectStmt:
    return with_options(query, with_=with_)


@build
def select_with_sorted(location: int, with_: WithClause, query: SelectStmt, order: list[SortBy]) -> SelectStmt:
    return with_options(query, order, with_=with_)


@build
def select_with_locked(
    location: int,
    with_: WithClause,
    query: SelectStmt,
    order: list[SortBy] | None,
    locks: list[LockingClause],
    limit: _Limit | None,
) -> SelectStmt:
    return with_options(query, order, locks, limit, with_)


@build
def select_with_limited(
    location: int,
    with_: WithClause,
    query: SelectStmt,
    order: list[SortBy] | None,
    limit: _Limit,
    locks: list[LockingClause] | None,
) -> SelectStmt:
    return with_options(query, order, locks, limit, with_)


# --- fragment ---------------------------------------------------------------------------------------------------------


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
