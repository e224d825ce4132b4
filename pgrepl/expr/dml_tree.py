"""A data-modifying statement, analysed (PostgreSQL's Query whose commandType is not SELECT), and its parts mapped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Any

from pgrepl.expr.tree import BoolExpr, Const, Cte, Expr, Join, Query, RangeRef, Rte, SubLink, Target, Variable
from pgrepl.expr.walk import map_children, map_parts
from pgrepl.ground.frozen import frozen
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
        exprs = [self.condition]
        for action in self.actions:
            exprs += [a.expr for a in action.assigned] + list(action.multi)
            if action.condition is not None:
                exprs.append(action.condition)
        return exprs


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


# --- mapping ----------------------------------------------------------------------------------------------------------


def map_modify(modify: Modify, expression: Callable[[Expr], Expr], nested: Callable[[Query], Query]) -> Modify:
    """The statement with its expressions mapped, and the queries one level down. The functions get whole expressions
    and descend themselves."""

    def assignments(assigned: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
        return tuple(Assignment(a.attnum, expression(a.expr)) for a in assigned)

    def optional(expr: Expr | None) -> Expr | None:
        return None if expr is None else expression(expr)

    def links(sublinks: tuple[SubLink, ...]) -> tuple[SubLink, ...]:
        mapped = tuple(expression(link) for link in sublinks)
        return tuple(link for link in mapped if isinstance(link, SubLink))

    query = map_parts(
        Query(modify.returning, modify.rtable, modify.from_, modify.where, ctes=modify.ctes), expression, nested
    )
    conflict = modify.conflict
    if conflict is not None:
        conflict = replace(
            conflict,
            elements=tuple(replace(element, expr=expression(element.expr)) for element in conflict.elements),
            arbiter_where=optional(conflict.arbiter_where),
            assigned=None if conflict.assigned is None else assignments(conflict.assigned),
            where=optional(conflict.where),
            multi=links(conflict.multi),
        )
    merge = modify.merge
    if merge is not None:
        actions = tuple(
            replace(
                action,
                condition=optional(action.condition),
                assigned=assignments(action.assigned),
                multi=links(action.multi),
            )
            for action in merge.actions
        )
        merge = Merge(expression(merge.condition), actions)
    return replace(
        modify,
        rtable=query.rtable,
        from_=query.from_,
        where=query.where,
        assigned=assignments(modify.assigned),
        conflict=conflict,
        returning=query.targets,
        multi=links(modify.multi),
        ctes=query.ctes,
        merge=merge,
    )


def query_of(modify: Modify) -> Query:
    """A query with the statement's range table and all its expressions, to look them over."""
    exprs = [target.expr for target in modify.returning] + [a.expr for a in modify.assigned] + list(modify.multi)
    conflict = modify.conflict
    if conflict is not None:
        exprs += [element.expr for element in conflict.elements] + [a.expr for a in conflict.assigned or ()]
        exprs += [expr for expr in (conflict.arbiter_where, conflict.where) if expr is not None] + list(conflict.multi)
    exprs += modify.merge.exprs if modify.merge is not None else ()
    targets = tuple(Target(expr, "", number) for number, expr in enumerate(exprs, 1))
    return Query(targets, modify.rtable, modify.from_, modify.where, ctes=modify.ctes)


def with_literals(modify: Modify) -> Modify:
    """The statement with rows that have been computed already as constants, so that it can be stored."""
    entries = []
    for entry in modify.rtable:
        if entry.rows is not None:
            values = tuple(
                tuple(
                    Const(column.type, typmod=column.typmod, collation=column.collation, value=value)
                    for column, value in zip(entry.columns, row, strict=True)
                )
                for row in entry.rows
            )
            entry = replace(entry, rows=None, values=values)
        entries.append(entry)
    return replace(modify, rtable=tuple(entries))


# --- substitute -------------------------------------------------------------------------------------------------------


Value = Callable[[Variable], Expr]


def with_values(query: Query, value: Value) -> Query:
    """The query, and the queries inside it, with an expression in the place of each variable."""
    return map_parts(query, lambda expr: expr_with_values(expr, value), lambda inner: with_values(inner, value))


def modify_with_values(modify: Any, value: Value) -> Any:
    """Put an expression in the place of each variable of a data-modifying statement, an expr.dml.plan.Modify."""
    return map_modify(modify, lambda expr: expr_with_values(expr, value), lambda inner: with_values(inner, value))


def expr_with_values(expr: Expr, value: Value) -> Expr:
    if isinstance(expr, Variable):
        return value(expr)
    expr = map_children(expr, lambda child: expr_with_values(child, value))
    if isinstance(expr, SubLink) and expr.query is not None:
        return replace(expr, query=with_values(expr.query, value))
    return expr
