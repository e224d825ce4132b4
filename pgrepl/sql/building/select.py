"""SELECT: its clauses, VALUES, TABLE, set operations, windows, ORDER BY."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pgrepl.ground.errors import PgError, Report
from pgrepl.sql.building import build, notify
from pgrepl.sql.building.names import Names, none
from pgrepl.sql.nodes import (
    AStar,
    ColumnRef,
    Expr,
    FromItem,
    GroupingKind,
    GroupingSet,
    NullsOrder,
    RangeVar,
    ResTarget,
    SelectStmt,
    SetOp,
    SortBy,
    SortDir,
    WindowDef,
    WindowFrame,
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
    """TABLE t as SELECT * FROM t."""
    everything = ResTarget(ColumnRef((AStar(),)))
    return SelectStmt(targets=(everything,), from_=(relation,), location=location)


def _set_operation(op: SetOp) -> None:
    @build(op.value)
    def set_operation(location: int, left: SelectStmt, all: bool, right: SelectStmt) -> SelectStmt:
        into, left = left.into, replace(left, into=None)  # INTO of the first SELECT is that of the whole query
        return SelectStmt(op=op, all=all, left=left, right=right, into=into, location=location)


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
