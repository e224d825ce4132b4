"""Transactions that only read may change the session's temporary tables, and nothing else (ExecCheckXactReadOnly)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import relation
from pgrepl.catalog.transaction import require_writable
from pgrepl.writing.views import on_tables

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.dml.plan import Modify
    from pgrepl.expr.tree import Cte


def check_writable(session: Session, what: str, ctes: Iterable[Cte], *statements: Modify) -> None:
    """Refuse, in a transaction that only reads, a statement and those in its WITH list unless every table and view on
    the way is temporary."""
    for modify in (*(cte.modify for cte in ctes if cte.modify is not None), *statements):
        for level in on_tables(session, modify)[1]:
            if relation(session, level.modify.relid).persistence != "t":
                require_writable(session, what)
