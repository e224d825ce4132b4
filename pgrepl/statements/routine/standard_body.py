"""RETURN and BEGIN ATOMIC: a body that is analysed when the routine is made, and stored as trees (interpret_AS_clause).

What it uses is known: a table cannot be dropped without it, and may be renamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.transition_tables import without_transition_tables
from pgrepl.errors import PgError
from pgrepl.expr import stored, typefacts
from pgrepl.expr.analyze import analyze_modifying, analyze_query
from pgrepl.expr.dml.mapping import with_literals
from pgrepl.expr.sql_variables import SqlVariables, analysing
from pgrepl.expr.tree import Query, has_modifying_cte
from pgrepl.sql.nodes import (
    MODIFYING,
    ResTarget,
    ReturnStmt,
    SelectStmt,
    Statement,
)
from pgrepl.sql.tags import command_tag

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.dml.plan import Modify


def stored_body(
    session: Session,
    function: str,
    names: Sequence[str],
    types: Sequence[int],
    body: ReturnStmt | tuple[Statement, ...],
) -> dict[str, Any]:
    """The body as it is stored (expr/routines.py: body_of)."""
    if any(typoid in typefacts.POLYMORPHIC for typoid in types):
        raise PgError("0A000", "SQL function with unquoted function body cannot have polymorphic arguments")
    statements = body if isinstance(body, tuple) else (body,)
    with without_transition_tables(session), analysing(session, SqlVariables(session, function, names, types)):
        trees = [stored.to_json(_analyzed(session, stmt)) for stmt in statements]
    return {
        "return": not isinstance(body, tuple),
        "returns": [number for number, stmt in enumerate(statements) if isinstance(stmt, ReturnStmt)],
        "statements": trees,
    }


def _analyzed(session: Session, stmt: Statement) -> Query | Modify:
    if isinstance(stmt, ReturnStmt):
        return analyze_query(session, SelectStmt(targets=(ResTarget(stmt.value, location=stmt.location),)))
    if isinstance(stmt, SelectStmt) and stmt.into is None:
        query = analyze_query(session, stmt)
        if not has_modifying_cte(query.ctes):
            return query
    elif isinstance(stmt, MODIFYING):
        modify = with_literals(analyze_modifying(session, stmt))
        if not has_modifying_cte(modify.ctes):
            return modify
    raise PgError("0A000", f"{command_tag(stmt)} is not yet supported in unquoted SQL function body")
