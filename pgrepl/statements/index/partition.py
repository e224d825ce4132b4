"""Indexes of partitioned tables: for each of them every partition has one, found or created, and attached to it."""

from __future__ import annotations

from pgrepl.catalog import store
from pgrepl.catalog.classes import PG_CLASS, ObjectAddress
from pgrepl.catalog.constraint import constraint_of_index
from pgrepl.catalog.depend import Dependency, forget_dependencies
from pgrepl.catalog.indexes import index_row
from pgrepl.catalog.inheritance import children
from pgrepl.catalog.relation import relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_class, pg_index, pg_inherits
from pgrepl.expr.index_info import IndexInfo, index_infos
from pgrepl.expr.partition_order import partition_desc
from pgrepl.statements.index.store import tie_to_parent
from pgrepl.statements.table.constraints import set_parent_constraint
from pgrepl.statements.table.inherit import partition_parent, set_has_subclass


def attach_index(session: Session, index: IndexInfo, parent: IndexInfo, constraint: int) -> None:
    """Attach an index, and its constraint if the parent's has one, to the parent's index."""
    set_parent_index(session, index, parent.oid)
    if constraint:
        own = constraint_of_index(session, index.oid)
        set_parent_constraint(session, own, constraint, index.table)


def set_parent_index(session: Session, index: IndexInfo, parent: int) -> None:
    """As IndexSetParentIndex does; parent 0 detaches the index."""
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
