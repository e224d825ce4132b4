"""The location of a raw expression, as PostgreSQL's exprLocation gives it."""

from __future__ import annotations

from functools import singledispatch

from pgrepl.sql.nodes import (
    AExpr,
    BooleanTest,
    BoolExpr,
    CollateClause,
    FuncCall,
    IsDocument,
    MultiAssign,
    NamedArg,
    NullTest,
    SortBy,
    SubLink,
    TypeCast,
)


@singledispatch
def expr_location(node: object) -> int:
    """The 0-based offset of the leftmost token, or -1. Most nodes know it themselves."""
    location: int = getattr(node, "location", -1)
    return location


def leftmost(*locations: int) -> int:
    return min((location for location in locations if location >= 0), default=-1)


@expr_location.register(tuple)
@expr_location.register(list)
def _(node: tuple[object, ...] | list[object]) -> int:
    return next((location for location in map(expr_location, node) if location >= 0), -1)


@expr_location.register
def _(node: AExpr) -> int:
    return leftmost(node.location, expr_location(node.lexpr))


@expr_location.register
def _(node: BoolExpr) -> int:
    return leftmost(node.location, expr_location(node.args))


@expr_location.register
def _(node: FuncCall) -> int:
    return leftmost(node.location, expr_location(node.args))


@expr_location.register
def _(node: TypeCast) -> int:
    return leftmost(expr_location(node.arg), node.type_name.location, node.location)


@expr_location.register
def _(node: SubLink) -> int:
    return leftmost(node.location, expr_location(node.test))


@expr_location.register(NullTest)
@expr_location.register(BooleanTest)
@expr_location.register(IsDocument)
@expr_location.register(NamedArg)
def _(node: NullTest | BooleanTest | IsDocument | NamedArg) -> int:
    return leftmost(node.location, expr_location(node.arg))


@expr_location.register
def _(node: CollateClause) -> int:
    return expr_location(node.arg)


@expr_location.register
def _(node: MultiAssign) -> int:
    return expr_location(node.source)


@expr_location.register
def _(node: SortBy) -> int:
    return expr_location(node.node)
