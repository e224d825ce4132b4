"""DROP COLUMN and DROP CONSTRAINT."""

from __future__ import annotations

from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.facts.relation_parts import children, constraint_named, indexes, not_null_of
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.system import PG_CLASS, PG_CONSTRAINT, ObjectAddress
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import AlterTableCmd
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.table.alter.work import (
    FOREIGN,
    TABLE,
    AlteredTable,
    WorkQueue,
    check_target,
    column_of,
    only_partitioned,
)
from pgrepl.statements.table.columns import SYSTEM_COLUMNS, set_attribute
from pgrepl.statements.table.constraints import does_not_exist, update_constraint
from pgrepl.statements.table.partition import key_columns

# --- DROP COLUMN --------------------------------------------------------------------------------------------------


def drop_column(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    session, rel, name = work.session, work.relation(altered), cmd.name or ""
    if cmd.missing_ok and rel.attribute(name) is None:
        if name not in SYSTEM_COLUMNS:
            session.notice("NOTICE", f'column "{name}" of relation "{rel.name}" does not exist, skipping')
            return
    addresses: list[ObjectAddress] = []
    _collect(work, rel, name, recurse, addresses, recursing=False)
    drop_objects(session, addresses, cascade=cmd.cascade)


def _collect(
    work: WorkQueue, rel: Relation, name: str, recurse: bool, addresses: list[ObjectAddress], *, recursing: bool
) -> None:
    """The columns to drop, those of children before their parents', as ATExecDropColumn finds them."""
    session = work.session
    if recursing:
        check_target(session, "DROP COLUMN", rel, TABLE + FOREIGN)
    attribute = column_of(rel, name, verb="drop")
    if attribute.inhcount > 0 and not recursing:
        raise PgError("42P16", f'cannot drop inherited column "{name}"')
    if attribute.num in key_columns(session, rel.oid):
        raise PgError(
            "42P16", f'cannot drop column "{name}" because it is part of the partition key of relation "{rel.name}"'
        )
    below = children(session, rel.oid)
    if below and rel.kind == "p" and not recurse:
        raise only_partitioned("drop column from")
    for oid in below:
        child = relation(session, oid)
        inherited = column_of(child, name)
        if recurse and inherited.inhcount == 1 and not inherited.is_local:
            _collect(work, child, name, True, addresses, recursing=True)
            continue
        values: dict[str, object] = {"attinhcount": inherited.inhcount - 1}
        if not recurse:
            values["attislocal"] = True
        set_attribute(session, oid, inherited.num, **values)
    addresses.append(ObjectAddress(PG_CLASS, rel.oid, attribute.num))


# --- DROP CONSTRAINT ----------------------------------------------------------------------------------------------


def drop_constraint(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    """DROP CONSTRAINT (ATExecDropConstraint)."""
    rel, name = work.relation(altered), cmd.name or ""
    row = constraint_named(work.session, rel.oid, name)
    if row is not None:
        drop_found(work, rel, row, cascade=cmd.cascade, recurse=recurse)
    elif not cmd.missing_ok:
        raise does_not_exist(name, rel.name)
    else:
        work.session.notice("NOTICE", f'constraint "{name}" of relation "{rel.name}" does not exist, skipping')


def drop_found(
    work: WorkQueue, rel: Relation, row: pg_constraint, *, cascade: bool, recurse: bool, recursing: bool = False
) -> None:
    """As dropconstraint_internal does; the children's NOT NULL is found by its column, another constraint by name."""
    session = work.session
    if recursing:
        check_target(session, "DROP CONSTRAINT", rel, TABLE + FOREIGN)
    if row.coninhcount > 0 and not recursing:
        raise PgError("42P16", f'cannot drop inherited constraint "{row.conname}" of relation "{rel.name}"')
    column = _nullable(session, rel, row) if row.contype == "n" else None
    drop_objects(session, [ObjectAddress(PG_CONSTRAINT, row.oid)], cascade=cascade)
    if row.contype not in "cn" and rel.kind == "p":
        return
    below = [] if row.connoinherit else children(session, rel.oid)
    newer = session.settings.release >= 18
    if rel.kind == "p" and below and not recurse and not newer:
        raise only_partitioned("remove constraint from")
    for oid in below:
        child = relation(session, oid)
        inherited = _inherited(session, child, row.conname, column)
        if recurse and inherited.coninhcount == 1 and not inherited.conislocal:
            drop_found(work, child, inherited, cascade=cascade, recurse=True, recursing=True)
            continue
        values: dict[str, object] = {"coninhcount": inherited.coninhcount - 1}
        if not recurse and (not newer or inherited.coninhcount == 1):
            values["conislocal"] = True
        update_constraint(session, inherited.oid, **values)


def _inherited(session: Session, child: Relation, name: str, column: str | None) -> pg_constraint:
    if column is None:
        row = constraint_named(session, child.oid, name)
    else:
        row = not_null_of(session, child, column)
    if row is None:
        raise does_not_exist(name, child.name)
    return row


def _nullable(session: Session, rel: Relation, row: pg_constraint) -> str:
    """The column of a NOT NULL constraint, which it no longer is."""
    attribute = rel.attributes[row.conkey[0] - 1]
    refuse_needed(session, rel, attribute)
    refuse_identity(rel, attribute)
    set_attribute(session, rel.oid, attribute.num, attnotnull=False)
    return attribute.name


def refuse_needed(session: Session, rel: Relation, attribute: Attribute) -> None:
    """A key or an identity needs the column to be NOT NULL."""
    for row in indexes(session, rel.oid):
        if attribute.num in row.indkey[: row.indnkeyatts]:
            if row.indisprimary:
                raise PgError("42P16", f'column "{attribute.name}" is in a primary key')
            if row.indisreplident:
                raise PgError("42P16", f'column "{attribute.name}" is in index used as replica identity')


def refuse_identity(rel: Relation, attribute: Attribute) -> None:
    if attribute.identity:
        raise PgError("42601", f'column "{attribute.name}" of relation "{rel.name}" is an identity column')
