"""The rows of a foreign key in pg_constraint: of or to a partitioned table there is one for each partition on either
side, each tied to the row above it (addFkConstraint, addFkRecurseReferenced, addFkRecurseReferencing).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from pgrepl.catalog.classes import PG_CLASS, PG_CONSTRAINT, ObjectAddress
from pgrepl.catalog.constraint import constraint_row, constraints_of
from pgrepl.catalog.depend import Dependency, forget_dependencies, record_dependency
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_constraint
from pgrepl.errors import PgError
from pgrepl.expr.attmap import attnum_map
from pgrepl.expr.partition_order import partition_desc
from pgrepl.rows.requirements import KeysExist, Requirement
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.index.partition import partition_index
from pgrepl.statements.table.constraints import ForeignKeyFields, set_parent_constraint, store_constraint
from pgrepl.statements.table.names import choose_constraint_name, constraint_on, name_addition


class KeySide(Enum):
    """The sides of a foreign key that a row is for: both for the key itself, one for a partition."""

    BOTH = "both"
    REFERENCED = "referenced"
    REFERENCING = "referencing"


@dataclass(frozen=True, slots=True)
class KeySpec:
    """The fields that all rows of one foreign key share."""

    name: str | None
    columns: tuple[str, ...]  # of the referencing table, for names
    on_update: str
    on_delete: str
    match: str
    deferrable: bool
    deferred: bool
    valid: bool
    validate: bool


@dataclass(frozen=True, slots=True)
class KeyColumns:
    referenced: tuple[int, ...]
    referencing: tuple[int, ...]
    delete_set: tuple[int, ...] = ()


def store_key(
    session: Session,
    side: KeySide,
    spec: KeySpec,
    wanted: str,
    rel: Relation,
    pk_rel: Relation,
    index: int,
    parent: int,
    columns: KeyColumns,
) -> tuple[int, KeySpec]:
    """Store one row of a foreign key, as addFkConstraint does. Returns its OID, and the spec with a name."""
    if pk_rel.kind not in ("r", "p"):
        raise PgError("42809", f'referenced relation "{pk_rel.name}" is not a table')
    name = wanted
    if constraint_on(session, rel.oid, wanted):
        name = choose_constraint_name(session, rel.name, name_addition(spec.columns), "fkey", rel.namespace)
    if spec.name is None:
        spec = replace(spec, name=name)
    oid = store_constraint(
        session,
        rel,
        name,
        "f",
        columns=columns.referencing,
        deferrable=spec.deferrable,
        deferred=spec.deferred,
        valid=spec.valid,
        parent=parent,
        foreign=ForeignKeyFields(
            pk_rel.oid,
            columns.referenced,
            index,
            spec.on_update,
            spec.on_delete,
            spec.match,
            columns.delete_set,
        ),
        local=not parent,
        inhcount=1 if parent else 0,
        no_inherit=not parent and rel.kind != "p",
    )
    if parent:
        self, whole = ObjectAddress(PG_CONSTRAINT, oid), ObjectAddress(PG_CONSTRAINT, parent)
        if side is KeySide.REFERENCED:
            record_dependency(session, self, whole, Dependency.INTERNAL)
        else:
            record_dependency(session, self, whole, Dependency.PARTITION_PRI)
            record_dependency(session, self, ObjectAddress(PG_CLASS, rel.oid), Dependency.PARTITION_SEC)
    return oid, spec


def recurse_referenced(
    session: Session,
    spec: KeySpec,
    rel: Relation,
    pk_rel: Relation,
    index: int,
    parent: int,
    columns: KeyColumns,
) -> None:
    """A row for each partition of the referenced table, as addFkRecurseReferenced makes them."""
    if pk_rel.kind != "p":
        return
    for oid in partition_desc(session, pk_rel.oid).oids:
        part = relation(session, oid)
        numbers = attnum_map(part, pk_rel)
        mapped = replace(columns, referenced=tuple(numbers[number] for number in columns.referenced))
        part_index = partition_index(session, oid, index)
        assert spec.name is not None
        row, _ = store_key(session, KeySide.REFERENCED, spec, spec.name, rel, part, part_index, parent, mapped)
        recurse_referenced(session, spec, rel, part, part_index, row, mapped)


def recurse_referencing(
    session: Session,
    spec: KeySpec,
    rel: Relation,
    pk_rel: Relation,
    index: int,
    parent: int,
    columns: KeyColumns,
    pending: list[Requirement] | None,
) -> None:
    """A row for each partition of the referencing table, as addFkRecurseReferencing makes them."""
    if rel.kind == "r":
        if pending is not None and spec.validate:
            pending.append(KeysExist(rel.oid, parent))
        return

    for oid in partition_desc(session, rel.oid).oids:
        part = relation(session, oid)
        if part.oid == pk_rel.oid:
            # the referenced table is open, and every partition of the referencing one must not be (CheckTableNotInUse)
            raise PgError(
                "55006", f'cannot ALTER TABLE "{part.name}" because it is being used by active queries in this session'
            )
        numbers = attnum_map(part, rel)
        mapped = replace(columns, referencing=tuple(numbers[number] for number in columns.referencing))
        if attach_existing_key(session, part, parent, mapped):
            continue
        assert spec.name is not None
        row, _ = store_key(session, KeySide.REFERENCING, spec, spec.name, part, pk_rel, index, parent, mapped)
        recurse_referencing(session, spec, part, pk_rel, index, row, mapped, pending)


def attach_existing_key(session: Session, partition: Relation, parent: int, columns: KeyColumns) -> bool:
    """Tie a foreign key that the partition has already to its parent's, as tryAttachPartitionForeignKey does."""
    whole = constraint_row(session, parent)
    for row in constraints_of(session, partition.oid, "f"):
        if not _same_key(row, whole, columns):
            continue
        set_parent_constraint(session, row.oid, parent, partition.oid)
        if relation(session, row.confrelid).kind == "p":
            _drop_parts(session, row)
        return True
    return False


def _same_key(row: pg_constraint, whole: pg_constraint, columns: KeyColumns) -> bool:
    return (
        row.confrelid == whole.confrelid
        and tuple(row.conkey) == columns.referencing
        and tuple(row.confkey or ()) == columns.referenced
        and not row.conparentid
        and bool(row.convalidated)
        and (row.condeferrable, row.condeferred, row.confupdtype, row.confdeltype, row.confmatchtype)
        == (whole.condeferrable, whole.condeferred, whole.confupdtype, whole.confdeltype, whole.confmatchtype)
    )


def _drop_parts(session: Session, row: pg_constraint) -> None:
    """Drop a key's rows for the partitions of the referenced table: its new parent has such rows."""
    addresses = []
    for part in constraints_of(session, row.conrelid, "f"):
        if part.conparentid == row.oid:
            address = ObjectAddress(PG_CONSTRAINT, part.oid)
            forget_dependencies(session, address, refclassid=PG_CONSTRAINT, kind=Dependency.INTERNAL)
            addresses.append(address)
    if addresses:
        drop_objects(session, addresses, cascade=False, quietly=True)
