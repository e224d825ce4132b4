"""Whether a statement is large enough to be Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.expr.context import Context
from pgrepl.expr.dml.plan import Command, Modify
from pgrepl.expr.dml.queries import found_query, insert_query
from pgrepl.expr.rewrite import expand_views
from pgrepl.query.size import choose, rows_to_look_at

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def is_large(session: Session, modify: Modify) -> bool:
    """By the rows its query looks at, as a SELECT would be judged; but what only gives the rows of a table, which is
    best read here to be shown, is not best read here to be written."""
    if session.settings.get("pgrepl.engine") == "local":
        return False
    if modify.command is Command.INSERT:
        query = insert_query(session, modify)
    else:
        query = found_query(session, modify, None, frozenset()).query
    query, context = expand_views(session, query), Context(session)
    if choose(session, query, context).spark:
        return True
    if session.settings.get("pgrepl.engine") != "auto":
        return False
    return rows_to_look_at(session, query, context) > int(session.settings.value("pgrepl.local_rows"))
