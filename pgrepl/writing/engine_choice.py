"""The choice of engine for INSERT, UPDATE, DELETE and MERGE, as pgrepl/engine.py judges it; COPY: copy/copy_from.py."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import relation
from pgrepl.engine import Choice, Engine, choose_to_change
from pgrepl.errors import Declined
from pgrepl.expr.context import Context
from pgrepl.expr.dml.plan import Command, Modify
from pgrepl.expr.dml.queries import insert_query, target_rows_query
from pgrepl.expr.rewrite import expand_views
from pgrepl.query.engine_choice import choose_to_write, counted_rows, extent_of
from pgrepl.rows.trigger_data import TriggerEvent
from pgrepl.rows.triggers import refuse_triggers

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.tree import Query
    from pgrepl.lake.files import Extent


def choose_to_modify(session: Session, modify: Modify, *, hidden: bool = False, kernels: bool = True) -> Choice:
    """Choose by the number of rows that the statement's query reads. `hidden`: row security lets no row in; `kernels`:
    false once they have declined. Kernels lock no rows, so a transaction that keeps its changes pending does not use
    them."""
    if hidden or modify.returning or modify.check_options:
        return Choice(Engine.LOCAL, "each row is looked at by itself")
    target = relation(session, modify.relid)
    if target.kind == "v":
        return Choice(Engine.LOCAL, f'view "{target.name}" has triggers')
    try:
        events = [TriggerEvent(command.value) for command in modify.commands]
        if modify.conflict is not None and modify.conflict.assigned is not None:
            events.append(TriggerEvent.UPDATE)
        refuse_triggers(session, modify.relid, *events)
    except Declined as reason:
        return Choice(Engine.LOCAL, str(reason))
    if modify.command is Command.INSERT:
        query = insert_query(session, modify)
    elif modify.command is Command.MERGE:
        from pgrepl.expr.dml.merge_queries import joined_query

        query = joined_query(session, modify).query
    else:
        query = target_rows_query(session, modify, None, frozenset()).query
    query, context = expand_views(session, query), Context(session)
    return choose_to_change(
        session,
        lambda: _extent(session, query, context),
        partial(_check_fits, session, modify) if kernels and not session.transaction.keeps_pending else None,
        lambda: choose_to_write(session, query, context),
    )


def _extent(session: Session, query: Query, context: Context) -> Extent:
    from pgrepl.lake.files import Extent

    return extent_of(session, query, context, 1) + Extent(counted_rows(query, context))


def _check_fits(session: Session, modify: Modify) -> None:
    """Declined if kernels over Arrow cannot carry out a statement of this shape."""
    from pgrepl.writing.insert_columns import rows_from
    from pgrepl.writing.modify_columns import check_simple

    if modify.command is Command.MERGE:
        raise Declined("MERGE")
    if modify.command is Command.INSERT:
        rows_from(session, modify)
    else:
        check_simple(session, modify)
