"""Defaults of the columns that a statement gives no value, and the columns that must not be given one
(rewriteTargetListIU, rewriteValuesRTE)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.expr.analyse.queries.update import merge_assignments
from pgrepl.expr.catalog_trees import column_default, null_of
from pgrepl.expr.dml_tree import Assignment, Command, Merge, Modify, with_actions
from pgrepl.expr.rewrite.folding import folded
from pgrepl.expr.tree import Const, Expr, Rte, RteKind, SetToDefault, Var
from pgrepl.ground.errors import PgError
from pgrepl.types.user_types import constrained

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def with_defaults(session: Session, modify: Modify) -> Modify:
    """The statement with every DEFAULT replaced by the column's default. Generated columns get no assignment."""
    if modify.merge is not None:
        return with_actions(modify, lambda alone: with_defaults(session, alone))
    target = relation(session, modify.relid)
    if modify.command is Command.INSERT:
        modify = _insert(session, modify, target)
    else:
        modify = replace(modify, assigned=_updated(session, target, modify.assigned))
    conflict = modify.conflict
    if conflict is not None and conflict.assigned is not None:
        updated = _updated(session, target, conflict.assigned)
        modify = replace(modify, conflict=replace(conflict, assigned=updated))
    return modify


def with_constants(session: Session, modify: Modify) -> Modify:
    """The statement with constant expressions folded. An error in one is raised even when there are no rows."""

    def fold(assigned: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
        return tuple(Assignment(a.attnum, folded(session, a.expr)) for a in assigned)

    def optional(expr: Expr | None) -> Expr | None:
        return folded(session, expr) if expr is not None else None

    rtable = list(modify.rtable)
    if modify.values and rtable[modify.values - 1].values:
        rte = rtable[modify.values - 1]
        rows = tuple(tuple([folded(session, value) for value in row]) for row in rte.values)
        rtable[modify.values - 1] = replace(rte, values=rows)
    conflict = modify.conflict
    if conflict is not None and conflict.assigned is not None:
        conflict = replace(conflict, assigned=fold(conflict.assigned), where=optional(conflict.where))
    merge = modify.merge
    if merge is not None:
        actions = tuple(
            replace(action, assigned=fold(action.assigned), condition=optional(action.condition))
            for action in merge.actions
        )
        merge = Merge(folded(session, merge.condition), actions)
    return replace(
        modify,
        rtable=tuple(rtable),
        assigned=fold(modify.assigned),
        where=optional(modify.where),
        conflict=conflict,
        merge=merge,
    )


def _updated(session: Session, target: Relation, assigned: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
    values = merge_assignments(target, assigned)
    result: list[Assignment] = []
    for column in target.columns:
        value = values.get(column.num)
        if value is None:
            continue
        if isinstance(value, SetToDefault):
            value = column_default(session, target, column) or null_of(column)
        elif column.identity == "a":
            raise _only_default(column, "an identity column defined as GENERATED ALWAYS")
        elif column.generated:
            raise _only_default(column, "a generated column")
        if not column.generated:
            result.append(Assignment(column.num, value))
    return tuple(result)


def _only_default(column: Attribute, what: str) -> PgError:
    detail = f'Column "{column.name}" is {what}.'
    return PgError("428C9", f'column "{column.name}" can only be updated to DEFAULT', detail=detail)


def _insert(session: Session, modify: Modify, target: Relation) -> Modify:
    values = merge_assignments(target, modify.assigned)
    rte = modify.rtable[modify.values - 1] if modify.values else None
    all_default = _default_only(rte)
    result: list[Assignment] = []
    unused: set[int] = set()
    for column in target.columns:
        value = values.get(column.num)
        given = value is not None and not isinstance(value, SetToDefault)
        listed = value.attnum if isinstance(value, Var) and value.varno == modify.values else 0
        if given and _overridden(column, modify.overriding, only_defaults=listed in all_default):
            given = False
            unused.add(listed)
        if not given:
            value = column_default(session, target, column)
            if value is None and constrained(column.type):
                value = null_of(column)
        if value is not None and not column.generated:
            result.append(Assignment(column.num, value))
    modify = replace(modify, assigned=tuple(result))
    if rte is None or rte.kind is not RteKind.VALUES:
        return modify
    numbers = {a.expr.attnum: a.attnum for a in result if isinstance(a.expr, Var) and a.expr.varno == modify.values}
    for listed in unused:
        numbers.pop(listed, None)
    return _with_listed_defaults(session, modify, target, rte, numbers)


def _overridden(column: Attribute, overriding: str | None, *, only_defaults: bool) -> bool:
    """Whether the written value is ignored and the default taken. Raises an error where only DEFAULT may be written."""
    refused = f'cannot insert a non-DEFAULT value into column "{column.name}"'
    if column.identity == "a":
        if overriding == "USER":
            return True
        if overriding != "SYSTEM":
            if only_defaults:
                return True
            raise PgError(
                "428C9",
                refused,
                detail=f'Column "{column.name}" is an identity column defined as GENERATED ALWAYS.',
                hint="Use OVERRIDING SYSTEM VALUE to override.",
            )
    if column.identity == "d" and overriding == "USER":
        return True
    if column.generated:
        if only_defaults:
            return True
        raise PgError("428C9", refused, detail=f'Column "{column.name}" is a generated column.')
    return False


def _default_only(rte: Rte | None) -> frozenset[int]:
    """The columns of a VALUES list in which every row says DEFAULT (findDefaultOnlyColumns)."""
    if rte is None or not rte.values:
        return frozenset()
    columns = set(range(1, len(rte.values[0]) + 1))
    for row in rte.values:
        columns = {n for n in columns if isinstance(row[n - 1], SetToDefault)}
        if not columns:
            break
    return frozenset(columns)


def _with_listed_defaults(
    session: Session, modify: Modify, target: Relation, rte: Rte, numbers: dict[int, int]
) -> Modify:
    """Replace each DEFAULT in a VALUES list by its column's default, or by NULL where the value is unused. A DEFAULT
    for which a view has none is left to the table behind the view."""
    if not any(isinstance(value, SetToDefault) for row in rte.values for value in row):
        return modify
    defaults: list[Expr | None] = []
    for number, first in enumerate(rte.values[0], 1):
        column = target.attribute_by_number(numbers.get(number, 0))
        if column is None:
            defaults.append(Const(first.type, typmod=first.typmod, collation=first.collation))
        else:
            missing = null_of(column) if target.kind != "v" else None
            defaults.append(column_default(session, target, column) or missing)
    rows = tuple(
        tuple(d if d is not None and isinstance(v, SetToDefault) else v for v, d in zip(row, defaults, strict=True))
        for row in rte.values
    )
    rtable = list(modify.rtable)
    rtable[modify.values - 1] = replace(rte, values=rows)
    return replace(modify, rtable=tuple(rtable))
