"""DROP COLUMN and DROP CONSTRAINT, also in children that inherit the column or constraint from this table only."""

from __future__ import annotations

from functools import partial

from pgrepl.catalog import store
from pgrepl.catalog.classes import PG_CLASS, PG_CONSTRAINT, ObjectAddress
from pgrepl.catalog.constraint import constraint_named
from pgrepl.catalog.inheritance import children
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.tables import pg_attribute
from pgrepl.errors import PgError
from pgrepl.sql.nodes import AlterTableCmd
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.table.alter.attributes import only_partitioned
from pgrepl.statements.table.alter.targets import COMPOSITE, FOREIGN, TABLE, check_target, column_of
from pgrepl.statements.table.alter.work import AlteredTable, Pass, WorkQueue
from pgrepl.statements.table.columns import SYSTEM_COLUMNS
from pgrepl.statements.table.constraints import does_not_exist, update_constraint
from pgrepl.statements.table.partition import key_columns

# --- DROP COLUMN --------------------------------------------------------------------------------------------------


def prepare_drop_column(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    check_target(work.session, "DROP COLUMN", rel, TABLE + FOREIGN + COMPOSITE)
    work.entry(rel).add(Pass.DROP, partial(_drop_column, cmd=cmd, recurse=recurse))


def _drop_column(work: WorkQueue, altered: AlteredTable, *, cmd: AlterTableCmd, recurse: bool) -> None:
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
            "42P16",
            f'cannot drop column "{name}" because it is part of the partition key of relation "{rel.name}"',
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
        store.update(session, pg_attribute, {"attrelid": oid, "attnum": inherited.num}, **values)
    addresses.append(ObjectAddress(PG_CLASS, rel.oid, attribute.num))


# --- DROP CONSTRAINT ----------------------------------------------------------------------------------------------


def prepare_drop_constraint(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    check_target(work.session, "DROP CONSTRAINT", rel, TABLE + FOREIGN)
    work.entry(rel).add(Pass.DROP, partial(_drop_constraint, cmd=cmd, recurse=recurse))


def _drop_constraint(work: WorkQueue, altered: AlteredTable, *, cmd: AlterTableCmd, recurse: bool) -> None:
    drop_constraint(
        work,
        work.relation(altered),
        cmd.name or "",
        cascade=cmd.cascade,
        recurse=recurse,
        missing_ok=cmd.missing_ok,
    )


def drop_constraint(
    work: WorkQueue,
    rel: Relation,
    name: str,
    *,
    cascade: bool,
    recurse: bool,
    missing_ok: bool = False,
    recursing: bool = False,
) -> None:
    """As ATExecDropConstraint does."""
    session = work.session
    if recursing:
        check_target(session, "DROP CONSTRAINT", rel, TABLE + FOREIGN)
    row = constraint_named(session, rel.oid, name)
    if row is None:
        if not missing_ok:
            raise does_not_exist(name, rel.name)
        session.notice("NOTICE", f'constraint "{name}" of relation "{rel.name}" does not exist, skipping')
        return
    if row.coninhcount > 0 and not recursing:
        raise PgError("42P16", f'cannot drop inherited constraint "{name}" of relation "{rel.name}"')
    drop_objects(session, [ObjectAddress(PG_CONSTRAINT, row.oid)], cascade=cascade)
    if row.contype != "c" and rel.kind == "p":
        return
    below = [] if row.connoinherit else children(session, rel.oid)
    if rel.kind == "p" and below and not recurse:
        raise only_partitioned("remove constraint from")
    for oid in below:
        child = relation(session, oid)
        inherited = constraint_named(session, oid, name)
        if inherited is None:
            raise does_not_exist(name, child.name)
        if recurse and inherited.coninhcount == 1 and not inherited.conislocal:
            drop_constraint(work, child, name, cascade=cascade, recurse=True, recursing=True)
            continue
        values: dict[str, object] = {"coninhcount": inherited.coninhcount - 1}
        if not recurse:
            values["conislocal"] = True
        update_constraint(session, inherited.oid, **values)
