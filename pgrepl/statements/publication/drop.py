"""DROP PUBLICATION, and ALTER PUBLICATION … RENAME TO and OWNER TO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.acl import check_owner
from pgrepl.catalog.classes import PG_PUBLICATION, ObjectAddress
from pgrepl.catalog.databases import check_may_create
from pgrepl.catalog.publication import is_schema_publication, publication_by_name, publication_or_none
from pgrepl.catalog.roles import check_can_set_role, is_superuser, resolve_role
from pgrepl.catalog.store import one, update
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterOwnerStmt, DropStmt, RenameStmt
from pgrepl.statements.deletion import drop_objects

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def drop_publications(stmt: DropStmt, session: Session) -> Result:
    addresses = []
    for (name,) in stmt.names:
        row = publication_or_none(session, name) if stmt.missing_ok else publication_by_name(session, name)
        if row is None:
            session.notice("NOTICE", f'publication "{name}" does not exist, skipping')
            continue
        check_owner(session, "publication", name, row.pubowner)
        addresses.append(ObjectAddress(PG_PUBLICATION, row.oid))
    drop_objects(session, addresses, cascade=stmt.cascade)
    return Result("DROP PUBLICATION")


def rename_publication(stmt: RenameStmt, session: Session) -> Result:
    assert stmt.name is not None
    row = publication_by_name(session, stmt.name)
    check_owner(session, "publication", stmt.name, row.pubowner)
    if publication_or_none(session, stmt.new_name) is not None:
        raise PgError("42710", f'publication "{stmt.new_name}" already exists')
    update(session, tables.pg_publication, {"oid": row.oid}, pubname=stmt.new_name)
    return Result("ALTER PUBLICATION")


def give_publication(stmt: AlterOwnerStmt, session: Session) -> Result:
    """As AlterPublicationOwner."""
    owner = resolve_role(session, stmt.new_owner)
    (name,) = stmt.name
    _change_owner(session, publication_by_name(session, name), owner)
    return Result("ALTER PUBLICATION")


def reassign_publication(session: Session, oid: int, new_owner: int) -> None:
    row = one(session, tables.pg_publication, oid=oid)
    assert row is not None
    _change_owner(session, row, new_owner)


def _change_owner(session: Session, row: tables.pg_publication, owner: int) -> None:
    """As AlterPublicationOwner_internal."""
    if row.pubowner != owner:
        if not is_superuser(session):
            check_owner(session, "publication", row.pubname, row.pubowner)
            _check_new_owner(session, row.pubname, row.oid, row.puballtables, owner)
        update(session, tables.pg_publication, {"oid": row.oid}, pubowner=owner)


def _check_new_owner(session: Session, name: str, pubid: int, all_tables: bool, owner: int) -> None:
    check_can_set_role(session, session.role, owner)
    check_may_create(session, owner)
    if is_superuser(session, owner):
        return
    scope = "ALL TABLES" if all_tables else "TABLES IN SCHEMA" if is_schema_publication(session, pubid) else None
    if scope is not None:
        raise PgError(
            "42501",
            f'permission denied to change owner of publication "{name}"',
            hint=f"The owner of a FOR {scope} publication must be a superuser.",
        )
