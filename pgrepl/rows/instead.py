"""INSTEAD OF triggers: they do what a statement says of the rows of a view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.rows.changes import ModifiedRow
from pgrepl.rows.materialize import Materialize
from pgrepl.rows.trigger_events import event_of
from pgrepl.rows.triggers import relation_triggers

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.rows.checks import RowChecks


def fire_instead(session: Session, checks: RowChecks, changes: Iterable[ModifiedRow]) -> list[ModifiedRow]:
    """Fire the triggers for each row. Returns the rows that count as changed, as the triggers give them back."""
    source = Materialize(changes)
    session.unsettled.append(source)
    try:
        return [change for _, change in instead_one_by_one(session, checks, source)]
    finally:
        session.unsettled.remove(source)
        if not session.unsettled:
            session.touched.clear()


def instead_one_by_one(
    session: Session, checks: RowChecks, changes: Iterable[ModifiedRow]
) -> Iterator[tuple[int, ModifiedRow]]:
    """Fire the triggers for each row before the next is looked at; gives the rows with the numbers of their changes."""
    view = checks.relation
    triggers = relation_triggers(session, view)
    for number, change in enumerate(changes):
        checks.failed = number
        row = change.new if change.new is not None else change.old
        if triggers is not None:
            row = triggers.instead(event_of(change), change.old, change.new)
        if row is not None:
            checks.take_written([number])
            yield number, replace(change, new=row if change.new is not None else None, to=view.oid)
    checks.failed = None
