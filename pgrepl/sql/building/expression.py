"""Expressions: constants, column references, indirection, rows, arrays, CASE."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import AtCurrentToken, build
from pgrepl.sql.building.names import INTERVAL_FULL_RANGE, Indirection, Names, integer_constant
from pgrepl.sql.nodes import (
    AArrayExpr,
    AConst,
    AConstKind,
    AIndices,
    AIndirection,
    AStar,
    ColumnRef,
    Expr,
    NamedArg,
    ParamRef,
    SelectStmt,
    SortBy,
    SubLink,
    SubLinkType,
    TypeCast,
    TypeName,
)

# ------------------------------------------------------------------------------------------------ constants


def string(location: int, value: str) -> AConst:
    return AConst(AConstKind.STRING, value, location)


@build
def typed_literal(locations: tuple[int, int], name: Names, value: str) -> TypeCast:
    return TypeCast(string(locations[1], value), TypeName(name, location=locations[0]))


@build
def typed_literal_with_modifiers(
    locations: tuple[int, int], name: Names, modifiers: list[Expr], value: str
) -> TypeCast:
    """`numeric(4,1) '1.5'`: the grammar reads the modifiers as function arguments; named ones are refused."""
    for modifier in modifiers:
        if isinstance(modifier, NamedArg):
            raise PgError("42601", "type modifier cannot have parameter name", location=modifier.location)
    return TypeCast(string(locations[1], value), TypeName(name, tuple(modifiers), location=locations[0]))


@build
def typed_literal_with_order(
    locations: tuple[int, int], name: Names, modifiers: list[Expr], order: list[SortBy], value: str
) -> TypeCast:
    typed_literal_with_modifiers(locations, name, modifiers, value)
    raise PgError("42601", "type modifier cannot have ORDER BY", location=locations[1])


@build
def const_typed_literal(location: int, type_name: TypeName, value: str) -> TypeCast:
    return TypeCast(string(location, value), type_name)


@build
def interval_literal(location: int, interval: TypeName, value: str, fields: tuple[AConst, ...] | None) -> TypeCast:
    return TypeCast(string(location, value), replace(interval, typmods=fields) if fields else interval)


@build
def interval_literal_with_precision(
    locations: tuple[int, int], interval: TypeName, precision: int, value: str
) -> TypeCast:
    modifiers = (integer_constant(INTERVAL_FULL_RANGE), integer_constant(precision, locations[0]))
    return TypeCast(string(locations[1], value), replace(interval, typmods=modifiers))


# ------------------------------------------------------------------------------------------------ columns and parts


def checked(indirection: Indirection) -> Indirection:
    """Check that `*` is the last part (check_indirection)."""
    if any(isinstance(part, AStar) for part in indirection[:-1]):
        raise AtCurrentToken('improper use of "*"')
    return indirection


@build
def column_part(location: int, name: str, indirection: Indirection) -> Expr:
    """A column reference with indirection: leading names are the column's, the rest from the first subscript on is
    indirection (makeColumnRef)."""
    checked(indirection)
    fields: list[str | AStar] = [name]
    for number, part in enumerate(indirection):
        if isinstance(part, AIndices):
            return AIndirection(ColumnRef(tuple(fields), location), tuple(indirection[number:]))
        fields.append(part)
    return ColumnRef(tuple(fields), location)


@build
def parameter(location: int, number: int, indirection: Indirection | None) -> Expr:
    value = ParamRef(number, location)
    return value if indirection is None else part(location, value, indirection)


@build
def part(location: int, value: Expr, indirection: Indirection) -> AIndirection:
    return AIndirection(value, tuple(checked(indirection)))


def scalar_subquery(location: int, query: SelectStmt) -> SubLink:
    return SubLink(SubLinkType.EXPR, None, (), query, location)


@build
def scalar_subquery_part(location: int, query: SelectStmt, indirection: Indirection) -> AIndirection:
    return part(location, scalar_subquery(location, query), indirection)


# ------------------------------------------------------------------------------------------------ rows, arrays, CASE


@build
def array(location: int, elements: AArrayExpr) -> AArrayExpr:
    """ARRAY[…]. The outermost array's location is the word ARRAY."""
    return AArrayExpr(elements.elements, location)
