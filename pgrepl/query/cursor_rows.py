"""The rows of a cursor's query: which of them are computed when it is opened, and whether it goes backward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import relation
from pgrepl.expr.rewrite.views import expand_views
from pgrepl.expr.tree import Query, RangeRef, Rte, RteKind, has_modifying_cte
from pgrepl.expr.walk import has_effects, returns_set
from pgrepl.lake.read.files import last_snapshot
from pgrepl.lake.read.local import pin
from pgrepl.query.portal import CursorRows, Standing, placed_rows
from pgrepl.query.shape import is_user_table, levels, locks_rows

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def cursor_rows(session: Session, query: Query, *, waits: bool = False) -> tuple[Standing, CursorRows]:
    """The rows of a query whose privileges have been checked, and where they stand. `waits`: nothing but the query says
    what they are, so that they may be computed when the first is fetched."""
    standing, found = placed_rows(session, query)
    snapshot, stays = (reading_moment(session, query) if waits else None) or (None, False)
    if stays:
        return standing, CursorRows(session.read_at(snapshot, found), query)
    rows = CursorRows(found, query)
    rows.compute(1 if may_wait(session, query) else None)  # the first row fixes what is read
    return standing, rows


def reading_moment(session: Session, query: Query) -> tuple[int | None, bool] | None:
    """The snapshot that shows a query what it would see now (None: as things are), and whether it does so when this
    session has changed something. None: it does more than read."""
    if locks_rows(query) or has_modifying_cte(query.ctes):
        return None
    expanded = expand_views(session, query)
    if has_effects(expanded):
        return None
    found = [entry for level in levels(expanded) for entry in level.rtable if entry.kind is RteKind.RELATION]
    if not found:
        return None, True
    snapshot = last_snapshot(session)
    if any(map(is_user_table, found)):
        pin(session, snapshot)
    return snapshot, all(map(is_user_table, found)) and not session.transaction.has_written


def scrolls(query: Query, wanted: bool | None) -> bool:
    """Whether the cursor goes backward. `wanted`: SCROLL or NO SCROLL."""
    return wanted if wanted is not None else not query.row_marks and _goes_backward(query)


def may_wait(session: Session, query: Query) -> bool:
    """Whether the rows may be computed later: they come from one table or function, which is opened at the first."""
    if len(query.rtable) != 1 or query.has_sublinks or query.ctes or query.row_marks:
        return False
    (entry,) = query.rtable
    if is_user_table(entry):
        return entry.relkind in ("r", "m") and not relation(session, entry.relid).has_subclass
    return entry.kind is RteKind.FUNCTION


def _goes_backward(query: Query) -> bool:
    """Whether the plan can be run backward, so that the cursor scrolls without SCROLL (ExecSupportsBackwardScan)."""
    if query.set_operation is not None or (query.ctes and any(cte.recursive for cte in query.ctes)):
        return False
    if query.sort:
        return True
    if (
        query.group or query.grouping_sets or query.having is not None or query.windows or query.has_aggregates
        or query.distinct is not None or any(returns_set(target.expr) for target in query.targets)
    ):  # fmt: skip
        return False
    only = query.from_[0] if len(query.from_) == 1 else None
    if not isinstance(only, RangeRef):
        return False
    entry: Rte = query.rtable[only.varno - 1]
    if entry.kind is RteKind.SUBQUERY:
        return entry.subquery is not None and _goes_backward(entry.subquery)
    return True
