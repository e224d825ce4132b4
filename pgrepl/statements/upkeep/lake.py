"""Brings DuckLake's rows in line with the system tables, and the system tables with what other writers define in the
lake. Passes down the values of defaults, which need `expr`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.expr import stored
from pgrepl.expr.evaluate.evaluate import evaluate
from pgrepl.expr.tree import Const
from pgrepl.expr.walk import contains_mutable_functions, has_vars
from pgrepl.ground.errors import PgError
from pgrepl.lake.define import definition
from pgrepl.lake.define.definition import define_everything

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def define(session: Session) -> None:
    """Bring DuckLake's rows in line with the running statement's changes of definitions."""
    definition.define(session, _constant)


def adopt(session: Session) -> None:
    """Bring the system tables in line with what other writers have defined in the lake."""
    if session.transaction.numbering.lake_is_new():
        define_everything(session, _constant)
        return
    from pgrepl.statements.upkeep.adoption import adopt_all

    adopt_all(session, _constant)


def _constant(session: Session, stored_expression: Any) -> Any:
    """The value of a default, if it is the same for every row and at any time; else None."""
    expr = stored.from_json(stored_expression, session)
    if isinstance(expr, Const):
        return expr.value
    if has_vars(expr) or contains_mutable_functions(expr):
        return None
    try:
        return evaluate(expr)
    except PgError:  # each INSERT will raise it
        return None
