"""Parents and children: inheritance and partition trees (PostgreSQL's pg_inherits.c and partition.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.store import one, rows

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def children(session: Session, relid: int) -> list[int]:
    """The direct children, by OID (find_inheritance_children)."""
    return sorted(row.inhrelid for row in rows(session, tables.pg_inherits, inhparent=relid))


def inheritors(session: Session, relid: int) -> list[int]:
    """The relation and all below it, level by level (find_all_inheritors)."""
    found = [relid]
    seen = {relid}
    for parent in found:
        for child in children(session, parent):
            if child not in seen:
                seen.add(child)
                found.append(child)
    return found


def parents(session: Session, relid: int) -> list[int]:
    """The direct parents in the order they were named."""
    listed = sorted(rows(session, tables.pg_inherits, inhrelid=relid), key=lambda row: row.inhseqno)
    return [row.inhparent for row in listed]


def link(session: Session, relid: int) -> tables.pg_inherits | None:
    """The row of a partition and its parent."""
    return one(session, tables.pg_inherits, inhrelid=relid)


def partition_ancestors(session: Session, relid: int) -> list[int]:
    """The partition's ancestors, the root last (get_partition_ancestors)."""
    found: list[int] = []
    row = link(session, relid)
    while row is not None:
        found.append(row.inhparent)
        row = link(session, row.inhparent)
    return found


def partition_root(session: Session, table: Relation) -> Relation:
    """The partitioned table at the top of a partition's tree; another table itself."""
    return relation(session, partition_ancestors(session, table.oid)[-1]) if table.is_partition else table
