"""CREATE TRIGGER and ALTER TABLE … ENABLE TRIGGER for the triggers of one table."""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.classes import PG_TRIGGER
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.triggers import Trigger, trigger_by_oid, triggers_of
from pgrepl.expr.trigger_definition import trigger_definition
from pgrepl.sql.quote import quote_identifier
from pgrepl.statements.dump import naming

_ENABLED = {"O": "ENABLE", "A": "ENABLE ALWAYS", "R": "ENABLE REPLICA", "D": "DISABLE"}


def triggers(session: Session, table: Relation) -> Iterator[str]:
    """The copies of a partition come with those of the partitioned table."""
    name = naming.qualified(table)
    for trigger in triggers_of(session, table.oid):
        parent = trigger_by_oid(session, trigger.parent) if trigger.parent else None
        if parent is None:
            yield f"{trigger_definition(session, trigger.oid)};"
        if trigger.enabled != (parent.enabled if parent is not None else "O"):
            yield enabled(name, trigger)
        if parent is None:
            on = f"TRIGGER {quote_identifier(trigger.name)} ON {name}"
            yield from naming.comment(session, on, PG_TRIGGER, trigger.oid)


def enabled(table: str, trigger: Trigger) -> str:
    return f"ALTER TABLE {table} {_ENABLED[trigger.enabled]} TRIGGER {quote_identifier(trigger.name)};"
