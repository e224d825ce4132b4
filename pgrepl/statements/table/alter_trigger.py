"""ALTER, DROP, ENABLE and DISABLE TRIGGER, and triggers when a table becomes a partition or stops being one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import triggers
from pgrepl.catalog.facts.acl import check_owner, check_relation_owner
from pgrepl.catalog.facts.depend import Dependency, forget_dependencies
from pgrepl.catalog.facts.namespace import explicit_schema
from pgrepl.catalog.facts.objects import describe_object
from pgrepl.catalog.facts.relation import find_relation, range_var, relation
from pgrepl.catalog.facts.relation_parts import not_supported
from pgrepl.catalog.facts.roles import is_superuser
from pgrepl.catalog.facts.triggers import triggers_of
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CONSTRAINT, PG_TRIGGER, ObjectAddress
from pgrepl.catalog.store.tables import pg_trigger
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterTableCmd, DropStmt, RenameStmt
from pgrepl.sql.nodes import AlterTableKind as K
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.table.create_trigger import copy_to

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.facts.triggers import Trigger
    from pgrepl.catalog.session.session import Session
    from pgrepl.statements.table.alter.work import AlteredTable, WorkQueue


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
    """Drops the triggers that a partition got from its parent (DropClonedTriggersFromPartition)."""
    for trigger in triggers_of(session, partition.oid):
        if not trigger.parent:
            continue
        address = ObjectAddress(PG_TRIGGER, trigger.oid)
        forget_dependencies(session, address, kind=Dependency.PARTITION_PRI)
        forget_dependencies(session, address, kind=Dependency.PARTITION_SEC)
        drop_objects(session, [address], cascade=False)


def _no_trigger(name: str, table: str) -> PgError:
    return PgError("42704", f'trigger "{name}" for table "{table}" does not exist')


# --- RENAME -----------------------------------------------------------------------------------------------------------


def rename_trigger(stmt: RenameStmt, session: Session) -> Result:
    """ALTER TRIGGER … RENAME TO (renametrig)."""
    assert stmt.relation is not None and stmt.name is not None
    rel = find_relation(session, replace(stmt.relation, location=-1))
    if rel.kind not in "rvpf":
        raise PgError("42809", f'relation "{rel.name}" cannot have triggers', detail=not_supported(rel.kind))
    check_relation_owner(session, rel)
    if rel.is_catalog:
        raise PgError("42501", f'permission denied: "{rel.name}" is a system catalog')
    trigger = triggers.trigger_named(session, rel.oid, stmt.name)
    if trigger is None:
        raise _no_trigger(stmt.name, rel.name)
    if trigger.parent and not trigger.is_internal:
        parent = triggers.trigger_by_oid(session, trigger.parent)
        assert parent is not None
        raise PgError(
            "0A000",
            f'cannot rename trigger "{stmt.name}" on table "{rel.name}"',
            hint=f'Rename the trigger on the partitioned table "{relation(session, parent.relid).name}" instead.',
        )
    _rename(session, trigger, stmt.name, stmt.new_name)
    return Result("ALTER TRIGGER")


def _rename(session: Session, trigger: Trigger, expected: str, name: str) -> None:
    table = relation(session, trigger.relid).name
    if trigger.name != expected:
        message = f'renamed trigger "{trigger.name}" on relation "{table}"'
        session.notice("NOTICE", message)
    if name != trigger.name and triggers.trigger_named(session, trigger.relid, name) is not None:
        raise PgError("42710", f'trigger "{name}" for relation "{table}" already exists')
    store.update(session, pg_trigger, {"oid": trigger.oid}, tgname=name)
    for copy in triggers.copies_of(session, trigger.oid):
        _rename(session, copy, expected, name)


# --- DROP -------------------------------------------------------------------------------------------------------------


def drop_trigger(stmt: DropStmt, session: Session) -> Result:
    (*table, name) = stmt.names[0]
    rel = _table_of(session, tuple(table), name, missing_ok=stmt.missing_ok)
    if rel is None:
        return Result("DROP TRIGGER")
    trigger = triggers.trigger_named(session, rel.oid, name)
    if trigger is None:
        if not stmt.missing_ok:
            raise _no_trigger(name, rel.name)
        session.notice("NOTICE", f'trigger "{name}" for relation "{".".join(table)}" does not exist, skipping')
        return Result("DROP TRIGGER")
    check_owner(session, "relation", rel.name, rel.owner)
    if trigger.is_internal:
        raise _is_required(session, trigger, rel)
    drop_objects(session, [ObjectAddress(PG_TRIGGER, trigger.oid)], cascade=stmt.cascade)
    return Result("DROP TRIGGER")


def _table_of(session: Session, table: tuple[str, ...], name: str, *, missing_ok: bool) -> Relation | None:
    """The relation; None: it does not exist, which has been said (get_object_address_relobject)."""
    written = range_var(table)
    if not missing_ok:
        return find_relation(session, written)
    if written.schema is not None and not explicit_schema(session, written.schema, missing_ok=True):
        session.notice("NOTICE", f'schema "{written.schema}" does not exist, skipping')
        return None
    rel = find_relation(session, written, missing_ok=True)
    if rel is None:
        session.notice("NOTICE", f'relation "{".".join(table)}" does not exist, skipping')
    return rel


def _is_required(session: Session, trigger: Trigger, rel: Relation) -> PgError:
    """A trigger of a constraint goes with it."""
    whole = describe_object(session, ObjectAddress(PG_CONSTRAINT, trigger.constraint))
    return PgError(
        "2BP01",
        f"cannot drop trigger {trigger.name} on table {rel.name} because {whole} requires it",
        hint=f"You can drop {whole} instead.",
    )


# --- ENABLE, DISABLE --------------------------------------------------------------------------------------------------

ENABLED = {
    K.ENABLE_TRIGGER: "O", K.ENABLE_ALWAYS_TRIGGER: "A", K.ENABLE_REPLICA_TRIGGER: "R", K.ENABLE_TRIGGER_ALL: "O",
    K.ENABLE_TRIGGER_USER: "O", K.DISABLE_TRIGGER: "D", K.DISABLE_TRIGGER_ALL: "D", K.DISABLE_TRIGGER_USER: "D",
}  # fmt: skip
_USER = (K.ENABLE_TRIGGER_USER, K.DISABLE_TRIGGER_USER)


def enable_named(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    """ENABLE or DISABLE TRIGGER."""
    rel, enabled = work.relation(altered), ENABLED[cmd.kind]
    enable(work.session, rel, cmd.name, enabled, skip_system=cmd.kind in _USER, recurse=recurse)


def enable(
    session: Session, rel: Relation, name: str | None, enabled: str, *, skip_system: bool = False, recurse: bool = True
) -> None:
    """As EnableDisableTrigger does; `name` None: all."""
    found = [*triggers.triggers_of(session, rel.oid), *triggers.constraint_triggers(session, rel.oid)]
    if name is not None:
        found = [trigger for trigger in found if trigger.name == name]
        if not found:
            raise _no_trigger(name, rel.name)
    for trigger in found:
        if trigger.is_internal:
            if skip_system:
                continue
            if not is_superuser(session, session.role):
                raise PgError("42501", f'permission denied: "{trigger.name}" is a system trigger')
        _enable(session, trigger, enabled, recurse=recurse)


def _enable(session: Session, trigger: Trigger, enabled: str, *, recurse: bool) -> None:
    triggers.set_enabled(session, trigger, enabled)
    if recurse and trigger.is_row:
        for copy in triggers.copies_of(session, trigger.oid):
            _enable(session, copy, enabled, recurse=recurse)
