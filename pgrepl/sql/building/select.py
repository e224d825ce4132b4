"""SELECT: its clauses, VALUES, TABLE, set operations, windows, ORDER BY; constants, column references, indirection,
rows, arrays, CASE.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pgrepl.ground.errors import PgError, Report
from pgrepl.sql import nodes
from pgrepl.sql.building import AtCurrentToken, build, notify
from pgrepl.sql.building.names import INTERVAL_FULL_RANGE, Indirection, Names, integer_constant
from pgrepl.sql.nodes import Expr


@build
def select_statement(location: int, statement: nodes.SelectStmt) -> nodes.SelectStmt:
    return statement


# ------------------------------------------------------------------------------------------------ simple SELECT

_Group = tuple[bool, "list[Expr]"]


@build
def select(location: int, *clauses: Any) -> nodes.SelectStmt:
    return _select(None, location, *clauses)


@build
def select_distinct(location: int, distinct: list[Expr], *clauses: Any) -> nodes.SelectStmt:
    return _select(tuple(distinct), location, *clauses)


def _select(
    distinct: tuple[Expr, ...] | None,
    location: int,
    targets: list[nodes.ResTarget] | None,
    into: nodes.RangeVar | None,
    from_: list[nodes.FromItem],
    where: Expr | None,
    group: _Group | None,
    having: Expr | None,
    windows: list[nodes.WindowDef],
) -> nodes.SelectStmt:
    return nodes.SelectStmt(
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
def values(location: int, rows: list[list[Expr]]) -> nodes.SelectStmt:
    return nodes.SelectStmt(values=tuple(map(tuple, rows)), location=location)


@build
def select_table(location: int, relation: nodes.RangeVar) -> nodes.SelectStmt:
    """TABLE t as SELECT * FROM t."""
    everything = nodes.ResTarget(nodes.ColumnRef((nodes.AStar(),)))
    return nodes.SelectStmt(targets=(everything,), from_=(relation,), location=location)


@build
def set_operation(
    location: int, left: nodes.SelectStmt, all: bool, right: nodes.SelectStmt, op: nodes.SetOp
) -> nodes.SelectStmt:
    into, left = left.into, replace(left, into=None)  # INTO of the first SELECT is that of the whole query
    return nodes.SelectStmt(op=op, all=all, left=left, right=right, into=into, location=location)


@build
def target(location: int, value: Expr, name: str | None = None) -> nodes.ResTarget:
    return nodes.ResTarget(value, name, (), location)


# ------------------------------------------------------------------------------------------------ INTO


@build
def into_global_temporary(location: int, _: None, relation: nodes.RangeVar) -> nodes.RangeVar:
    warn_of_global(location)
    return replace(relation, persistence="t")


def warn_of_global(location: int) -> None:
    message = "GLOBAL is deprecated in temporary table creation"
    notify(Report("WARNING", "01000", message, position=location + 1))


# ------------------------------------------------------------------------------------------------ windows

_Bound = tuple[str, "Expr | None"]


@build
def frame_start(location: int, start: _Bound) -> nodes.WindowFrame:
    if start[0] == "UNBOUNDED FOLLOWING":
        raise PgError("42P20", "frame start cannot be UNBOUNDED FOLLOWING", location=location)
    if start[0] == "FOLLOWING":
        raise PgError("42P20", "frame starting from following row cannot end with current row", location=location)
    return nodes.WindowFrame("", start[0], None, start[1])


@build
def frame_between(locations: tuple[int, int], start: _Bound, end: _Bound) -> nodes.WindowFrame:
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
    return nodes.WindowFrame("", start[0], end[0], start[1], end[1])


@build
def frame(location: int, mode: str, extent: nodes.WindowFrame, exclude: str | None) -> nodes.WindowFrame:
    return replace(extent, mode=mode.upper(), exclude=exclude)


# ------------------------------------------------------------------------------------------------ constants


def string(location: int, value: str) -> nodes.AConst:
    return nodes.AConst(nodes.AConstKind.STRING, value, location)


@build
def typed_literal(locations: tuple[int, int], name: Names, value: str) -> nodes.TypeCast:
    return nodes.TypeCast(string(locations[1], value), nodes.TypeName(name, location=locations[0]))


@build
def typed_literal_with_modifiers(
    locations: tuple[int, int], name: Names, modifiers: list[Expr], value: str
) -> nodes.TypeCast:
    """`numeric(4,1) '1.5'`: the grammar reads the modifiers as function arguments; named ones are refused."""
    for modifier in modifiers:
        if isinstance(modifier, nodes.NamedArg):
            raise PgError("42601", "type modifier cannot have parameter name", location=modifier.location)
    return nodes.TypeCast(string(locations[1], value), nodes.TypeName(name, tuple(modifiers), location=locations[0]))


@build
def typed_literal_with_order(
    locations: tuple[int, int], name: Names, modifiers: list[Expr], order: list[nodes.SortBy], value: str
) -> nodes.TypeCast:
    typed_literal_with_modifiers(locations, name, modifiers, value)
    raise PgError("42601", "type modifier cannot have ORDER BY", location=locations[1])


@build
def const_typed_literal(location: int, type_name: nodes.TypeName, value: str) -> nodes.TypeCast:
    return nodes.TypeCast(string(location, value), type_name)


@build
def interval_literal(
    location: int, interval: nodes.TypeName, value: str, fields: tuple[nodes.AConst, ...] | None
) -> nodes.TypeCast:
    return nodes.TypeCast(string(location, value), replace(interval, typmods=fields) if fields else interval)


@build
def interval_literal_with_precision(
    locations: tuple[int, int], interval: nodes.TypeName, precision: int, value: str
) -> nodes.TypeCast:
    modifiers = (integer_constant(INTERVAL_FULL_RANGE), integer_constant(precision, locations[0]))
    return nodes.TypeCast(string(locations[1], value), replace(interval, typmods=modifiers))


# ------------------------------------------------------------------------------------------------ columns and parts


def checked(indirection: Indirection) -> Indirection:
    """Check that `*` is the last part (check_indirection)."""
    if any(isinstance(part, nodes.AStar) for part in indirection[:-1]):
        raise AtCurrentToken('improper use of "*"')
    return indirection


@build
def column_part(location: int, name: str, indirection: Indirection) -> Expr:
    """A column reference with indirection: leading names are the column's, the rest from the first subscript on is
    indirection (makeColumnRef)."""
    checked(indirection)
    fields: list[str | nodes.AStar] = [name]
    for number, part in enumerate(indirection):
        if isinstance(part, nodes.AIndices):
            return nodes.AIndirection(nodes.ColumnRef(tuple(fields), location), tuple(indirection[number:]))
        fields.append(part)
    return nodes.ColumnRef(tuple(fields), location)


@build
def parameter(location: int, number: int, indirection: Indirection | None) -> Expr:
    value = nodes.ParamRef(number, location)
    return value if indirection is None else part(location, value, indirection)


@build
def part(location: int, value: Expr, indirection: Indirection) -> nodes.AIndirection:
    return nodes.AIndirection(value, tuple(checked(indirection)))


def scalar_subquery(location: int, query: nodes.SelectStmt) -> nodes.SubLink:
    return nodes.SubLink(nodes.SubLinkType.EXPR, None, (), query, location)


@build
def scalar_subquery_part(location: int, query: nodes.SelectStmt, indirection: Indirection) -> nodes.AIndirection:
    return part(location, scalar_subquery(location, query), indirection)


# ------------------------------------------------------------------------------------------------ rows, arrays, CASE


@build
def array(location: int, elements: nodes.AArrayExpr) -> nodes.AArrayExpr:
    """ARRAY[…]. The outermost array's location is the word ARRAY."""
    return nodes.AArrayExpr(elements.elements, location)
