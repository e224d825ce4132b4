"""Constraints as they stand in the catalog (pg_constraint)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import store
from pgrepl.catalog.tables import pg_constraint
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def constraints_of(session: Session, relid: int, kind: str | None = None) -> list[pg_constraint]:
    """The constraints of a relation by name, which is the order PostgreSQL finds them in."""
    rows = store.rows(session, pg_constraint, conrelid=relid)
    return sorted((row for row in rows if kind is None or row.contype == kind), key=lambda row: row.conname.encode())


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
