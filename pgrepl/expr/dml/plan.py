"""A data-modifying statement, analysed: PostgreSQL's Query whose commandType is not SELECT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from pgrepl.expr.tree import BoolExpr, Cte, Expr, Join, RangeRef, Rte, SubLink, Target
from pgrepl.frozen import frozen
from pgrepl.sql.nodes import BoolOp
from pgrepl.types import oids

# the range table's first entry is the table that the statement names
TARGET = 1


class Command(Enum):
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    MERGE = "MERGE"


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
    constraint: int = 0  # the OID of the constraint in ON CONFLICT ON CONSTRAINT
    assigned: tuple[Assignment, ...] | None = None
    where: Expr | None = None
    excluded: int = 0
    multi: tuple[SubLink, ...] = ()
    constraint_columns: frozenset[int] = frozenset()  # its columns: SELECT privilege on them is needed


@frozen
class CheckOption:
    """The WITH CHECK OPTION of a view through which rows are written: a condition that must be true for every written
    row."""

    view: str
    expr: Expr
    cascaded: bool


class MergeMatch(Enum):
    MATCHED = "MATCHED"
    NOT_MATCHED_BY_SOURCE = "NOT MATCHED BY SOURCE"
    NOT_MATCHED_BY_TARGET = "NOT MATCHED"


@frozen
class MergeAction:
    """A WHEN clause of MERGE. `command` is None for DO NOTHING; `assigned`, `named` and `overriding` are those of an
    UPDATE or INSERT."""

    match: MergeMatch
    command: Command | None
    condition: Expr | None = None
    assigned: tuple[Assignment, ...] = ()
    named: frozenset[int] = frozenset()
    overriding: str | None = None
    multi: tuple[SubLink, ...] = ()


@frozen
class Merge:
    """MERGE's ON and its WHEN clauses."""

    condition: Expr
    actions: tuple[MergeAction, ...]

    @property
    def matches(self) -> frozenset[MergeMatch]:
        return frozenset(action.match for action in self.actions)

    def joined_where(self, where: Expr | None) -> Expr:
        """The condition of the join, which only rows of the target that satisfy `where` fulfil."""
        if where is None:
            return self.condition
        return BoolExpr(oids.BOOL, op=BoolOp.AND, args=(where, self.condition))

    @property
    def exprs(self) -> list[Expr]:
        found = [self.condition]
        for action in self.actions:
            found += [a.expr for a in action.assigned] + list(action.multi)
            if action.condition is not None:
                found.append(action.condition)
        return found


@frozen
class Modify:
    """A data-modifying statement. `assigned` has the columns that the statement gives values, as written; after
    rewriting it has them in attnum order, with all defaults that are not NULL.

    Of a MERGE `from_` is the source, `where` restricts the rows of the target (those that a view shows), and the values
    stand in the actions."""

    command: Command
    relid: int
    rtable: tuple[Rte, ...]
    from_: tuple[RangeRef | Join, ...] = ()
    where: Expr | None = None
    assigned: tuple[Assignment, ...] = ()
    named: frozenset[int] = frozenset()  # the columns that the statement's text names, with DEFAULT or a value
    overriding: str | None = None
    values: int = 0  # varno of the VALUES list of an INSERT; 0: it has none, or a single row
    conflict: Conflict | None = None
    returning: tuple[Target, ...] = ()
    multi: tuple[SubLink, ...] = ()  # the subqueries in SET (a, b) = (SELECT …)
    ctes: tuple[Cte, ...] = ()
    recursive: bool = False
    check_options: tuple[CheckOption, ...] = ()
    around: tuple[Cte, ...] = ()  # of a statement in WITH: the WITH queries before it
    merge: Merge | None = None

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands that the statement may carry out for a row: of a MERGE those of its actions, as written."""
        if self.merge is None:
            return (self.command,)
        return tuple(dict.fromkeys(action.command for action in self.merge.actions if action.command is not None))

    def named_by(self, command: Command) -> frozenset[int]:
        """The columns that an INSERT, or an UPDATE, names; of a MERGE all such actions together."""
        if self.merge is None:
            return self.named if command is self.command else frozenset()
        return frozenset(n for action in self.merge.actions if action.command is command for n in action.named)


def with_actions(modify: Modify, change: Callable[[Modify], Modify]) -> Modify:
    """A MERGE with the columns and values of each action as `change` gives them for the same INSERT, UPDATE or DELETE
    alone."""
    assert modify.merge is not None
    actions = []
    for action in modify.merge.actions:
        if action.command is not None:
            alone = replace(
                modify, command=action.command, assigned=action.assigned, named=action.named, multi=action.multi,
                overriding=action.overriding, merge=None,
            )  # fmt: skip
            done = change(alone)
            action = replace(action, assigned=done.assigned, named=done.named, multi=done.multi)
        actions.append(action)
    return replace(modify, merge=replace(modify.merge, actions=tuple(actions)))
