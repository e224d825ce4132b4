"""SELECT: its clauses, VALUES, TABLE, set operations, windows, ORDER BY."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pgrepl.ground.errors import PgError, Report
from pgrepl.sql.building import build, notify
from pgrepl.sql.nodes import (
    AStar,
    ColumnRef,
    Expr,
    FromItem,
    RangeVar,
    ResTarget,
    SelectStmt,
    SetOp,
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


@build
def set_operation(location: int, left: SelectStmt, all: bool, right: SelectStmt, op: SetOp) -> SelectStmt:
    into, left = left.into, replace(left, into=None)  # INTO of the first SELECT is that of the whole query
    return SelectStmt(op=op, all=all, left=left, right=right, into=into, location=location)


@build
def target(location: int, value: Expr, name: str | None = None) -> ResTarget:
    return ResTarget(value, name, (), location)


# ------------------------------------------------------------------------------------------------ INTO


@build
def into_global_temporary(location: int, _: None, relation: RangeVar) -> RangeVar:
    warn_of_global(location)
    return replace(relation, persistence="t")


def warn_of_global(location: int) -> None:
    message = "GLOBAL is deprecated in temporary table creation"
    notify(Report("WARNING", "01000", message, position=location + 1))


# ------------------------------------------------------------------------------------------------ windows

_Bound = tuple[str, "Expr | None"]


@build
def frame_start(location: int, start: _Bound) -> WindowFrame:
    if start[0] == "UNBOUNDED FOLLOWING":
        raise PgError("42P20", "frame start cannot be UNBOUNDED FOLLOWING", location=location)
    if start[0] == "FOLLOWING":
        raise PgError("42P20", "frame starting from following row cannot end with current row", location=location)
    return WindowFrame("", start[0], None, start[1])


@build
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
