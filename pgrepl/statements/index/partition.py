"""Indexes of partitioned tables: each partition has one for each of its parent's, found or made, and tied to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import store
from pgrepl.catalog.classes import PG_CLASS, ObjectAddress
from pgrepl.catalog.constraint import constraint_of_index, constraint_row
from pgrepl.catalog.depend import Dependency, forget_dependencies
from pgrepl.catalog.indexes import index_row
from pgrepl.catalog.inheritance import children
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_class, pg_index, pg_inherits
from pgrepl.expr.attmap import attnum_map
from pgrepl.expr.index_info import IndexInfo, index_info, index_infos, same_index
from pgrepl.expr.partition_order import partition_desc
from pgrepl.statements.index.clone import cloned_spec
from pgrepl.statements.table.constraints import set_parent_constraint
from pgrepl.statements.table.inherit import has_parent, partition_parent, set_has_subclass

if TYPE_CHECKING:
    from pgrepl.statements.index.define import Origin


def index_partitions(session: Session, rel: Relation, index: int, constraint: int, origin: Origin) -> None:
    """Give every partition its part of a new index, as the end of DefineIndex does."""
    from pgrepl.statements.index.define import define_index

    parent = index_info(session, index)
    invalid = False
    for oid in partition_desc(session, rel.oid).oids:
        partition = relation(session, oid)
        numbers = attnum_map(partition, rel)
        found = _matching(session, partition, parent, numbers, constraint)
        if found is not None:
            attach_index(session, found, parent, constraint)
            invalid |= not found.valid
            continue
        spec, _ = cloned_spec(session, index, numbers)
        made = define_index(
            session,
            oid,
            spec,
            alter_table=origin.alter_table,
            check_rights=origin.check_rights,
            parent_index=index,
            parent_constraint=constraint,
            unique=origin.unique,
        )
        invalid |= not index_info(session, made).valid
    if invalid:
        store.update(session, pg_index, {"indexrelid": index}, indisvalid=False)


def _matching(
    session: Session, partition: Relation, parent: IndexInfo, numbers: dict[int, int], constraint: int
) -> IndexInfo | None:
    """An index of the partition that will do, tied to nothing yet."""
    for info in index_infos(session, partition.oid):
        if has_parent(session, info.oid) or not same_index(info, parent, numbers):
            continue
        if constraint and not constraint_of_index(session, info.oid):
            continue
        return info
    return None


def ensure_indexes(session: Session, rel: Relation, partition: Relation) -> None:
    """Before a table becomes a partition it gets the indexes it lacks, as AttachPartitionEnsureIndexes does."""
    from pgrepl.statements.index.define import define_index

    numbers = attnum_map(partition, rel)
    candidates = index_infos(session, partition.oid)
    for parent in index_infos(session, rel.oid):
        if parent.kind != "I":
            continue
        constraint = constraint_of_index(session, parent.oid)
        for info in candidates:
            if has_parent(session, info.oid) or not info.valid or not same_index(info, parent, numbers):
                continue
            own = constraint_of_index(session, info.oid)
            if constraint and (not own or not _same_kind(session, own, constraint)):
                continue
            attach_index(session, info, parent, constraint)
            break
        else:
            spec, _ = cloned_spec(session, parent.oid, numbers)
            define_index(
                session,
                partition.oid,
                spec,
                alter_table=True,
                check_rights=False,
                parent_index=parent.oid,
                parent_constraint=constraint,
            )


def _same_kind(session: Session, one: int, other: int) -> bool:
    return bool(constraint_row(session, one).contype == constraint_row(session, other).contype)


def attach_index(session: Session, index: IndexInfo, parent: IndexInfo, constraint: int) -> None:
    """Tie an index, and its constraint if the parent's has one, to the parent's index."""
    set_parent_index(session, index, parent.oid)
    if constraint:
        own = constraint_of_index(session, index.oid)
        set_parent_constraint(session, own, constraint, index.table)


def set_parent_index(session: Session, index: IndexInfo, parent: int) -> None:
    """As IndexSetParentIndex does; parent 0 sets the index free."""
    from pgrepl.statements.index.define import tie_to_parent

    self = ObjectAddress(PG_CLASS, index.oid)
    store.update(session, pg_class, {"oid": index.oid}, relispartition=bool(parent))
    if parent:
        store.insert(session, pg_inherits, inhrelid=index.oid, inhparent=parent, inhseqno=1, inhdetachpending=False)
        set_has_subclass(session, relation(session, parent))
        tie_to_parent(session, index.oid, parent, index.table)
        return
    store.delete(session, pg_inherits, inhrelid=index.oid)
    forget_dependencies(session, self, refclassid=PG_CLASS, kind=Dependency.PARTITION_PRI)
    forget_dependencies(session, self, refclassid=PG_CLASS, kind=Dependency.PARTITION_SEC)


def validate_partitioned(session: Session, index: int) -> None:
    """A partitioned index is valid once every partition has its part, as validatePartitionedIndex does."""
    row = index_row(session, index)
    assert row is not None
    parts = [index_row(session, child) for child in children(session, index)]
    valid = sum(part is not None and bool(part.indisvalid) for part in parts)
    if valid != len(partition_desc(session, row.indrelid).oids):
        return
    store.update(session, pg_index, {"indexrelid": index}, indisvalid=True)
    if relation(session, index).is_partition:
        validate_partitioned(session, partition_parent(session, index))


def partition_index(session: Session, partition: int, parent_index: int) -> int:
    """The partition's part of an index, 0 if it has none (index_get_partition)."""
    for info in index_infos(session, partition):
        if info.is_partition and partition_parent(session, info.oid) == parent_index:
            return info.oid
    return 0
