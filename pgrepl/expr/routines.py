"""The trees that a user's routine stores: the defaults of its parameters, and a body that is no string."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog.routines import routine_row
from pgrepl.expr.stored import from_json

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.dml.plan import Modify
    from pgrepl.expr.tree import Expr, Query


def default_arguments(session: Session, oid: int) -> tuple[Expr, ...]:
    """The defaults of the last input parameters of a user's routine."""
    row = routine_row(session, oid)
    if row is None or row.proargdefaults is None:
        return ()
    return tuple(from_json(data, session) for data in row.proargdefaults)


def body_of(session: Session, stored: dict[str, Any]) -> list[Query | Modify]:
    """The statements of a body that is no string. {"statements": […]}; "return": the body is RETURN alone; "returns":
    the numbers of the statements that are RETURN."""
    return [from_json(data, session) for data in stored["statements"]]
