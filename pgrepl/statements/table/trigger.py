"""CREATE TRIGGER (CreateTriggerFiringOn): its function, and WHEN over OLD (varno 1) and NEW (varno 2); ALTER, DROP,
ENABLE and DISABLE TRIGGER, and triggers when a table becomes a partition or stops being one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import triggers
from pgrepl.catalog.facts.acl import check_owner, check_relation_owner, check_table_privilege
from pgrepl.catalog.facts.depend import Dependency, forget_dependencies, record_dependencies, record_dependency
from pgrepl.catalog.facts.namespace import check_may_execute, explicit_schema
from pgrepl.catalog.facts.objects import describe_object
from pgrepl.catalog.facts.relation import Relation, find_relation, range_var, relation
from pgrepl.catalog.facts.relation_parts import children, not_supported, open_table, parents
from pgrepl.catalog.facts.roles import is_superuser
from pgrepl.catalog.facts.triggers import BEFORE, DELETE, INSERT, ROW, Trigger, triggers_of
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CLASS, PG_CONSTRAINT, PG_PROC, PG_TRIGGER, ObjectAddress
from pgrepl.catalog.store.tables import pg_trigger
from pgrepl.expr import stored
from pgrepl.expr.analyse.calls import procs_named
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.lookup import relation_rte
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.transform import analyze_where
from pgrepl.expr.catalog_trees import attnum_map
from pgrepl.expr.tree import Expr, Var
from pgrepl.expr.walk import map_attnums, walk
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.rows.in_use import check_not_in_use
from pgrepl.sql.nodes import AlterTableCmd, DropStmt, RenameStmt
from pgrepl.sql.nodes import AlterTableKind as K
from pgrepl.sql.nodes.routine import CreateTrigStmt
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.dependencies import record_expression_dependencies
from pgrepl.statements.table.constraints import store_constraint
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.sql import nodes
    from pgrepl.statements.table.alter.work import AlteredTable, WorkQueue


def trigger_function(session: Session, name: tuple[str, ...]) -> int:
    """The OID of the function without parameters that has this name; it must return trigger."""
    function = next((proc for proc in procs_named(Scope(session), name) if not proc.nargs and proc.kind == "f"), None)
    written = ".".join(name)
    if function is None:
        raise PgError("42883", f"function {written}() does not exist")
    check_may_execute(session, function.oid)
    if function.rettype != oids.TRIGGER:
        raise PgError("42P17", f"function {written} must return type trigger")
    return function.oid


# --- when -------------------------------------------------------------------------------------------------------------


OLD, NEW = 1, 2


def analyze_when(session: Session, rel: Relation, raw: nodes.Expr, kind: int) -> Expr:
    """The condition, checked as CreateTriggerFiringOn does; `kind` is the trigger's tgtype."""
    scope = Scope(session)
    for name in ("old", "new"):
        scope.show(scope.add_rte(relation_rte(rel, name)))
    when = assign_collations(analyze_where(scope, raw, ExprKind.TRIGGER_WHEN, "WHEN"))
    for node in walk(when):
        if isinstance(node, Var):
            _check(rel, node, kind)
    return when


def _check(rel: Relation, var: Var, kind: int) -> None:
    where = var.location
    if not kind & ROW:
        raise PgError("42P17", "statement trigger's WHEN condition cannot reference column values", location=where)
    if var.varno == OLD:
        if kind & INSERT:
            raise PgError("42P17", "INSERT trigger's WHEN condition cannot reference OLD values", location=where)
        return
    if kind & DELETE:
        raise PgError("42P17", "DELETE trigger's WHEN condition cannot reference NEW values", location=where)
    if not kind & BEFORE:
        return
    if var.attnum < 0:
        message = "BEFORE trigger's WHEN condition cannot reference NEW system columns"
        raise PgError("0A000", message, location=where)
    message = "BEFORE trigger's WHEN condition cannot reference NEW generated columns"
    if var.attnum == 0 and any(column.generated for column in rel.columns):
        detail = "A whole-row reference is used and the table contains generated columns."
        raise PgError("42P17", message, detail=detail, location=where)
    if var.attnum > 0 and rel.attributes[var.attnum - 1].generated:
        detail = f'Column "{rel.attributes[var.attnum - 1].name}" is a generated column.'
        raise PgError("42P17", message, detail=detail, location=where)


def of_partition(when: Expr, parent: Relation, partition: Relation) -> Expr:
    """The condition over the rows of a partition (map_partition_varattnos)."""
    numbers = attnum_map(partition, parent)
    return map_attnums(map_attnums(when, numbers, OLD), numbers, NEW)


_EVENTS = {
    "INSERT": triggers.INSERT, "UPDATE": triggers.UPDATE, "DELETE": triggers.DELETE, "TRUNCATE": triggers.TRUNCATE,
}  # fmt: skip
_TIMINGS = {"BEFORE": triggers.BEFORE, "AFTER": 0, "INSTEAD OF": triggers.INSTEAD}


def create_trigger(stmt: CreateTrigStmt, session: Session) -> Result:
    rel = open_table(session, stmt.relation)
    _check_relation(rel, stmt)
    referenced = open_table(session, stmt.referenced) if stmt.referenced is not None else None
    check_table_privilege(session, rel, "TRIGGER")
    if referenced is not None:
        check_table_privilege(session, referenced, "TRIGGER")
    kind = _kind(stmt)
    old_table, new_table = _transition_tables(session, rel, stmt, kind)
    when = None if stmt.when is None else analyze_when(session, rel, stmt.when, kind)
    function = trigger_function(session, stmt.function)
    existing = _replaceable(session, rel, stmt)
    columns = _columns(rel, stmt.columns)
    check_not_in_use(session, rel, "CREATE TRIGGER")
    trigger = Trigger(
        existing.oid if existing is not None else store.new_oid(session),
        rel.oid,
        stmt.name,
        function,
        kind,
        referenced=referenced.oid if referenced is not None else 0,
        deferrable=stmt.deferrable,
        initially_deferred=stmt.initially_deferred,
        columns=columns,
        args=stmt.args,
        when=None if when is None else stored.to_json(when),
        old_table=old_table,
        new_table=new_table,
    )
    trigger = store_trigger(session, rel, trigger, is_constraint=stmt.is_constraint)
    if stmt.row and rel.kind == "p":
        for oid in children(session, rel.oid):
            copy_to(session, trigger, rel, relation(session, oid), replace_copy=existing is not None)
    return Result("CREATE TRIGGER")


# --- checks -----------------------------------------------------------------------------------------------------------


def _check_relation(rel: Relation, stmt: CreateTrigStmt) -> None:
    """Whether a relation of this kind can have such a trigger."""
    detail = None
    if rel.kind in ("r", "p"):
        what = "table" if rel.kind == "r" or stmt.timing == "INSTEAD OF" else "partitioned table"
        if stmt.timing == "INSTEAD OF":
            detail = "Tables cannot have INSTEAD OF triggers."
        elif rel.kind == "p" and stmt.row and stmt.transitions:
            message = f'"{rel.name}" is a partitioned table'
            detail = "ROW triggers with transition tables are not supported on partitioned tables."
            raise PgError("0A000", message, detail=detail)
    elif rel.kind == "v":
        what = "view"
        if stmt.timing != "INSTEAD OF" and stmt.row:
            detail = "Views cannot have row-level BEFORE or AFTER triggers."
        elif any(event.event == "TRUNCATE" for event in stmt.events):
            detail = "Views cannot have TRUNCATE triggers."
    else:
        raise PgError("42809", f'relation "{rel.name}" cannot have triggers', detail=not_supported(rel.kind))
    if detail is not None:
        raise PgError("42809", f'"{rel.name}" is a {what}', detail=detail)
    if rel.is_catalog:
        raise PgError("42501", f'permission denied: "{rel.name}" is a system catalog')


def _kind(stmt: CreateTrigStmt) -> int:
    """The tgtype."""
    kind = (triggers.ROW if stmt.row else 0) | _TIMINGS[stmt.timing]
    for event in stmt.events:
        kind |= _EVENTS[event.event]
    if stmt.row and kind & triggers.TRUNCATE:
        raise PgError("0A000", "TRUNCATE FOR EACH ROW triggers are not supported")
    if stmt.timing == "INSTEAD OF":
        for refused, what in (
            (not stmt.row, "must be FOR EACH ROW"),
            (stmt.when is not None, "cannot have WHEN conditions"),
            (bool(stmt.columns), "cannot have column lists"),
        ):
            if refused:
                raise PgError("0A000", f"INSTEAD OF triggers {what}")
    return kind


def _transition_tables(
    session: Session, rel: Relation, stmt: CreateTrigStmt, kind: int
) -> tuple[str | None, str | None]:
    """The names of the old and the new transition table."""
    names: dict[bool, str] = {}
    for transition in stmt.transitions:
        if not transition.is_table:
            raise PgError(
                "0A000",
                "ROW variable naming in the REFERENCING clause is not supported",
                hint="Use OLD TABLE or NEW TABLE for naming transition tables.",
            )
        _check_transition(session, rel, stmt, kind)
        word, events, which = "OLD", triggers.DELETE | triggers.UPDATE, "a DELETE or UPDATE"
        if transition.is_new:
            word, events, which = "NEW", triggers.INSERT | triggers.UPDATE, "an INSERT or UPDATE"
        if not kind & events:
            raise PgError("42P17", f"{word} TABLE can only be specified for {which} trigger")
        if transition.is_new in names:
            raise PgError("42P17", f"{word} TABLE cannot be specified multiple times")
        names[transition.is_new] = transition.name
    if len(names) == 2 and names[False] == names[True]:
        raise PgError("42P17", "OLD TABLE name and NEW TABLE name cannot be the same")
    return names.get(False), names.get(True)


def _check_transition(session: Session, rel: Relation, stmt: CreateTrigStmt, kind: int) -> None:
    if rel.kind == "v":
        raise PgError("42809", f'"{rel.name}" is a view', detail="Triggers on views cannot have transition tables.")
    if stmt.row and parents(session, rel.oid):
        where = "partitions" if rel.is_partition else "inheritance children"
        raise PgError("0A000", f"ROW triggers with transition tables are not supported on {where}")
    if stmt.timing != "AFTER":
        raise PgError("42P17", "transition table name can only be specified for an AFTER trigger")
    if kind & triggers.TRUNCATE:
        raise PgError("42P17", "TRUNCATE triggers with transition tables are not supported")
    if len(stmt.events) != 1:
        raise PgError("0A000", "transition tables cannot be specified for triggers with more than one event")
    if stmt.columns:
        raise PgError("0A000", "transition tables cannot be specified for triggers with column lists")


def _columns(rel: Relation, names: Sequence[str]) -> tuple[int, ...]:
    """The columns of UPDATE OF."""
    numbers: list[int] = []
    for name in names:
        attribute = rel.attribute(name)
        if attribute is None:
            raise PgError("42703", f'column "{name}" of relation "{rel.name}" does not exist')
        if attribute.num in numbers:
            raise PgError("42701", f'column "{name}" specified more than once')
        numbers.append(attribute.num)
    return tuple(numbers)


def _replaceable(session: Session, rel: Relation, stmt: CreateTrigStmt) -> Trigger | None:
    """The trigger that OR REPLACE replaces."""
    existing = triggers.trigger_named(session, rel.oid, stmt.name)
    if existing is None:
        return None
    problem = None
    if not stmt.replace:
        problem = "already exists"
    elif existing.is_internal or existing.parent:
        problem = "is an internal or a child trigger"
    elif existing.constraint:
        problem = "is a constraint trigger"
    if problem is not None:
        raise PgError("42710", f'trigger "{stmt.name}" for relation "{rel.name}" {problem}')
    return existing


# --- storing ----------------------------------------------------------------------------------------------------------


def store_trigger(session: Session, rel: Relation, trigger: Trigger, *, is_constraint: bool) -> Trigger:
    """Store the trigger with its dependencies; of a constraint trigger, its constraint, too. Returns it as stored."""
    if is_constraint:
        constraint = store_constraint(
            session,
            rel,
            trigger.name,
            "t",
            columns=(),
            deferrable=trigger.deferrable,
            deferred=trigger.initially_deferred,
        )
        trigger = replace(trigger, constraint=constraint)
    myself = ObjectAddress(PG_TRIGGER, trigger.oid)
    if store.one(session, pg_trigger, oid=trigger.oid) is not None:
        store.delete(session, pg_trigger, oid=trigger.oid)
        forget_dependencies(session, myself)
    store.insert(session, pg_trigger, **triggers.values(trigger))
    record_dependency(session, myself, ObjectAddress(PG_PROC, trigger.function))
    record_dependency(session, myself, ObjectAddress(PG_CLASS, rel.oid), Dependency.AUTO)
    if is_constraint:
        record_dependency(session, ObjectAddress(PG_CONSTRAINT, trigger.constraint), myself, Dependency.INTERNAL)
    if trigger.referenced:
        record_dependency(session, myself, ObjectAddress(PG_CLASS, trigger.referenced), Dependency.AUTO)
    if trigger.parent:
        record_dependency(session, myself, ObjectAddress(PG_TRIGGER, trigger.parent), Dependency.PARTITION_PRI)
        record_dependency(session, myself, ObjectAddress(PG_CLASS, rel.oid), Dependency.PARTITION_SEC)
    record_dependencies(session, myself, [ObjectAddress(PG_CLASS, rel.oid, number) for number in trigger.columns])
    if trigger.when is not None:
        record_expression_dependencies(session, myself, stored.from_json(trigger.when, session), rel.oid)
    return trigger


def copy_to(
    session: Session, trigger: Trigger, parent: Relation, partition: Relation, *, replace_copy: bool = False
) -> None:
    """Make a partition's copy of a trigger FOR EACH ROW, and those of its own partitions."""
    same = triggers.trigger_named(session, partition.oid, trigger.name)
    if same is not None and not (replace_copy and not same.constraint):
        raise PgError("42710", f'trigger "{trigger.name}" for relation "{partition.name}" already exists')
    names = [parent.attributes[number - 1].name for number in trigger.columns]
    when = None
    if trigger.when is not None:
        when = stored.to_json(of_partition(stored.from_json(trigger.when, session), parent, partition))
    copy = replace(
        trigger,
        oid=same.oid if same is not None else store.new_oid(session),
        relid=partition.oid,
        parent=trigger.oid,
        constraint=0,
        columns=_columns(partition, names),
        when=when,
    )
    copy = store_trigger(session, partition, copy, is_constraint=bool(trigger.constraint))
    if partition.kind == "p":
        for oid in children(session, partition.oid):
            copy_to(session, copy, partition, relation(session, oid), replace_copy=replace_copy)


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
    assert stmt.relation is not None
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
    """Say when a trigger fires (EnableDisableTrigger); `name` None: all of the table."""
    listed = [*triggers.triggers_of(session, rel.oid), *triggers.constraint_triggers(session, rel.oid)]
    if name is not None:
        listed = [trigger for trigger in listed if trigger.name == name]
        if not listed:
            raise _no_trigger(name, rel.name)
    for trigger in listed:
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
