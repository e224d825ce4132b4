"""Which engine carries out a statement that changes rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.engine import Choice, Engine, never_spark
from pgrepl.expr.context import Context
from pgrepl.expr.dml.plan import Command, Modify
from pgrepl.expr.dml.queries import found_query, insert_query
from pgrepl.expr.rewrite import expand_views
from pgrepl.query.engine_choice import choose_to_write

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def choose_to_modify(session: Session, modify: Modify, *, hidden: bool = False) -> Choice:
    """By the rows its query looks at. `hidden`: row security lets nobody through."""
    if hidden or modify.returning or modify.check_options:
        return Choice(Engine.LOCAL, "each row is looked at by itself")
    if never_spark(session):
        return Choice(Engine.LOCAL, 'pgrepl.engine is "local"')
    if modify.command is Command.INSERT:
        query = insert_query(session, modify)
    else:
        query = found_query(session, modify, None, frozenset()).query
    return choose_to_write(session, expand_views(session, query), Context(session))
