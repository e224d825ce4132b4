"""Any statement that changes rows, by its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.errors import unsupported
from pgrepl.expr.dml.plan import Modify
from pgrepl.expr.scope import Scope
from pgrepl.sql.nodes import DeleteStmt, InsertStmt, MergeStmt, Statement, UpdateStmt

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def analyze_modifying(session: Session, stmt: Statement, parent: Scope | None = None) -> Modify:
    """The statement as it was written. `parent` is the scope whose WITH list it stands in."""
    if isinstance(stmt, InsertStmt):
        from pgrepl.expr.dml.insert import analyze_insert

        return analyze_insert(session, stmt, parent)
    if isinstance(stmt, UpdateStmt):
        from pgrepl.expr.dml.update import analyze_update

        return analyze_update(session, stmt, parent)
    if isinstance(stmt, DeleteStmt):
        from pgrepl.expr.dml.update import analyze_delete

        return analyze_delete(session, stmt, parent)
    assert isinstance(stmt, MergeStmt)
    raise unsupported("MERGE")
