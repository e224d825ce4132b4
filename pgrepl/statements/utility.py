"""The only entry to the statements: `execute` finds the function for a statement, as ProcessUtility does.

Modules are imported with their first statement. No statement calls `execute`: one that contains others (CREATE SCHEMA,
EXPLAIN ANALYZE) calls their functions itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import unsupported
from pgrepl.sql.nodes import SelectStmt, UnsupportedStmt
from pgrepl.sql.statements import command_tag, kind_of

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.query.result import Result
    from pgrepl.sql.nodes import Statement


def execute(stmt: Statement, session: Session) -> Result:
    """Carry out a statement. Errors are PgError; the caller ends the transaction."""
    kind = kind_of(stmt)
    if session.unsettled and not (kind.changes_rows or isinstance(stmt, SelectStmt)):
        session.settle()
    if kind.function is None:
        raise unsupported(stmt.what if isinstance(stmt, UnsupportedStmt) else command_tag(stmt))
    return _function(kind.function)(stmt, session)


@cache
def _function(path: str) -> Callable[[Any, Session], Result]:
    module, _, name = path.rpartition(".")
    function: Callable[[Any, Session], Result] = getattr(import_module(f"{__package__}.{module}"), name)
    return function
