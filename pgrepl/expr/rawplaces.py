"""Raw parse trees: the location of an expression, and whether two are equal (exprLocation and equal)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from pgrepl.sql import nodes


def raw_location(node: object) -> int:
    """The leftmost location of a raw expression; -1: unknown."""
    if isinstance(node, (list, tuple)):
        return first_raw_location(node)
    location = getattr(node, "location", -1)
    if isinstance(node, nodes.AExpr):
        return _leftmost(location, raw_location(node.lexpr))
    if isinstance(node, (nodes.BoolExpr, nodes.FuncCall)):
        return _leftmost(location, raw_location(node.args))
    if isinstance(node, nodes.TypeCast):
        return _leftmost(raw_location(node.arg), node.type_name.location, location)
    if isinstance(node, (nodes.NullTest, nodes.BooleanTest, nodes.IsDocument, nodes.NamedArg)):
        return _leftmost(location, raw_location(node.arg))
    if isinstance(node, nodes.CollateClause):
        return raw_location(node.arg)
    if isinstance(node, nodes.SubLink):
        return _leftmost(raw_location(node.test), location)
    if isinstance(node, nodes.SortBy):
        return raw_location(node.node)
    if isinstance(node, nodes.AIndirection):
        return -1
    return int(location)


def first_raw_location(items: Sequence[object]) -> int:
    for item in items:
        location = raw_location(item)
        if location >= 0:
            return location
    return -1


def _leftmost(*locations: int) -> int:
    known = [location for location in locations if location >= 0]
    return min(known) if known else -1


def same_text(one: Any, other: Any) -> bool:
    """Whether two raw trees are equal apart from their locations."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(same_text(a, b) for a, b in zip(one, other, strict=True))
    if is_dataclass(one) and type(one) is type(other):
        return all(same_text(getattr(one, f.name), getattr(other, f.name)) for f in fields(one) if f.name != "location")
    return bool(one == other)
