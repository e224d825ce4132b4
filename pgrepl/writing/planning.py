"""The plan of a statement that changes rows, and how it is carried out in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.relation import relation
from pgrepl.catalog.row_security import hides_rows
from pgrepl.engine import Choice
from pgrepl.expr.dml.defaults import with_constants
from pgrepl.expr.dml.plan import Command, Modify
from pgrepl.frozen import frozen
from pgrepl.writing import permissions
from pgrepl.writing.targets import check_targets
from pgrepl.writing.views import on_tables

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.writing.modify import Running


@frozen
class ModifyPlan:
    """A statement on tables, with all defaults; its privileges have been checked."""

    modify: Modify
    arbiters: frozenset[int] = frozenset()
    hidden: bool = False  # row security hides all rows
    choice: Choice | None = None  # of the engine; None: row by row, as the statement stands in a WITH list


def plan(session: Session, written: Modify) -> ModifyPlan:
    """Plan the statement and check its privileges."""
    from pgrepl.rows.arbiters import arbiter_indexes

    modify, levels = on_tables(session, written)
    modify = with_constants(session, modify)
    arbiters = arbiter_indexes(session, modify, modify.conflict) if modify.conflict is not None else frozenset()
    permissions.check(session, levels)
    check_targets(session, modify)
    return ModifyPlan(modify, arbiters, hides_rows(session, relation(session, modify.relid), levels[-1].role))


def running(session: Session, planned: ModifyPlan) -> Running:
    """The statement, ready to be carried out in this process."""
    from pgrepl.writing.modify import insert, instead, nothing, update_or_delete

    modify = planned.modify
    if modify.command is Command.MERGE:
        from pgrepl.writing.merge import merge

        return merge(session, modify, hidden=planned.hidden)
    if relation(session, modify.relid).kind == "v":
        return instead(session, modify)
    if modify.command is Command.INSERT:
        return insert(session, modify, planned.arbiters, hidden=planned.hidden)
    if planned.hidden:
        return nothing(session, modify)
    return update_or_delete(session, modify)
