"""Which engine carries out a statement that changes rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.engine import Choice, Declined, Engine, choose_to_change, never_spark
from pgrepl.expr.context import Context
from pgrepl.expr.dml.plan import Command, Modify
from pgrepl.expr.dml.queries import found_query, insert_query
from pgrepl.expr.rewrite import expand_views
from pgrepl.query.engine_choice import choose_to_write, extent_of

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def choose_to_modify(session: Session, modify: Modify, *, hidden: bool = False, kernels: bool = True) -> Choice:
    """By the rows its query looks at. `hidden`: row security lets nobody through; `kernels`: not if they have been
    tried. What keeps its changes aside locks rows one by one, or is so large that it locks the table first."""
    if hidden or modify.returning or modify.check_options:
        return Choice(Engine.LOCAL, "each row is looked at by itself")
    if modify.command is Command.INSERT:
        query = insert_query(session, modify)
    else:
        query = found_query(session, modify, None, frozenset()).query
    context = Context(session)
    if kernels and modify.command is not Command.INSERT and not session.transaction.keeps_aside:
        found = choose_to_change(
            session, lambda: extent_of(session, query, context, 1), lambda: _fits_kernels(session, modify)
        )
        if found is not None:
            return found
    if never_spark(session):
        return Choice(Engine.LOCAL, 'pgrepl.engine is "local"')
    return choose_to_write(session, expand_views(session, query), context)


def _fits_kernels(session: Session, modify: Modify) -> bool:
    from pgrepl.writing.modify_columns import check_simple

    try:
        check_simple(session, modify)
    except Declined:
        return False
    return True
