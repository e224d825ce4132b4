"""The events that fire the triggers of foreign keys, of deferrable unique constraints, and those of CREATE TRIGGER
(AfterTriggerEvent)."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pgrepl.frozen import frozen
from pgrepl.rows.changes import Row
from pgrepl.rows.foreign_key import NO_ACTION, RESTRICT, ForeignKey
from pgrepl.rows.trigger_calls import TriggerCall
from pgrepl.rows.unique import UniqueIndex


class EventKind(Enum):
    CHECK = "check"  # a row of the referencing table was inserted, or its key updated
    UPDATE = "update"  # a key of the referenced table was updated
    DELETE = "delete"  # a row of the referenced table was deleted


@frozen
class Event:
    """The event of one row for one foreign key. `row` is in the layout of `table`: of a CHECK the new row in its own
    table, else the old row as the referenced table of the key has it, with its new version in `new`."""

    key: ForeignKey
    kind: EventKind
    table: int
    row: Row
    new: Row | None = None

    @property
    def action(self) -> str:
        """The action on the referencing rows; empty for a CHECK."""
        if self.kind is EventKind.CHECK:
            return ""
        return self.key.on_update if self.kind is EventKind.UPDATE else self.key.on_delete

    @property
    def acts(self) -> bool:
        return self.action not in ("", NO_ACTION, RESTRICT)

    @property
    def name(self) -> bytes:
        """The trigger's name, which decides about the order."""
        side = "c" if self.kind is EventKind.CHECK else "a"
        return f"RI_ConstraintTrigger_{side}_{self.key.oid}".encode()

    @property
    def can_wait(self) -> bool:
        return self.kind is EventKind.CHECK or self.action == NO_ACTION


@frozen
class Recheck:
    """A key of a deferrable constraint that another row had when the row was written."""

    index: UniqueIndex
    values: tuple[Any, ...]

    @property
    def table(self) -> int:
        return self.index.relation.oid

    @property
    def name(self) -> bytes:
        return f"{'PK' if self.index.info.primary else 'Unique'}_ConstraintTrigger_{self.index.info.oid}".encode()


Fired = Event | Recheck | TriggerCall
