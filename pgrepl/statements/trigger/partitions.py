"""Triggers when a table becomes a partition or a child, and when it stops being a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_TRIGGER, ObjectAddress
from pgrepl.catalog.depend import Dependency, forget_dependencies
from pgrepl.catalog.triggers import triggers_of
from pgrepl.errors import PgError
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.trigger.create import copy_to

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.catalog.session import Session


def refuse_transition_tables(session: Session, child: Relation, becomes: str, where: str) -> None:
    """A row of a parent may have come from any child (FindTriggerIncompatibleWithInheritance)."""
    for trigger in triggers_of(session, child.oid):
        if trigger.is_row and (trigger.old_table is not None or trigger.new_table is not None):
            raise PgError(
                "0A000",
                f'trigger "{trigger.name}" prevents table "{child.name}" from becoming {becomes}',
                detail=f"ROW triggers with transition tables are not supported {where}.",
            )


def clone_triggers(session: Session, parent: Relation, partition: Relation) -> None:
    """The parent's triggers of rows become the partition's, too (CloneRowTriggersToPartition)."""
    for trigger in triggers_of(session, parent.oid):
        if trigger.is_row:
            copy_to(session, trigger, parent, partition)


def drop_cloned_triggers(session: Session, partition: Relation) -> None:
    """As DropClonedTriggersFromPartition does."""
    for trigger in triggers_of(session, partition.oid):
        if not trigger.parent:
            continue
        address = ObjectAddress(PG_TRIGGER, trigger.oid)
        forget_dependencies(session, address, kind=Dependency.PARTITION_PRI)
        forget_dependencies(session, address, kind=Dependency.PARTITION_SEC)
        drop_objects(session, [address], cascade=False)
