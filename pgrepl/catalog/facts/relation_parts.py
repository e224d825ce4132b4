"""Inheritance and partition trees, indexes, constraints, and the kinds of relations in messages (pg_inherits.c,
partition.c); row security: there are no policies, so that a role to which it applies sees no row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import is_owner
from pgrepl.catalog.facts.relation import Relation, find_relation, relation
from pgrepl.catalog.facts.roles import role_row
from pgrepl.catalog.store import store, tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.sql.nodes.expr import RangeVar


def children(session: Session, relid: int) -> list[int]:
    """The direct children, by OID (find_inheritance_children)."""
    return sorted(row.inhrelid for row in rows(session, tables.pg_inherits, inhparent=relid))


def inheritors(session: Session, relid: int) -> list[int]:
    """The relation and all below it, level by level (find_all_inheritors)."""
    relids = [relid]
    seen = {relid}
    for parent in relids:
        for child in children(session, parent):
            if child not in seen:
                seen.add(child)
                relids.append(child)
    return relids


def parents(session: Session, relid: int) -> list[int]:
    """The direct parents in the order they were named."""
    listed = sorted(rows(session, tables.pg_inherits, inhrelid=relid), key=lambda row: row.inhseqno)
    return [row.inhparent for row in listed]


def link(session: Session, relid: int) -> tables.pg_inherits | None:
    """The row of a partition and its parent."""
    return one(session, tables.pg_inherits, inhrelid=relid)


def partition_ancestors(session: Session, relid: int) -> list[int]:
    """The partition's ancestors, the root last (get_partition_ancestors)."""
    ancestors: list[int] = []
    row = link(session, relid)
    while row is not None:
        ancestors.append(row.inhparent)
        row = link(session, row.inhparent)
    return ancestors


def partition_root(session: Session, table: Relation) -> Relation:
    """The partitioned table at the top of a partition's tree; another table itself."""
    return relation(session, partition_ancestors(session, table.oid)[-1]) if table.is_partition else table


# --- relkind ----------------------------------------------------------------------------------------------------------


PLURALS = {
    "r": "tables",
    "i": "indexes",
    "S": "sequences",
    "t": "TOAST tables",
    "v": "views",
    "m": "materialized views",
    "c": "composite types",
    "f": "foreign tables",
    "p": "partitioned tables",
    "I": "partitioned indexes",
}


def not_supported(kind: str) -> str:
    """The DETAIL of a statement that does not work on such a relation (errdetail_relkind_not_supported)."""
    return f"This operation is not supported for {PLURALS[kind]}."


def open_table(session: Session, name: RangeVar) -> Relation:
    """The relation of that name, which is no index or composite type (table_openrv). The error for a missing one has no
    position."""
    rel = find_relation(session, replace(name, location=-1))
    if rel.kind in "iIc":
        raise PgError("42809", f'cannot open relation "{rel.name}"', detail=not_supported(rel.kind))
    return rel


# --- indexes ----------------------------------------------------------------------------------------------------------


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


def key_names(relation: Relation, index: tables.pg_index | None) -> list[str]:
    """The names of an index's key columns, which are columns of its table."""
    numbers = () if index is None else index.indkey[: index.indnkeyatts]
    return [relation.attributes[number - 1].name for number in numbers]


# --- constraint -------------------------------------------------------------------------------------------------------


def constraints_of(session: Session, relid: int, kind: str | None = None) -> list[pg_constraint]:
    """The constraints of a relation by name, which is the order PostgreSQL finds them in."""
    rows = store.rows(session, pg_constraint, conrelid=relid)
    return sorted((row for row in rows if kind is None or row.contype == kind), key=lambda row: row.conname.encode())


def not_nulls(session: Session, relid: int) -> dict[int, pg_constraint]:
    """The NOT NULL constraints of a table, by the columns' numbers. What is defined under PostgreSQL 17 has none."""
    return {row.conkey[0]: row for row in constraints_of(session, relid, "n")}


def not_null_of(session: Session, relation: Relation, column: str) -> pg_constraint | None:
    """The NOT NULL constraint of a column by its name."""
    attribute = relation.attribute(column)
    return None if attribute is None else not_nulls(session, relation.oid).get(attribute.num)


def unproven(session: Session, relid: int) -> set[int]:
    """The numbers of the columns whose NOT NULL is NOT VALID: rows that were there before may have NULL in them."""
    return {number for number, row in not_nulls(session, relid).items() if not row.convalidated}


def constraint_named(session: Session, relid: int, name: str) -> pg_constraint | None:
    return store.one(session, pg_constraint, conrelid=relid, conname=name)


def constraint_row(session: Session, oid: int) -> pg_constraint:
    row = store.one(session, pg_constraint, oid=oid)
    if row is None:
        raise PgError("XX000", f"cache lookup failed for constraint {oid}")
    return row


def constraints_of_index(session: Session, index: int, relid: int) -> list[pg_constraint]:
    """The constraints that an index enforces on its table: PRIMARY KEY, UNIQUE, EXCLUDE."""
    rows = store.rows(session, pg_constraint, conindid=index, conrelid=relid)
    return [row for row in rows if row.contype in "pux"]


def foreign_keys_to(session: Session, relid: int) -> list[pg_constraint]:
    rows = store.rows(session, pg_constraint, confrelid=relid)
    return [row for row in rows if row.contype == "f"]


def constraint_of_index(session: Session, index: int) -> int:
    """The PRIMARY KEY or UNIQUE constraint an index belongs to, 0 if none (get_index_constraint)."""
    for row in store.rows(session, pg_constraint, conindid=index):
        if row.contype in ("p", "u", "x"):
            return int(row.oid)
    return 0


# --- row security -----------------------------------------------------------------------------------------------------


def is_active(session: Session, rel: Relation, role: int | None = None) -> bool:
    """Does row security apply to the role (the current one)? Not to the owner, unless forced, nor to a role with
    BYPASSRLS (check_enable_rls)."""
    if not rel.row_security:
        return False
    who = session.role if role is None else role
    row = role_row(session, who)
    if row is None or row.rolsuper or row.rolbypassrls:
        return False
    return rel.force_row_security or not is_owner(session, rel.owner, who)


def hides_rows(session: Session, rel: Relation, role: int) -> bool:
    """Does row security hide all rows from the role? An error with row_security = off."""
    if not is_active(session, rel, role):
        return False
    if not session.settings.value("row_security"):
        hint = None
        if is_owner(session, rel.owner, role):
            hint = "To disable the policy for the table's owner, use ALTER TABLE NO FORCE ROW LEVEL SECURITY."
        raise PgError(
            "42501", f'query would be affected by row-level security policy for table "{rel.name}"', hint=hint
        )
    return True
