"""SELECT over statements in WITH that change rows: `WITH gone AS (DELETE … RETURNING *) SELECT … FROM gone`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog.lock_modes import RelationMode
from pgrepl.catalog.transaction import is_read_only
from pgrepl.expr.analyze import analyze_query
from pgrepl.expr.tree import Query
from pgrepl.query import permissions
from pgrepl.rows.locking import lock_tables, others_hold_locks
from pgrepl.sql.nodes import SelectStmt
from pgrepl.writing.read_only import check_writable
from pgrepl.writing.run import target_tables
from pgrepl.writing.together import Together

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def select_modifying(session: Session, stmt: SelectStmt) -> tuple[Query, list[tuple[Any, ...]]]:
    """The analysed query and its rows; what it changes is written."""
    if is_read_only(session):
        check_writable(session, "SELECT", analyze_query(session, stmt).ctes)
    transaction = session.transaction
    if not transaction.keeps_pending:
        transaction.require_write()
        others_hold_locks(session)
    query = analyze_query(session, stmt)
    while transaction.keeps_pending:
        tables = [oid for cte in query.ctes if cte.modify is not None for oid in target_tables(session, cte.modify)]
        if not lock_tables(session, tables, RelationMode.ROW_EXCLUSIVE):
            break
        query = analyze_query(session, stmt)
    permissions.check(session, query)
    permissions.check_functions(session, query)
    return query, modifying_rows(session, query)


def modifying_rows(session: Session, query: Query) -> list[tuple[Any, ...]]:
    """The rows of a query whose privileges have been checked; the session holds the locks it needs."""
    return Together(session, query.ctes).select(query)
