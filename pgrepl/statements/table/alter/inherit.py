"""INHERIT and NO INHERIT; and the agreement of columns and CHECKs that ATTACH PARTITION requires, too."""

from __future__ import annotations

from functools import partial

from pgrepl.catalog import store
from pgrepl.catalog.classes import PG_CLASS, ObjectAddress
from pgrepl.catalog.constraint import constraints_of
from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.relkind import open_table
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_attribute, pg_constraint, pg_depend, pg_inherits
from pgrepl.errors import PgError
from pgrepl.expr import stored
from pgrepl.expr.deparse import expression_text
from pgrepl.sql.nodes import AlterTableCmd, RangeVar
from pgrepl.statements.table.alter.targets import FOREIGN, TABLE, check_target
from pgrepl.statements.table.alter.work import AlteredTable, Pass, WorkQueue
from pgrepl.statements.table.constraints import update_constraint
from pgrepl.statements.table.inherit import child_dependency, store_inheritance
from pgrepl.statements.table.position import unplaced_name
from pgrepl.statements.trigger.partitions import refuse_transition_tables


def prepare_inherit(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    check_target(work.session, "INHERIT", rel, TABLE + FOREIGN)
    if rel.is_partition:
        raise PgError("42809", "cannot change inheritance of a partition")
    if rel.kind == "p":
        raise PgError("42809", "cannot change inheritance of partitioned table")
    assert cmd.relation is not None
    work.entry(rel).add(Pass.MISC, partial(_inherit, name=cmd.relation))


def _inherit(work: WorkQueue, altered: AlteredTable, *, name: RangeVar) -> None:
    """As ATExecAddInherit does."""
    session, child = work.session, work.relation(altered)
    parent = open_table(session, unplaced_name(name))
    check_target(session, "INHERIT", parent, TABLE + FOREIGN)
    if parent.persistence == "t" and child.persistence != "t":
        raise PgError("42809", f'cannot inherit from temporary relation "{parent.name}"')
    if parent.kind == "p":
        raise PgError("42809", f'cannot inherit from partitioned table "{name.name}"')
    if parent.is_partition:
        raise PgError("42809", "cannot inherit from a partition")
    if parent.oid in inheritors(session, child.oid):
        raise circular(name.name, child.name)
    refuse_transition_tables(session, child, "an inheritance child", "in inheritance hierarchies")
    create_inheritance(session, child, parent, is_partition=False)


def circular(parent: str, child: str) -> PgError:
    return PgError("42P07", "circular inheritance not allowed", detail=f'"{parent}" is already a child of "{child}".')


def create_inheritance(session: Session, child: Relation, parent: Relation, *, is_partition: bool) -> None:
    """As CreateInheritance does."""
    rows = store.rows(session, pg_inherits, inhrelid=child.oid)
    if any(row.inhparent == parent.oid for row in rows):
        raise PgError("42P07", f'relation "{parent.name}" would be inherited from more than once')
    _merge_columns(session, child, parent, is_partition=is_partition)
    _merge_checks(session, child, parent)
    number = max((row.inhseqno for row in rows), default=0) + 1
    store_inheritance(session, child.oid, parent, number, is_partition=parent.kind == "p")


def _merge_columns(session: Session, child: Relation, parent: Relation, *, is_partition: bool) -> None:
    """As MergeAttributesIntoExisting does."""
    for wanted in parent.columns:
        name = wanted.name
        own = child.attribute(name)
        if own is None:
            raise PgError("42804", f'child table is missing column "{name}"')
        if (wanted.type, wanted.typmod) != (own.type, own.typmod):
            raise PgError("42804", f'child table "{child.name}" has different type for column "{name}"')
        if wanted.collation != own.collation:
            raise PgError("42P21", f'child table "{child.name}" has different collation for column "{name}"')
        if wanted.notnull and not own.notnull:
            raise PgError("42804", f'column "{name}" in child table must be marked NOT NULL')
        if wanted.generated and not own.generated:
            raise PgError("42804", f'column "{name}" in child table must be a generated column')
        if own.generated and not wanted.generated:
            raise PgError("42804", f'column "{name}" in child table must not be a generated column')
        values: dict[str, object] = {"attinhcount": own.inhcount + 1}
        if is_partition:
            values["attidentity"] = wanted.identity
        if parent.kind == "p":
            values["attislocal"] = False
        store.update(session, pg_attribute, {"attrelid": child.oid, "attnum": own.num}, **values)


def _merge_checks(session: Session, child: Relation, parent: Relation) -> None:
    """As MergeConstraintsIntoExisting does."""
    own = {row.conname: row for row in constraints_of(session, child.oid, "c")}
    for wanted in constraints_of(session, parent.oid, "c"):
        if wanted.connoinherit:
            continue
        name = wanted.conname
        row = own.get(name)
        if row is None:
            raise PgError("42804", f'child table is missing constraint "{name}"')
        if _text(session, row, child) != _text(session, wanted, parent):
            raise PgError("42804", f'child table "{child.name}" has different definition for check constraint "{name}"')
        if row.connoinherit:
            raise PgError(
                "42P17",
                f'constraint "{name}" conflicts with non-inherited constraint on child table "{child.name}"',
            )
        if wanted.convalidated and not row.convalidated:
            raise PgError(
                "42P17", f'constraint "{name}" conflicts with NOT VALID constraint on child table "{child.name}"'
            )
        values: dict[str, object] = {"coninhcount": row.coninhcount + 1}
        if parent.kind == "p":
            values["conislocal"] = False
        update_constraint(session, row.oid, **values)


def _text(session: Session, row: pg_constraint, rel: Relation) -> str:
    """Two CHECKs are the same if they print the same, whatever the columns' numbers."""
    return expression_text(session, stored.from_json(row.conbin, session), rel)


# --- NO INHERIT ---------------------------------------------------------------------------------------------------


def prepare_no_inherit(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    check_target(work.session, "NO INHERIT", rel, TABLE + FOREIGN)
    assert cmd.relation is not None
    work.entry(rel).add(Pass.MISC, partial(_no_inherit, name=cmd.relation))


def _no_inherit(work: WorkQueue, altered: AlteredTable, *, name: RangeVar) -> None:
    session, child = work.session, work.relation(altered)
    if child.is_partition:
        raise PgError("42809", "cannot change inheritance of a partition")
    parent = open_table(session, unplaced_name(name))
    remove_inheritance(session, child, parent)


def remove_inheritance(session: Session, child: Relation, parent: Relation) -> None:
    """As RemoveInheritance does: what the child had from this parent becomes its own."""
    is_partition = parent.kind == "p"
    if not store.delete(session, pg_inherits, inhrelid=child.oid, inhparent=parent.oid):
        if is_partition:
            text = f'relation "{child.name}" is not a partition of relation "{parent.name}"'
        else:
            text = f'relation "{parent.name}" is not a parent of relation "{child.name}"'
        raise PgError("42P01", text)
    names = {attribute.name for attribute in parent.columns}
    for own in child.columns:
        if own.inhcount > 0 and own.name in names:
            values: dict[str, object] = {"attinhcount": own.inhcount - 1}
            if own.inhcount == 1:
                values["attislocal"] = True
            store.update(session, pg_attribute, {"attrelid": child.oid, "attnum": own.num}, **values)
    names = {row.conname for row in constraints_of(session, parent.oid, "c")}
    for row in constraints_of(session, child.oid, "c"):
        if row.conname not in names:
            continue
        if row.coninhcount <= 0:
            raise PgError("XX000", f'relation {child.oid} has non-inherited constraint "{row.conname}"')
        changed: dict[str, object] = {"coninhcount": row.coninhcount - 1}
        if row.coninhcount == 1:
            changed["conislocal"] = True
        update_constraint(session, row.oid, **changed)
    _forget_parent(session, child, parent, is_partition=is_partition)


def _forget_parent(session: Session, child: Relation, parent: Relation, *, is_partition: bool) -> None:
    self, other = ObjectAddress(PG_CLASS, child.oid), ObjectAddress(PG_CLASS, parent.oid)
    store.delete(
        session,
        pg_depend,
        datid=session.database_oid,
        classid=self.classid,
        objid=self.objid,
        objsubid=0,
        refclassid=other.classid,
        refobjid=other.objid,
        refobjsubid=0,
        deptype=child_dependency(is_partition).value,
    )
