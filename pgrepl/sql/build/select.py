"""SELECT: its clauses, set operations, WITH, ORDER BY, LIMIT, locking."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pgrepl.errors import PgError, Report
from pgrepl.sql.build import build, notify
from pgrepl.sql.build.common import none
from pgrepl.sql.build.names import Names, integer_constant
from pgrepl.sql.location import expr_location
from pgrepl.sql.nodes import (
    AStar,
    ColumnRef,
    CommonTableExpr,
    CTECycleClause,
    CTESearchClause,
    Expr,
    FromItem,
    GroupingKind,
    GroupingSet,
    LockingClause,
    NullsOrder,
    RangeVar,
    ResTarget,
    SelectStmt,
    SetOp,
    SortBy,
    SortDir,
    Statement,
    WindowDef,
    WindowFrame,
    WithClause,
)


@build
def select_statement(location: int, statement: SelectStmt) -> SelectStmt:
    return statement


# ------------------------------------------------------------------------------------------------ simple SELECT

_Group = tuple[bool, "list[Expr]"]


@build
def select(location: int, *clauses: Any) -> SelectStmt:
    return _select(None, location, *clauses)


@build
def select_distinct(location: int, distinct: list[Expr], *clauses: Any) -> SelectStmt:
    return _select(tuple(distinct), location, *clauses)


def _select(
    distinct: tuple[Expr, ...] | None,
    location: int,
    targets: list[ResTarget] | None,
    into: RangeVar | None,
    from_: list[FromItem],
    where: Expr | None,
    group: _Group | None,
    having: Expr | None,
    windows: list[WindowDef],
) -> SelectStmt:
    return SelectStmt(
        tuple(targets or ()),
        distinct,
        into,
        tuple(from_),
        where,
        tuple(group[1]) if group else (),
        group[0] if group else False,
        having,
        tuple(windows),
        location=location,
    )


@build
def values(location: int, rows: list[list[Expr]]) -> SelectStmt:
    return SelectStmt(values=tuple(map(tuple, rows)), location=location)


@build
def select_table(location: int, relation: RangeVar) -> SelectStmt:
    """TABLE t is SELECT * FROM t."""
    everything = ResTarget(ColumnRef((AStar(),)))
    return SelectStmt(targets=(everything,), from_=(relation,), location=location)


def _set_operation(op: SetOp) -> None:
    @build(op.value)
    def set_operation(location: int, left: SelectStmt, all: bool, right: SelectStmt) -> SelectStmt:
        return SelectStmt(op=op, all=all, left=left, right=right, location=location)


for _op in SetOp:
    _set_operation(_op)


@build
def target(location: int, value: Expr, name: str | None = None) -> ResTarget:
    return ResTarget(value, name, (), location)


@build
def star_target(location: int) -> ResTarget:
    return ResTarget(ColumnRef((AStar(),), location), None, (), location)


# ------------------------------------------------------------------------------------------------ INTO


@build
def into_temporary(location: int, _: None, relation: RangeVar) -> RangeVar:
    return replace(relation, persistence="t")


@build
def into_global_temporary(location: int, _: None, relation: RangeVar) -> RangeVar:
    warn_of_global(location)
    return replace(relation, persistence="t")


def warn_of_global(location: int) -> None:
    message = "GLOBAL is deprecated in temporary table creation"
    notify(Report("WARNING", "01000", message, position=location + 1))


@build
def into_unlogged(location: int, _: None, relation: RangeVar) -> RangeVar:
    return replace(relation, persistence="u")


# ------------------------------------------------------------------------------------------------ GROUP BY


@build
def empty_grouping_set(location: int) -> GroupingSet:
    return GroupingSet(GroupingKind.EMPTY, (), location)


@build
def rollup(location: int, content: list[Expr]) -> GroupingSet:
    return GroupingSet(GroupingKind.ROLLUP, tuple(content), location)


@build
def cube(location: int, content: list[Expr]) -> GroupingSet:
    return GroupingSet(GroupingKind.CUBE, tuple(content), location)


@build
def grouping_sets(location: int, content: list[Expr]) -> GroupingSet:
    return GroupingSet(GroupingKind.SETS, tuple(content), location)


# ------------------------------------------------------------------------------------------------ windows

build("no_window_name")(none)


@build
def window(
    location: int,
    refname: str | None,
    partition: list[Expr] | None,
    order: list[SortBy] | None,
    frame: WindowFrame | None,
) -> WindowDef:
    return WindowDef(None, refname, tuple(partition or ()), tuple(order or ()), frame, location=location)


@build
def window_definition(location: int, name: str, definition: WindowDef) -> WindowDef:
    return replace(definition, name=name)


_Bound = tuple[str, "Expr | None"]


def _bound(alias: str) -> None:
    words = alias.upper().replace("_", " ")

    @build(alias)
    def bound(location: int, offset: Expr | None = None) -> _Bound:
        return words, offset


for _alias in ("unbounded_preceding", "unbounded_following", "current_row", "preceding", "following"):
    _bound(_alias)


@build
def frame_start(location: int, start: _Bound) -> WindowFrame:
    if start[0] == "UNBOUNDED FOLLOWING":
        raise PgError("42P20", "frame start cannot be UNBOUNDED FOLLOWING", location=location)
    if start[0] == "FOLLOWING":
        raise PgError("42P20", "frame starting from following row cannot end with current row", location=location)
    return WindowFrame("", start[0], None, start[1])


@build(at=(2, 4))
def frame_between(locations: tuple[int, int], start: _Bound, end: _Bound) -> WindowFrame:
    if start[0] == "UNBOUNDED FOLLOWING":
        raise PgError("42P20", "frame start cannot be UNBOUNDED FOLLOWING", location=locations[0])
    wrong = {
        ("CURRENT ROW", "PRECEDING"): "frame starting from current row cannot have preceding rows",
        ("FOLLOWING", "PRECEDING"): "frame starting from following row cannot have preceding rows",
        ("FOLLOWING", "CURRENT ROW"): "frame starting from following row cannot have preceding rows",
    }.get((start[0], end[0]))
    if end[0] == "UNBOUNDED PRECEDING":
        wrong = "frame end cannot be UNBOUNDED PRECEDING"
    if wrong:
        raise PgError("42P20", wrong, location=locations[1])
    return WindowFrame("", start[0], end[0], start[1], end[1])


@build
def frame(location: int, mode: str, extent: WindowFrame, exclude: str | None) -> WindowFrame:
    return replace(extent, mode=mode.upper(), exclude=exclude)


for _alias in ("current_row", "group", "ties"):
    build(f"exclude_{_alias}")(lambda location, words=_alias.upper().replace("_", " "): words)


# ------------------------------------------------------------------------------------------------ ORDER BY

for _alias, _dir in {"asc": SortDir.ASC, "desc": SortDir.DESC, "default_direction": SortDir.DEFAULT}.items():
    build(_alias)(lambda location, direction=_dir: direction)
for _order in NullsOrder:
    build(f"nulls_{_order.value}")(lambda location, order=_order: order)


@build
def sort_by(location: int, node: Expr, direction: SortDir, nulls: NullsOrder) -> SortBy:
    return SortBy(node, direction, nulls)


@build(at=3)
def sort_using(location: int, node: Expr, operator: Names, nulls: NullsOrder) -> SortBy:
    return SortBy(node, SortDir.USING, nulls, operator, location)


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
    """What stands behind and before a SELECT, VALUES or set operation. A query in parentheses may have some of it
    already: `(SELECT a ORDER BY a) ORDER BY a` (insertSelectOptions)."""
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
