"""A data-modifying statement, analysed: PostgreSQL's Query whose commandType is not SELECT."""

from __future__ import annotations

from enum import Enum

from pgrepl.expr.tree import Cte, Expr, Join, RangeRef, Rte, SubLink, Target
from pgrepl.frozen import frozen

# the range table's first entry is the table that the statement names
TARGET = 1


class Command(Enum):
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@frozen
class Assignment:
    """The assignment of a value to a column of the target."""

    attnum: int
    expr: Expr


@frozen
class Inference:
    """An element of ON CONFLICT (…): a column or expression, with the operator class and collation written for it."""

    expr: Expr
    collation: int = 0
    opclass: int = 0


@frozen
class Conflict:
    """ON CONFLICT. `assigned` is None for DO NOTHING. Its expressions and `where` refer to the existing row as TARGET
    and to the proposed row as `excluded`."""

    elements: tuple[Inference, ...] = ()
    arbiter_where: Expr | None = None
    constraint: int = 0  # by name: its OID
    assigned: tuple[Assignment, ...] | None = None
    where: Expr | None = None
    excluded: int = 0
    multi: tuple[SubLink, ...] = ()
    constraint_columns: frozenset[int] = frozenset()  # may have to be readable


@frozen
class CheckOption:
    """The WITH CHECK OPTION of a view through which rows are written: conditions that must not be false for a written
    row."""

    view: str
    expr: Expr
    cascaded: bool


@frozen
class Modify:
    """A data-modifying statement. `assigned` has the columns that the statement gives values, as written; after
    rewriting it has them in attnum order, with all defaults that are not NULL."""

    command: Command
    relid: int
    rtable: tuple[Rte, ...]
    from_: tuple[RangeRef | Join, ...] = ()
    where: Expr | None = None
    assigned: tuple[Assignment, ...] = ()
    named: frozenset[int] = frozenset()  # the columns that the text itself gives values, DEFAULT included
    overriding: str | None = None
    values: int = 0  # of INSERT … VALUES of several rows: the range table entry of the list
    conflict: Conflict | None = None
    returning: tuple[Target, ...] = ()
    multi: tuple[SubLink, ...] = ()  # the subqueries that give several columns their values
    ctes: tuple[Cte, ...] = ()
    recursive: bool = False
    check_options: tuple[CheckOption, ...] = ()
    around: tuple[Cte, ...] = ()  # the WITH queries before it, where it is one itself
