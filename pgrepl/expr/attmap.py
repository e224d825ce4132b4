"""Column numbers of one table mapped to those of another, by column name: children and parents, partitions, tables
made with LIKE."""

from __future__ import annotations

from pgrepl.catalog.relation import Relation
from pgrepl.errors import PgError
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import map_attnums, var_attnums


def attnum_map(child: Relation, parent: Relation) -> dict[int, int]:
    """The child's column number for each of the parent's columns, as build_attrmap_by_name does."""
    numbers = {attribute.name: attribute.num for attribute in child.columns}
    return {attribute.num: numbers[attribute.name] for attribute in parent.columns}


def mapped(expr: Expr, numbers: dict[int, int], detail: str) -> Expr:
    """An expression over the parent, converted to one over the child. A whole-row reference is refused, with `detail`
    as DETAIL of the error."""
    if 0 in var_attnums(expr):
        raise PgError("0A000", "cannot convert whole-row table reference", detail=detail)
    return map_attnums(expr, numbers)
