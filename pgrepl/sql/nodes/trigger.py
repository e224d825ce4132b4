"""CREATE TRIGGER."""

from __future__ import annotations

from pgrepl.frozen import frozen
from pgrepl.sql.nodes.expr import Expr, Node, RangeVar, Statement


@frozen
class TriggerTransition(Node):
    """REFERENCING OLD | NEW TABLE | ROW AS name."""

    name: str
    is_new: bool
    is_table: bool


@frozen
class TriggerEventSpec(Node):
    event: str  # INSERT, UPDATE, DELETE, TRUNCATE
    columns: tuple[str, ...] = ()  # UPDATE OF


@frozen
class CreateTrigStmt(Statement):
    name: str
    relation: RangeVar
    function: tuple[str, ...]
    args: tuple[str, ...]
    timing: str  # BEFORE, AFTER, INSTEAD OF
    events: tuple[TriggerEventSpec, ...]
    row: bool
    when: Expr | None = None
    transitions: tuple[TriggerTransition, ...] = ()
    replace: bool = False
    is_constraint: bool = False
    deferrable: bool = False
    initially_deferred: bool = False
    referenced: RangeVar | None = None  # FROM of a constraint trigger

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of UPDATE OF."""
        return tuple([name for event in self.events for name in event.columns])


__all__ = ["CreateTrigStmt", "TriggerEventSpec", "TriggerTransition"]
