"""RETURNING: a select list over the rows that were written."""

from __future__ import annotations

from pgrepl.errors import PgError
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.rawplaces import raw_location
from pgrepl.expr.scope import Scope
from pgrepl.expr.targets import mark_origins, resolve_unknowns, transform_targets
from pgrepl.expr.tree import Target
from pgrepl.sql.nodes import ResTarget


def transform_returning(
    scope: Scope, items: tuple[ResTarget, ...], kind: ExprKind = ExprKind.RETURNING
) -> tuple[Target, ...]:
    """As transformReturningList does."""
    if not items:
        return ()
    saved, scope.next_resno = scope.next_resno, 1
    targets = mark_origins(scope, transform_targets(scope, items, kind))
    if not targets:
        raise PgError("42601", "RETURNING must have at least one column", location=raw_location(items[0].value))
    if scope.resolve_unknowns:
        targets = resolve_unknowns(scope, targets)
    scope.next_resno = saved
    return tuple(Target(assign_collations(t.expr), t.name, t.resno, origin=t.origin) for t in targets)
