"""Calls of triggers that are to be made after a statement, and the transition tables that they see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation
from pgrepl.catalog.transition_tables import TransitionTable
from pgrepl.rows.changes import Row
from pgrepl.rows.trigger_data import TriggerEvent
from pgrepl.rows.triggers import Firing
from pgrepl.rows.write import next_snapshot

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


@dataclass(eq=False, slots=True)
class Captured:
    """The rows of the transition tables of one relation and event, in its layout."""

    relation: Relation
    old: list[Row] = field(default_factory=list)
    new: list[Row] = field(default_factory=list)
    seen: bool = False  # by a trigger: later rows go into other tables


@dataclass(eq=False, slots=True)
class TriggerCall:
    """A trigger to call after the statement."""

    firing: Firing
    event: TriggerEvent
    old: Row | None = None
    new: Row | None = None
    captured: Captured | None = None

    @property
    def table(self) -> int:
        return self.firing.relation.oid

    @property
    def name(self) -> bytes:
        return self.firing.trigger.name.encode()

    def make(self, session: Session) -> None:
        trigger, captured = self.firing.trigger, self.captured
        next_snapshot(session)
        if captured is None:
            self.firing.call(session, self.event, self.old, self.new)
            return
        captured.seen = True
        old_table = new_table = None
        if trigger.old_table is not None:
            old_table = TransitionTable(trigger.old_table, captured.relation, captured.old)
        if trigger.new_table is not None:
            new_table = TransitionTable(trigger.new_table, captured.relation, captured.new)
        self.firing.call(session, self.event, self.old, self.new, (old_table, new_table))
