"""ALTER and VALIDATE CONSTRAINT; NOT NULL: a mark of the column, as it is for PostgreSQL 17; or a constraint with a
name, as for 18, where a step goes down to the children itself."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.facts.relation_parts import (
    children,
    constraint_named,
    constraint_row,
    inheritors,
    not_null_of,
    not_nulls,
)
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.expr import stored
from pgrepl.ground.errors import PgError
from pgrepl.rows.requirements import CheckHolds, KeysExist
from pgrepl.sql.location import refuse_newer
from pgrepl.sql.nodes import AlterTableCmd, Constraint, ConstrType
from pgrepl.statements.table.alter.attributes import drop_found, refuse_identity, refuse_needed
from pgrepl.statements.table.alter.work import (
    FOREIGN,
    TABLE,
    AlteredTable,
    Pass,
    WorkQueue,
    check_target,
    column_of,
    for_children,
    missing_column,
    only_partitioned,
)
from pgrepl.statements.table.columns import set_attribute
from pgrepl.statements.table.constraints import does_not_exist, update_constraint
from pgrepl.statements.table.foreign import validate_key
from pgrepl.statements.table.names import choose_constraint_name, partition_parent
from pgrepl.statements.table.not_null import add_not_null, lose_parent, no_inherit_status, note_source

MUST_BE_ADDED_BELOW = "constraint must be added to child tables too"


def schedule_not_null(altered: AlteredTable, wanted: Constraint, *, recurse: bool) -> None:
    def step(work: WorkQueue, altered: AlteredTable) -> None:
        _add_and_recurse(work, work.relation(altered), wanted, recurse=recurse, recursing=False)

    altered.add(Pass.COLUMN_ATTRIBUTES, step)


def _add_and_recurse(work: WorkQueue, rel: Relation, wanted: Constraint, *, recurse: bool, recursing: bool) -> None:
    """ADD CONSTRAINT … NOT NULL (ATAddCheckNNConstraint)."""
    session = work.session
    if recursing:
        check_target(session, "ADD CONSTRAINT", rel, TABLE + FOREIGN)
    name = add_not_null(session, rel, wanted, local=not recursing)
    if name is None:
        return
    work.entry(rel).verify_not_null |= not wanted.skip_validation
    if wanted.no_inherit:
        return
    below = children(session, rel.oid)
    if below and not recurse:
        raise PgError("42P16", MUST_BE_ADDED_BELOW)
    for oid in below:
        _add_and_recurse(work, relation(session, oid), replace(wanted, name=name), recurse=recurse, recursing=True)


def schedule_set_not_null(work: WorkQueue, rel: Relation, column: str, *, recurse: bool) -> None:
    def step(work: WorkQueue, altered: AlteredTable) -> None:
        set_and_recurse(work, work.relation(altered), column, None, recurse=recurse, recursing=False)

    work.entry(rel).add(Pass.COLUMN_ATTRIBUTES, step)


def set_and_recurse(
    work: WorkQueue, rel: Relation, column: str, name: str | None, *, recurse: bool, recursing: bool
) -> None:
    """ALTER COLUMN … SET NOT NULL (ATExecSetNotNull); `name`: that of the parent's constraint."""
    session = work.session
    if recursing:
        check_target(session, "ADD CONSTRAINT", rel, TABLE + FOREIGN)
    attribute = column_of(rel, column)
    row = not_nulls(session, rel.oid).get(attribute.num)
    if row is not None:
        if row.connoinherit and recurse:
            raise no_inherit_status(rel, row)
        if not note_source(session, row, local=not recursing) and not row.convalidated:
            validate(work, rel, row, recurse=recurse)
        return
    below = children(session, rel.oid)
    if below and not recurse and rel.kind == "p":
        raise PgError("42P16", MUST_BE_ADDED_BELOW, hint="Do not specify the ONLY keyword.")
    name = name or choose_constraint_name(session, rel.name, column, "not_null", rel.namespace)
    wanted = Constraint(ConstrType.NOTNULL, name, keys=(column,), no_inherit=bool(below) and not recurse)
    add_not_null(session, rel, wanted, local=not recursing)
    work.entry(rel).verify_not_null = True
    if recurse:
        for oid in below:
            set_and_recurse(work, relation(session, oid), column, name, recurse=True, recursing=True)


def prepare_primary_key(work: WorkQueue, rel: Relation, column: str, *, recurse: bool) -> None:
    """A column of a new primary key gets NOT NULL; one that it has must fit (ATPrepAddPrimaryKey)."""
    session = work.session
    if not recurse:
        for oid in children(session, rel.oid):
            child = relation(session, oid)
            own = child.attribute(column)
            if own is not None and not own.notnull:
                raise PgError("42P16", f'column "{column}" of table "{child.name}" is not marked NOT NULL')
            if own is not None:
                _fits_primary_key(session, child, own)
    attribute = rel.attribute(column)
    if attribute is None or not _fits_primary_key(session, rel, attribute):
        schedule_not_null(work.entry(rel), Constraint(ConstrType.NOTNULL, keys=(column,)), recurse=True)


def _fits_primary_key(session: Session, rel: Relation, attribute: Attribute) -> bool:
    """Whether the column has a constraint, which a primary key may use (verifyNotNullPKCompatible)."""
    row = not_nulls(session, rel.oid).get(attribute.num)
    if row is None:
        return False
    if row.connoinherit or not row.convalidated:
        marked = "NO INHERIT" if row.connoinherit else "NOT VALID"
        hint = (
            "You might need to make the existing constraint inheritable using ALTER TABLE ... ALTER CONSTRAINT ... "
            "INHERIT."
            if row.connoinherit
            else "You might need to validate it using ALTER TABLE ... VALIDATE CONSTRAINT."
        )
        raise PgError(
            "55000",
            f'cannot create primary key on column "{attribute.name}"',
            detail=f'The constraint "{row.conname}" on column "{attribute.name}" of table "{rel.name}", marked '
            f"{marked}, is incompatible with a primary key.",
            hint=hint,
        )
    return True


def validate(work: WorkQueue, rel: Relation, row: pg_constraint, *, recurse: bool) -> None:
    """VALIDATE CONSTRAINT (QueueNNConstraintValidation)."""
    column = rel.attributes[row.conkey[0] - 1].name
    for table in to_validate(work.session, rel, row, recurse=recurse):
        own = not_null_of(work.session, table, column)
        if own is not None and not own.convalidated:
            work.entry(table).verify_not_null = True
            update_constraint(work.session, own.oid, convalidated=True)


def to_validate(session: Session, rel: Relation, row: pg_constraint, *, recurse: bool) -> list[Relation]:
    """The tables that inherit a constraint, and last its own."""
    below = [] if row.connoinherit else inheritors(session, rel.oid)[1:]
    if below and not recurse:
        raise PgError("42P16", "constraint must be validated on child tables too")
    return [*(relation(session, oid) for oid in below), rel]


def change_inheritance(work: WorkQueue, rel: Relation, row: pg_constraint, *, no_inherit: bool) -> None:
    """ALTER CONSTRAINT … [NO] INHERIT (ATExecAlterConstrInheritability)."""
    session = work.session
    if bool(row.connoinherit) == no_inherit:
        return
    update_constraint(session, row.oid, connoinherit=no_inherit)
    column = rel.attributes[row.conkey[0] - 1].name
    for oid in children(session, rel.oid):
        child = relation(session, oid)
        if not no_inherit:
            set_and_recurse(work, child, column, row.conname, recurse=True, recursing=True)
            continue
        own = not_null_of(session, child, column)
        if own is not None:
            lose_parent(session, own)


# --- ALTER COLUMN -------------------------------------------------------------------------------------------------


def prepare_drop_not_null(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    check_target(work.session, "ALTER COLUMN ... DROP NOT NULL", rel, TABLE + FOREIGN)
    if work.session.settings.release >= 18:
        work.entry(rel).add(Pass.DROP, partial(_drop_not_null, name=cmd.name or "", recurse=recurse))
        return
    if rel.kind == "p" and not recurse and not recursing and children(work.session, rel.oid):
        raise only_partitioned("remove constraint from")
    if recurse:
        for_children(work.session, rel, lambda child: prepare_drop_not_null(work, child, cmd, False, True))
    work.entry(rel).add(Pass.DROP, partial(_drop_not_null, name=cmd.name or ""))


def _drop_not_null(work: WorkQueue, altered: AlteredTable, *, name: str, recurse: bool = False) -> None:
    """ALTER COLUMN … DROP NOT NULL (ATExecDropNotNull)."""
    session, rel = work.session, work.relation(altered)
    attribute = column_of(rel, name)
    named = session.settings.release >= 18
    if named and not attribute.notnull:
        return
    refuse_identity(rel, attribute)
    if not named:
        refuse_needed(session, rel, attribute)
    if rel.is_partition:
        parent = relation(session, partition_parent(session, rel.oid)).attribute(name)
        if parent is not None and parent.notnull:
            raise PgError("42P16", f'column "{name}" is marked NOT NULL in parent table')
    row = not_nulls(session, rel.oid).get(attribute.num)
    if row is not None:
        drop_found(work, rel, row, cascade=False, recurse=recurse)
    elif attribute.notnull:
        refuse_needed(session, rel, attribute)
        set_attribute(session, rel.oid, attribute.num, attnotnull=False)


def prepare_set_not_null_command(
    work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool
) -> None:
    check_target(work.session, "ALTER COLUMN ... SET NOT NULL", rel, TABLE + FOREIGN)
    if work.session.settings.release >= 18:
        schedule_set_not_null(work, rel, cmd.name or "", recurse=recurse)
        return
    prepare_set_not_null(work, rel, cmd.name or "", recurse=recurse, recursing=recursing)


def prepare_set_not_null(work: WorkQueue, rel: Relation, name: str, *, recurse: bool, recursing: bool) -> None:
    """As ATPrepSetNotNull does: with ONLY, the partitions of a partitioned table must be NOT NULL already."""
    session = work.session
    work_on_children = not recursing
    if work_on_children and rel.has_subclass and rel.kind == "p":
        attribute = rel.attribute(name)
        if attribute is None:
            raise missing_column(rel, name)
        work_on_children = not attribute.notnull
    if work_on_children:
        if rel.kind == "p" and not recurse:

            def check(child: Relation) -> None:
                check_target(session, "ALTER COLUMN ... SET NOT NULL", child, TABLE + FOREIGN)
                work.entry(child).add(Pass.COLUMN_ATTRIBUTES, partial(_check_not_null, name=name))

            for_children(session, rel, check)
        elif recurse:

            def descend(child: Relation) -> None:
                check_target(session, "ALTER COLUMN ... SET NOT NULL", child, TABLE + FOREIGN)
                prepare_set_not_null(work, child, name, recurse=False, recursing=True)

            for_children(session, rel, descend)
    work.entry(rel).add(Pass.COLUMN_ATTRIBUTES, partial(_set_not_null, name=name))


def _set_not_null(work: WorkQueue, altered: AlteredTable, *, name: str) -> None:
    rel = work.relation(altered)
    attribute = column_of(rel, name)
    if not attribute.notnull:
        set_attribute(work.session, rel.oid, attribute.num, attnotnull=True)
        altered.verify_not_null = True


def _check_not_null(work: WorkQueue, altered: AlteredTable, *, name: str) -> None:
    rel = work.relation(altered)
    attribute = rel.attribute(name)
    if attribute is None:
        raise missing_column(rel, name)
    if not attribute.notnull:
        raise PgError(
            "42P16",
            MUST_BE_ADDED_BELOW,
            detail=f'Column "{name}" of relation "{rel.name}" is not already NOT NULL.',
            hint="Do not specify the ONLY keyword.",
        )


# --- ALTER CONSTRAINT ---------------------------------------------------------------------------------------------


_INHERITANCE = frozenset({"INHERIT", "NO INHERIT"})
_ENFORCEMENT = frozenset({"ENFORCED", "NOT ENFORCED"})


def _found(session: Session, rel: Relation, name: str) -> pg_constraint:
    row = constraint_named(session, rel.oid, name)
    if row is None:
        raise does_not_exist(name, rel.name)
    return row


def prepare_alter_constraint(
    work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool
) -> None:
    check_target(work.session, "ALTER CONSTRAINT", rel, TABLE)
    assert cmd.constraint is not None
    wanted, session = cmd.constraint, work.session
    newer = session.settings.release >= 18
    if not newer:
        refuse_newer(session.query, wanted.newer)
    elif not recurse and rel.kind == "p":
        raise PgError(
            "42P16", "constraint must be altered in child tables too", hint="Do not specify the ONLY keyword."
        )
    work.entry(rel).add(Pass.MISC, partial(_alter_constraint, wanted=wanted))


def _alter_constraint(work: WorkQueue, altered: AlteredTable, *, wanted: Constraint) -> None:
    session, rel, name = work.session, work.relation(altered), wanted.name or ""
    row = _found(session, rel, name)
    inherits, enforced = wanted.attributes & _INHERITANCE, wanted.attributes & _ENFORCEMENT
    if row.contype != "f" and (wanted.attributes - _INHERITANCE - _ENFORCEMENT or session.settings.release < 18):
        raise PgError("42809", f'constraint "{name}" of relation "{rel.name}" is not a foreign key constraint')
    if row.contype != "f" and enforced:
        raise PgError("42809", f'cannot alter enforceability of constraint "{name}" of relation "{rel.name}"')
    if row.contype != "n" and inherits:
        raise PgError("42809", f'constraint "{name}" of relation "{rel.name}" is not a not-null constraint')
    if wanted.no_inherit and row.coninhcount > 0:
        raise PgError("42P16", f'cannot alter inherited constraint "{name}" on relation "{rel.name}"')
    if row.conparentid:
        top = constraint_row(session, row.conparentid)
        while top.conparentid:
            top = constraint_row(session, top.conparentid)
        table = relation(session, top.conrelid).name
        raise PgError(
            "XX000",
            f'cannot alter constraint "{name}" on relation "{rel.name}"',
            detail=f'Constraint "{name}" is derived from constraint "{top.conname}" of relation "{table}".',
            hint="You may alter the constraint it derives from instead.",
        )
    if enforced and bool(row.conenforced) != wanted.enforced:
        _set_enforceability(work, row, wanted)
    if row.contype == "f" and (not wanted.attributes or wanted.attributes - _INHERITANCE - _ENFORCEMENT):
        _set_deferrability(session, row, wanted)
    if inherits:
        change_inheritance(work, rel, row, no_inherit=wanted.no_inherit)


def _set_enforceability(work: WorkQueue, row: pg_constraint, wanted: Constraint) -> None:
    """Rows are checked once the key is enforced again (ATExecAlterConstrEnforceability)."""
    rel = relation(work.session, row.conrelid)
    update_constraint(work.session, row.oid, conenforced=wanted.enforced, convalidated=wanted.enforced)
    parent = constraint_row(work.session, row.conparentid) if row.conparentid else None
    if wanted.enforced and rel.kind == "r" and (parent is None or parent.conrelid != row.conrelid):
        work.entry(rel).pending.append(KeysExist(rel.oid, row.oid))
    for part in store.rows(work.session, pg_constraint, conparentid=row.oid):
        _set_enforceability(work, part, wanted)


def _set_deferrability(session: Session, row: pg_constraint, wanted: Constraint) -> None:
    if (row.condeferrable, row.condeferred) != (wanted.deferrable, wanted.initially_deferred):
        update_constraint(session, row.oid, condeferrable=wanted.deferrable, condeferred=wanted.initially_deferred)
    for part in store.rows(session, pg_constraint, conparentid=row.oid):
        _set_deferrability(session, part, wanted)


# --- VALIDATE CONSTRAINT ------------------------------------------------------------------------------------------


def validate_constraint(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    """As ATExecValidateConstraint does: children first."""
    rel, name = work.relation(altered), cmd.name or ""
    row = _validated_row(work.session, rel, name)
    if row.convalidated:
        return
    if row.contype == "n":
        validate(work, rel, row, recurse=recurse)
        return
    if row.contype == "f" and work.session.settings.release >= 18:
        validate_key(work.session, row, row.confrelid, work.entry(rel).pending)
        return
    for table in to_validate(work.session, rel, row, recurse=recurse) if row.contype == "c" else [rel]:
        row = _validated_row(work.session, table, name)
        if row.convalidated:
            continue
        if row.contype == "f":
            work.entry(table).pending.append(KeysExist(table.oid, row.oid))
        else:
            condition = stored.from_json(row.conbin, work.session)
            work.entry(table).pending.append(CheckHolds(table.oid, name, condition))
        update_constraint(work.session, row.oid, convalidated=True)


def _validated_row(session: Session, rel: Relation, name: str) -> pg_constraint:
    row = _found(session, rel, name)
    if not row.conenforced:
        raise PgError("42809", "cannot validate NOT ENFORCED constraint")
    newer = session.settings.release >= 18
    if row.contype not in ("f", "c", "n") or (row.contype == "n" and not newer):
        if newer:
            raise PgError(
                "42809",
                f'cannot validate constraint "{name}" of relation "{rel.name}"',
                detail="This operation is not supported for this type of constraint.",
            )
        raise PgError("42809", f'constraint "{name}" of relation "{rel.name}" is not a foreign key or check constraint')
    return row
