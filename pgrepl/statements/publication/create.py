"""CREATE PUBLICATION."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.databases import check_may_create
from pgrepl.catalog.publication import publication_by_name, publication_or_none
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.store import insert, new_oid
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import CreatePublicationStmt
from pgrepl.statements.publication.members import add_schemas, add_tables
from pgrepl.statements.publication.objects import analyse_filters, check_column_lists, open_tables, tables_and_schemas
from pgrepl.statements.publication.publication_options import parse_publication_options

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def create_publication(stmt: CreatePublicationStmt, session: Session) -> Result:
    """As CreatePublication."""
    check_may_create(session)
    if stmt.for_all_tables and not is_superuser(session):
        raise PgError("42501", "must be superuser to create FOR ALL TABLES publication")
    if publication_or_none(session, stmt.name) is not None:
        raise PgError("42710", f'publication "{stmt.name}" already exists')
    options = parse_publication_options(stmt.options)
    insert(
        session,
        tables.pg_publication,
        datid=session.database_oid,
        oid=new_oid(session),
        pubname=stmt.name,
        pubowner=session.role,
        puballtables=stmt.for_all_tables,
        pubviaroot=bool(options.via_root),
        **options.operation_columns(),
    )
    _add_objects(session, stmt, via_root=bool(options.via_root))
    if session.settings.get("wal_level") != "logical":
        session.notice(
            "WARNING",
            '"wal_level" is insufficient to publish logical changes',
            sqlstate="55000",
            hint='Set "wal_level" to "logical" before creating subscriptions.',
        )
    return Result("CREATE PUBLICATION")


def _add_objects(session: Session, stmt: CreatePublicationStmt, via_root: bool) -> None:
    publication = publication_by_name(session, stmt.name)
    named, schemas = tables_and_schemas(session, stmt.objects)
    if schemas and not is_superuser(session):
        raise PgError("42501", "must be superuser to create FOR TABLES IN SCHEMA publication")
    members = analyse_filters(session, open_tables(session, named), via_root)
    check_column_lists(members, stmt.name, bool(schemas), via_root)
    add_tables(session, publication, members, skip_members=True)
    add_schemas(session, publication, schemas, skip_members=True)
