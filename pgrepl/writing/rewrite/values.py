"""The new values of columns that existing rows get (NewColumnValue), and a table that is to be rewritten for them."""

from __future__ import annotations

from pgrepl.catalog.relation import Relation
from pgrepl.expr.tree import Expr
from pgrepl.frozen import frozen
from pgrepl.lake.table import LakeTable


@frozen
class NewColumnValue:
    """A column of existing rows gets another value: a new column its default, one of changed type the converted one.
    The expression is over the row as it was; one that generates the column, over the row as it becomes."""

    table: int
    attnum: int
    expr: Expr
    generates: bool = False
    to_text: bool = False  # a column of lists becomes one of arrays as text
    renumbers: bool = False  # the column and those behind it get other ids, and keep their values


@frozen
class Rewrite:
    """A table whose rows must be rewritten. `was` is the table at `snapshot`, the one before the statement."""

    relation: Relation
    was: LakeTable
    snapshot: int
    values: tuple[NewColumnValue, ...]
