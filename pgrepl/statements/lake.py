"""What the catalog asks of the lake, with what only commands know: the values of defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session import LakeKeeper
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


class _Keeper:
    """Loads what it needs when there is something to do."""

    def define(self, session: Session) -> None:
        from pgrepl.lake.definition import define

        define(session, _constant)

    def adopt(self, session: Session) -> None:
        if session.transaction.numbering.lake_is_new():
            from pgrepl.lake.definition import define_everything

            define_everything(session, _constant)
            return
        from pgrepl.statements.adoption import adopt_all

        adopt_all(session, _constant)


def _constant(stored_expression: Any) -> Any:
    """The value of a default, if it is the same for every row and at any time; else None."""
    from pgrepl.expr import stored
    from pgrepl.expr.evaluate import evaluate
    from pgrepl.expr.tree import Const
    from pgrepl.expr.walk import contains_mutable_functions, has_vars

    expr = stored.from_json(stored_expression)
    if isinstance(expr, Const):
        return expr.value
    if has_vars(expr) or contains_mutable_functions(expr):
        return None
    try:
        return evaluate(expr)
    except PgError:  # each INSERT will say so
        return None


KEEPER: LakeKeeper = _Keeper()
