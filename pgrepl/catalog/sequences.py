"""Sequences that belong to columns: of serial columns (AUTO) and of identity columns (INTERNAL)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgrepl.catalog import store
from pgrepl.catalog.acl import check_owner
from pgrepl.catalog.classes import PG_CLASS, ObjectAddress
from pgrepl.catalog.depend import Dependency, dependencies_of
from pgrepl.catalog.inheritance import partition_ancestors
from pgrepl.catalog.relation import relation, relation_or_none
from pgrepl.catalog.sequence_positions import new_relfilenumber
from pgrepl.catalog.tables import pg_depend, pg_sequence
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def sequence_row(session: Session, oid: int) -> pg_sequence:
    row = store.one(session, pg_sequence, seqrelid=oid)
    if row is None:
        raise PgError("XX000", f"cache lookup failed for sequence {oid}")
    return row


def owner_column(session: Session, sequence: int, kind: Dependency) -> tuple[int, int] | None:
    """The table and column a sequence belongs to (sequenceIsOwned): AUTO for serial, INTERNAL for identity."""
    for row in dependencies_of(session, ObjectAddress(PG_CLASS, sequence)):
        if row.refclassid == PG_CLASS and row.deptype == kind.value and row.refobjsubid:
            return row.refobjid, row.refobjsubid
    return None


def sequences_of(session: Session, relid: int) -> list[tuple[int, int, str]]:
    """The sequences that belong to columns of a table: (sequence, column, kind of dependency)."""
    found = []
    for row in store.rows(
        session, pg_depend, datid=session.database_oid, refclassid=PG_CLASS, refobjid=relid, classid=PG_CLASS
    ):
        if row.refobjsubid and not row.objsubid and row.deptype in ("a", "i"):
            rel = relation_or_none(session, row.objid)
            if rel is not None and rel.kind == "S":
                found.append((row.objid, row.refobjsubid, row.deptype))
    return sorted(found)


def identity_sequence(session: Session, relid: int, attnum: int) -> int:
    """The sequence of an identity column, 0 if there is none. Partitions share that of their topmost table
    (getIdentitySequence)."""
    rel = relation(session, relid)
    if rel.is_partition:
        attribute = rel.attribute_by_number(attnum)
        ancestors = partition_ancestors(session, relid)
        if attribute is not None and ancestors:
            top = relation(session, ancestors[-1])
            same = top.attribute(attribute.name)
            relid, attnum = top.oid, same.num if same is not None else 0
    for sequence, column, kind in sequences_of(session, relid):
        if column == attnum and kind == "i":
            return sequence
    return 0


def check_sequences_owner(session: Session, relids: Iterable[int]) -> None:
    """An error unless the role owns the sequences of the tables' columns (ExecuteTruncateGuts)."""
    for relid in relids:
        for oid, _, _ in sequences_of(session, relid):
            sequence = relation(session, oid)
            check_owner(session, "sequence", sequence.name, sequence.owner)


def restart_sequences(session: Session, relids: Iterable[int]) -> None:
    """Restart the sequences of the tables' columns (RESTART IDENTITY)."""
    for relid in relids:
        for oid, _, _ in sequences_of(session, relid):
            start = sequence_row(session, oid).seqstart
            new_relfilenumber(session, oid)
            store.update(session, pg_sequence, {"seqrelid": oid}, last_value=start, is_called=False)
