"""Making a table the child of another: the row of pg_inherits and the dependency that DROP follows."""

from __future__ import annotations

from pgrepl.catalog import store
from pgrepl.catalog.classes import PG_CLASS, ObjectAddress
from pgrepl.catalog.depend import Dependency, record_dependency
from pgrepl.catalog.inheritance import children, parents
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_class, pg_inherits


def store_inheritance(session: Session, child: int, parent: Relation, number: int, *, is_partition: bool) -> None:
    """As StoreCatalogInheritance1 does. A partition is dropped with its parent, an ordinary child only by CASCADE."""
    store.insert(session, pg_inherits, inhrelid=child, inhparent=parent.oid, inhseqno=number, inhdetachpending=False)
    record_dependency(
        session, ObjectAddress(PG_CLASS, child), ObjectAddress(PG_CLASS, parent.oid), child_dependency(is_partition)
    )
    set_has_subclass(session, parent)


def child_dependency(is_partition: bool) -> Dependency:
    return Dependency.AUTO if is_partition else Dependency.NORMAL


def set_has_subclass(session: Session, parent: Relation) -> None:
    if not parent.has_subclass:
        store.update(session, pg_class, {"oid": parent.oid}, relhassubclass=True)


def partition_parent(session: Session, child: int) -> int:
    """The parent of a partition or of a partition's index (get_partition_parent)."""
    return parents(session, child)[0]


def has_parent(session: Session, child: int) -> bool:
    return bool(parents(session, child))


def inheritors_with_parents(session: Session, root: int) -> dict[int, int]:
    """The relation and all that inherit from it, with the number of parents each has inside the tree."""
    found = {root: 0}
    queue = [root]
    for relid in queue:
        for child in children(session, relid):
            if child in found:
                found[child] += 1
            else:
                found[child] = 1
                queue.append(child)
    return found
