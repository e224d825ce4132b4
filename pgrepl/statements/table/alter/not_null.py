"""ALTER TABLE and NOT NULL: a mark of the column, as it is for PostgreSQL 17; or a constraint with a name, as for 18,
where a step goes down to the children itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.facts.relation_parts import children, inheritors, not_null_of, not_nulls
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import AlterTableCmd, Constraint, ConstrType
from pgrepl.statements.table.alter.drop import drop_found, refuse_identity, refuse_needed
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
from pgrepl.statements.table.constraints import update_constraint
from pgrepl.statements.table.names import choose_constraint_name, partition_parent
from pgrepl.statements.table.not_null import add_not_null, lose_parent, no_inherit_status, note_source

MUST_BE_ADDED_BELOW = "constraint must be added to child tables too"


def schedule_not_null(altered: AlteredTable, wanted: Constraint, *, recurse: bool) -> None:
    altered.add(Pass.COLUMN_ATTRIBUTES, partial(_add, wanted=wanted, recurse=recurse))


def _add(work: WorkQueue, altered: AlteredTable, *, wanted: Constraint, recurse: bool) -> None:
    _add_and_recurse(work, work.relation(altered), wanted, recurse=recurse, recursing=False)


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
    step = partial(_set, column=column, recurse=recurse)
    work.entry(rel).add(Pass.COLUMN_ATTRIBUTES, step)


def _set(work: WorkQueue, altered: AlteredTable, *, column: str, recurse: bool) -> None:
    set_and_recurse(work, work.relation(altered), column, None, recurse=recurse, recursing=False)


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
