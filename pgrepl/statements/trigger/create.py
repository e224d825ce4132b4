"""CREATE TRIGGER (CreateTriggerFiringOn)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgrepl.catalog import store, triggers
from pgrepl.catalog.acl import check_table_privilege
from pgrepl.catalog.classes import PG_CLASS, PG_CONSTRAINT, PG_PROC, PG_TRIGGER, ObjectAddress
from pgrepl.catalog.depend import Dependency, forget_dependencies, record_dependencies, record_dependency
from pgrepl.catalog.inheritance import children, parents
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.relkind import not_supported, open_table
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_trigger
from pgrepl.catalog.triggers import Trigger
from pgrepl.errors import PgError
from pgrepl.expr import stored
from pgrepl.query.result import Result
from pgrepl.rows.in_use import check_not_in_use
from pgrepl.sql.nodes.trigger import CreateTrigStmt
from pgrepl.statements.dependencies import record_expression_dependencies
from pgrepl.statements.table.constraints import store_constraint
from pgrepl.statements.trigger.function import trigger_function
from pgrepl.statements.trigger.when import analyze_when, of_partition

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
