"""Column defaults and generation expressions, read from the catalog (pg_attrdef)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import store
from pgrepl.catalog.tables import pg_attrdef
from pgrepl.expr import stored
from pgrepl.expr.deparse import stored_expression_text
from pgrepl.expr.tree import Expr

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def default_of(session: Session, relid: int, attnum: int) -> Expr | None:
    row = store.one(session, pg_attrdef, adrelid=relid, adnum=attnum)
    return None if row is None else stored.from_json(row.adbin, session)


def default_text(session: Session, relid: int, attnum: int, pretty: bool = False) -> str | None:
    """A column's default or generation expression as pg_get_expr prints it."""
    row = store.one(session, pg_attrdef, adrelid=relid, adnum=attnum)
    return None if row is None else stored_expression_text(session, row.adbin, relid, pretty)


def defaults_of(session: Session, relid: int) -> dict[int, Expr]:
    """The defaults and generation expressions of a relation by column number."""
    rows = store.rows(session, pg_attrdef, adrelid=relid)
    return {row.adnum: stored.from_json(row.adbin, session) for row in rows}
