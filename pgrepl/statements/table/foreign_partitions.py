"""Foreign keys when a table becomes a partition, and when it stops being one."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.catalog import store
from pgrepl.catalog.classes import PG_CONSTRAINT, ObjectAddress
from pgrepl.catalog.constraint import constraints_of
from pgrepl.catalog.depend import Dependency, forget_dependencies
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_constraint
from pgrepl.errors import PgError
from pgrepl.expr.attmap import attnum_map
from pgrepl.rows.requirements import NotReferenced, Requirement
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.index.partition import partition_index
from pgrepl.statements.table.constraints import set_parent_constraint
from pgrepl.statements.table.foreign_rows import (
    KeyColumns,
    KeySide,
    KeySpec,
    attach_existing_key,
    recurse_referenced,
    recurse_referencing,
    store_key,
)
from pgrepl.writing.rewrite.phase3 import require


def clone_foreign_keys(
    session: Session, parent: Relation, partition: Relation, pending: list[Requirement] | None
) -> None:
    """The parent's foreign keys become the partition's, and foreign keys to the parent reach the partition, too, as
    CloneForeignKeyConstraints does. `pending` is None for a partition that is new and has no rows."""
    own = sorted(constraints_of(session, parent.oid, "f"), key=lambda row: row.conname)
    _clone_referenced(session, parent, partition)
    _clone_referencing(session, parent, partition, own, pending)


def referencing_keys(session: Session, relid: int) -> list[pg_constraint]:
    """The foreign keys that reference a table, by OID."""
    rows = store.rows(session, pg_constraint, confrelid=relid, contype="f")
    return sorted(rows, key=lambda row: row.oid)


def _spec(session: Session, rel: Relation, row: pg_constraint, numbers: tuple[int, ...], name: str | None) -> KeySpec:
    names = tuple(rel.attributes[number - 1].name for number in numbers)
    return KeySpec(
        name,
        names,
        row.confupdtype,
        row.confdeltype,
        row.confmatchtype,
        bool(row.condeferrable),
        bool(row.condeferred),
        True,
        True,
    )


def _columns(row: pg_constraint) -> KeyColumns:
    return KeyColumns(tuple(row.confkey or ()), tuple(row.conkey), tuple(row.confdelsetcols or ()))


def _topmost(rows: list[pg_constraint]) -> list[pg_constraint]:
    """The rows whose parent is not among them."""
    oids = {row.oid for row in rows}
    return [row for row in rows if row.conparentid not in oids]


def _clone_referenced(session: Session, parent: Relation, partition: Relation) -> None:
    rows = _topmost(referencing_keys(session, parent.oid))
    if not rows:
        return
    numbers = attnum_map(partition, parent)
    for row in rows:
        rel = relation(session, row.conrelid)
        columns = _columns(row)
        mapped = replace(columns, referenced=tuple(numbers[number] for number in columns.referenced))
        spec = _spec(session, rel, row, columns.referencing, row.conname)
        index = partition_index(session, partition.oid, row.conindid)
        oid, spec = store_key(session, KeySide.REFERENCED, spec, row.conname, rel, partition, index, row.oid, mapped)
        recurse_referenced(session, spec, rel, partition, index, oid, mapped)


def _clone_referencing(
    session: Session,
    parent: Relation,
    partition: Relation,
    rows: list[pg_constraint],
    pending: list[Requirement] | None,
) -> None:
    for row in rows:
        if row.confrelid == partition.oid:
            raise PgError(
                "0A000",
                f'cannot attach table "{partition.name}" as a partition because it is referenced by foreign key '
                f'"{row.conname}"',
            )
    if not rows:
        return
    numbers = attnum_map(partition, parent)
    for row in _topmost(rows):
        columns = _columns(row)
        mapped = replace(columns, referencing=tuple(numbers[number] for number in columns.referencing))
        if attach_existing_key(session, partition, row.oid, mapped):
            continue
        pk_rel = relation(session, row.confrelid)
        spec = replace(_spec(session, partition, row, mapped.referencing, None), valid=bool(row.convalidated))
        oid, spec = store_key(
            session,
            KeySide.REFERENCING,
            spec,
            row.conname,
            partition,
            pk_rel,
            row.conindid,
            row.oid,
            mapped,
        )
        recurse_referencing(session, spec, partition, pk_rel, row.conindid, oid, mapped, pending)


# --- detaching ----------------------------------------------------------------------------------------------------


def check_not_referenced(session: Session, partition: Relation) -> None:
    """No row of the partition may be referenced by a key to the partitioned table, as ATDetachCheckNoForeignKeyRefs
    checks."""
    for row in referencing_keys(session, partition.oid):
        if row.conparentid:
            require(session, NotReferenced(partition.oid, row.oid))


def detach_foreign_keys(session: Session, partition: Relation) -> None:
    """The partition keeps the foreign keys it got from its parent as its own; keys to the parent lose their rows for
    it."""
    own = constraints_of(session, partition.oid, "f")
    oids = {row.oid for row in own}
    for row in own:
        if not row.conparentid or row.conparentid in oids:
            continue
        set_parent_constraint(session, row.oid, 0, 0)
        pk_rel = relation(session, row.confrelid)
        columns = _columns(row)
        spec = _spec(session, partition, row, columns.referencing, row.conname)
        recurse_referenced(session, spec, partition, pk_rel, row.conindid, row.oid, columns)
    for row in referencing_keys(session, partition.oid):
        if row.conparentid:
            address = ObjectAddress(PG_CONSTRAINT, row.oid)
            set_parent_constraint(session, row.oid, 0, 0)
            forget_dependencies(session, address, refclassid=PG_CONSTRAINT, kind=Dependency.INTERNAL)
            drop_objects(session, [address], cascade=False)
