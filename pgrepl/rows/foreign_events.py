"""The events that fire the triggers of foreign keys and of deferrable unique constraints (AfterTriggerEvent)."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pgrepl.frozen import frozen
from pgrepl.rows.changes import Row
from pgrepl.rows.foreign_key import NO_ACTION, RESTRICT, ForeignKey
from pgrepl.rows.unique import UniqueIndex


class Does(Enum):
    CHECK = "check"  # a row of the referencing table came or changed
    UPDATE = "update"  # a key of the referenced table became another
    DELETE = "delete"  # a key of the referenced table went


@frozen
class Event:
    """One row for one foreign key. `row` is in the layout of `table`: of a CHECK the new row in its own table, else the
    old row as the referenced table of the key has it, and `new` what became of it."""

    key: ForeignKey
    does: Does
    table: int
    row: Row
    new: Row | None = None

    @property
    def action(self) -> str:
        """What is done; of a CHECK nothing but looking."""
        if self.does is Does.CHECK:
            return ""
        return self.key.on_update if self.does is Does.UPDATE else self.key.on_delete

    @property
    def acts(self) -> bool:
        return self.action not in ("", NO_ACTION, RESTRICT)

    @property
    def can_wait(self) -> bool:
        return self.does is Does.CHECK or self.action == NO_ACTION


@frozen
class Recheck:
    """A key of a deferrable constraint that somebody else had when the row came."""

    index: UniqueIndex
    values: tuple[Any, ...]

    @property
    def table(self) -> int:
        return self.index.relation.oid


Fired = Event | Recheck
