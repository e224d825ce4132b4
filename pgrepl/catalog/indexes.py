"""The indexes of a table, and which of them identifies its rows for replication (RelationGetIndexList)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.store import one, rows

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.catalog.session import Session


def indexes(session: Session, relid: int) -> list[tables.pg_index]:
    """The rows of pg_index of a table, by OID."""
    return sorted(rows(session, tables.pg_index, indrelid=relid), key=lambda row: row.indexrelid)


def index_row(session: Session, oid: int) -> tables.pg_index | None:
    return one(session, tables.pg_index, indexrelid=oid)


def primary_key(session: Session, relation: Relation) -> tables.pg_index | None:
    """The primary key's index (RelationGetPrimaryKeyIndex)."""
    for row in indexes(session, relation.oid):
        if row.indisprimary and (row.indisvalid or relation.kind == "p"):
            return row
    return None


def replica_identity_index(session: Session, relation: Relation) -> tables.pg_index | None:
    """The index that identifies a row that is updated or deleted: the primary key unless it is deferrable, or the index
    that REPLICA IDENTITY USING INDEX chose (RelationGetReplicaIndex)."""
    if relation.replident == "d":
        row = primary_key(session, relation)
        return row if row is not None and row.indimmediate else None
    if relation.replident == "i":
        for row in indexes(session, relation.oid):
            if row.indisreplident and row.indimmediate and row.indisvalid:
                return row
    return None


def identity_or_primary_key(session: Session, relation: Relation) -> tables.pg_index | None:
    """The index by which a subscriber finds a row (GetRelationIdentityOrPK); a deferrable one does not count."""
    row = replica_identity_index(session, relation) or primary_key(session, relation)
    return row if row is not None and row.indimmediate else None


def identity_key_columns(session: Session, relation: Relation) -> frozenset[int]:
    """The columns of the replica identity index; none when there is no such index (RelationGetIdentityKeyBitmap)."""
    row = replica_identity_index(session, relation)
    return frozenset() if row is None else frozenset(row.indkey[: row.indnkeyatts])
