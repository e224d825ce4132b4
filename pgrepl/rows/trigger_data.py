"""The call of a trigger function, as PostgreSQL's TriggerData describes it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from pgrepl.frozen import frozen
from pgrepl.rows.changes import Row

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.catalog.transition_tables import TransitionTable


class TriggerEvent(Enum):
    """TG_OP."""

    __hash__ = object.__hash__  # a member is one object, and is looked up for each row

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"


class TriggerWhen(Enum):
    """TG_WHEN."""

    __hash__ = object.__hash__

    BEFORE = "BEFORE"
    AFTER = "AFTER"
    INSTEAD_OF = "INSTEAD OF"


class TriggerLevel(Enum):
    """TG_LEVEL."""

    __hash__ = object.__hash__

    ROW = "ROW"
    STATEMENT = "STATEMENT"


@frozen
class TriggerData:
    """`relation` is the table or view on which the trigger fires: of a partitioned table the leaf, in whose layout the
    rows are (column n stands at n - 1). A statement's trigger has no rows, an INSERT no old one, a DELETE no new one.
    In BEFORE triggers the generated columns of `new` are NULL.

    A language's `call_trigger` returns the row that a BEFORE or INSTEAD OF row trigger gives back, in the same layout;
    of a DELETE any row; None: nothing is to be done with the row. What other triggers return is not looked at.
    """

    relation: Relation
    name: str
    event: TriggerEvent
    when: TriggerWhen
    level: TriggerLevel
    args: tuple[str, ...] = ()
    old: Row | None = None
    new: Row | None = None
    old_table: TransitionTable | None = None
    new_table: TransitionTable | None = None
