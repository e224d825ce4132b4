"""The expressions that a user's routine stores: the defaults of its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.routines import routine_row
from pgrepl.expr.stored import from_json

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.tree import Expr


def default_arguments(session: Session, oid: int) -> tuple[Expr, ...]:
    """The defaults of the last input parameters of a user's routine."""
    row = routine_row(session, oid)
    if row is None or row.proargdefaults is None:
        return ()
    return tuple(from_json(data, session) for data in row.proargdefaults)
