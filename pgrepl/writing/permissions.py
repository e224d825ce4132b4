"""The privileges that a statement needs on the relations it changes (ExecCheckOneRelPerms)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog import acl
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.expr.dml.plan import TARGET, Command, Modify
from pgrepl.expr.tree import MERGE_ACTION, Query, RangeRef, RteKind, Target
from pgrepl.query import permissions
from pgrepl.query.columns import used_columns

if TYPE_CHECKING:
    from pgrepl.writing.views import ViewLevel


def check(session: Session, levels: Sequence[ViewLevel]) -> None:
    """Check the privilege to change the target, and SELECT on everything that the statement reads. Behind a view the
    view's owner changes the table, and must be able to read all columns that the view uses, if the statement reads the
    view (rewriteTargetView)."""
    everything = _as_query(levels[0].modify)
    columns = _read_columns(everything, levels[0].modify)
    for level in levels:
        target = relation(session, level.modify.relid)
        asked = columns if level is levels[0] or not columns else level.shown
        if not _allowed(session, target, level.modify, asked, level.role):
            raise acl.permission_denied(target)
        read = level.where
        if level is levels[0]:
            hidden = {TARGET}
            if level.modify.conflict is not None:
                hidden.add(level.modify.conflict.excluded)
            read = _without(everything, hidden)
            permissions.check_functions(session, read)
        if read is not None:
            permissions.check(session, read, level.role)


def _without(query: Query, hidden: set[int]) -> Query:
    """The query with the hidden relations as VALUES, so that no privilege on them is checked."""
    rtable = tuple(
        replace(rte, kind=RteKind.VALUES, relid=0) if n in hidden else rte for n, rte in enumerate(query.rtable, 1)
    )
    return replace(query, rtable=rtable)


def _as_query(modify: Modify) -> Query:
    """All expressions that the statement has, as if they were the columns of a query."""
    exprs = [a.expr for a in modify.assigned] + [t.expr for t in modify.returning]
    exprs += modify.merge.exprs if modify.merge is not None else ()
    conflict = modify.conflict
    if conflict is not None:
        exprs += [e.expr for e in conflict.elements]
        exprs += [a.expr for a in conflict.assigned or ()]
        exprs += [e for e in (conflict.arbiter_where, conflict.where) if e is not None]
    return Query(
        tuple(Target(expr, "", n) for n, expr in enumerate(exprs, 1)),
        modify.rtable,
        modify.from_ if modify.command is not Command.INSERT else tuple(modify.from_) or (RangeRef(TARGET),),
        modify.where,
        ctes=modify.ctes,
        recursive=modify.recursive,
    )


def _read_columns(query: Query, modify: Modify) -> frozenset[int]:
    by_relation = used_columns(query)
    used = by_relation.get(TARGET, frozenset()) - {MERGE_ACTION}
    if modify.conflict is not None:
        # `excluded` has the rights of the table
        used |= modify.conflict.constraint_columns | by_relation.get(modify.conflict.excluded, frozenset())
    return used


def _allowed(session: Session, target: Relation, modify: Modify, read: frozenset[int], role: int) -> bool:
    commands, named = modify.commands, modify.named_by
    if Command.DELETE in commands and not acl.has_table_privilege(session, target, "DELETE", role):
        return False
    if Command.INSERT in commands and not _may_change(session, target, "INSERT", named(Command.INSERT), role):
        return False
    updated = named(Command.UPDATE) if Command.UPDATE in commands else None
    conflict = modify.conflict
    if conflict is not None and conflict.assigned is not None:
        updated = frozenset(a.attnum for a in conflict.assigned)
    if updated is not None and not _may_change(session, target, "UPDATE", updated, role):
        return False
    reads = read or (modify.merge is not None and any(action.command is None for action in modify.merge.actions))
    if not reads:
        return True
    return _may_read(session, target, read, role)


def _may_read(session: Session, target: Relation, read: frozenset[int], role: int) -> bool:
    if acl.has_table_privilege(session, target, "SELECT", role):
        return True
    if not read:
        return any(acl.has_column_privilege(session, target, a.num, "SELECT", role) for a in target.columns)
    wanted = read if 0 not in read else {*read, *(a.num for a in target.columns)} - {0}
    return all(acl.has_column_privilege(session, target, n, "SELECT", role) for n in wanted)


def _may_change(session: Session, target: Relation, privilege: str, columns: frozenset[int], role: int) -> bool:
    """The privilege on each named column; on any column if none is named (ExecCheckPermissionsModified)."""
    if acl.has_table_privilege(session, target, privilege, role):
        return True
    if not columns:
        return any(acl.has_column_privilege(session, target, a.num, privilege, role) for a in target.columns)
    return all(acl.has_column_privilege(session, target, n, privilege, role) for n in columns)
