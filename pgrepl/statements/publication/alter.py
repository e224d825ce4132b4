"""ALTER PUBLICATION: SET of options, and ADD, SET, DROP of tables and schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import tables
from pgrepl.catalog.acl import check_owner
from pgrepl.catalog.publication import (
    PublicationPart,
    is_schema_publication,
    member_table,
    publication_by_name,
    publication_relations,
    publication_schemas,
)
from pgrepl.catalog.relation import relation
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.store import update
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterPublicationAction, AlterPublicationStmt, PublicationTable
from pgrepl.statements.publication.members import SYSTEM_COLUMNS, add_schemas, add_tables, drop_schemas, drop_tables
from pgrepl.statements.publication.objects import (
    PublicationRelation,
    analyse_filters,
    check_column_lists,
    open_tables,
    tables_and_schemas,
)
from pgrepl.statements.publication.publication_options import parse_publication_options

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def alter_publication(stmt: AlterPublicationStmt, session: Session) -> Result:
    """As AlterPublication."""
    publication = publication_by_name(session, stmt.name)
    check_owner(session, "publication", stmt.name, publication.pubowner)
    if stmt.action is None:
        _set_options(session, stmt, publication)
    else:
        named, schemas = tables_and_schemas(session, stmt.objects)
        _check_alter(session, stmt, publication, named, schemas)
        _alter_tables(session, stmt, publication, named, bool(schemas))
        _alter_schemas(session, stmt, publication, schemas)
    return Result("ALTER PUBLICATION")


def _set_options(session: Session, stmt: AlterPublicationStmt, publication: tables.pg_publication) -> None:
    """As AlterPublicationOptions."""
    options = parse_publication_options(stmt.options)
    if options.via_root is False and not publication.puballtables:
        _refuse_partitioned_clauses(session, publication)
    changes: dict[str, Any] = {}
    if options.operations is not None:
        changes.update(options.operation_columns())
    if options.via_root is not None:
        changes["pubviaroot"] = options.via_root
    update(session, tables.pg_publication, {"oid": publication.oid}, **changes)


def _refuse_partitioned_clauses(session: Session, publication: tables.pg_publication) -> None:
    """Without publish_via_partition_root no partitioned table can have a filter or a column list."""
    for relid in publication_relations(session, publication.oid, PublicationPart.ROOT):
        member = member_table(session, publication.oid, relid)
        if member is None or (member.prqual is None and member.prattrs is None):
            continue
        found = relation(session, relid)
        if found.kind != "p":
            continue
        clause = "WHERE clause" if member.prqual is not None else "column list"
        raise PgError(
            "22023",
            f'cannot set parameter "publish_via_partition_root" to false for publication "{publication.pubname}"',
            detail=f'The publication contains a {clause} for partitioned table "{found.name}", '
            'which is not allowed when "publish_via_partition_root" is false.',
        )


def _check_alter(
    session: Session,
    stmt: AlterPublicationStmt,
    publication: tables.pg_publication,
    named: Sequence[PublicationTable],
    schemas: Sequence[int],
) -> None:
    """As CheckAlterPublication."""
    if schemas and stmt.action is not AlterPublicationAction.DROP and not is_superuser(session):
        raise PgError("42501", "must be superuser to add or set schemas")
    if not publication.puballtables:
        return
    what = "Schemas" if schemas else "Tables" if named else None
    if what is not None:
        raise PgError(
            "55000",
            f'publication "{publication.pubname}" is defined as FOR ALL TABLES',
            detail=f"{what} cannot be added to or dropped from FOR ALL TABLES publications.",
        )


def _alter_tables(
    session: Session,
    stmt: AlterPublicationStmt,
    publication: tables.pg_publication,
    named: Sequence[PublicationTable],
    with_schemas: bool,
) -> None:
    """As AlterPublicationTables. SET without a table removes them all."""
    if not named and stmt.action is not AlterPublicationAction.SET:
        return
    members = open_tables(session, named)
    if stmt.action is AlterPublicationAction.DROP:
        drop_tables(session, publication, members)
        return
    members = analyse_filters(session, members, publication.pubviaroot)
    if stmt.action is AlterPublicationAction.ADD:
        with_schemas = with_schemas or is_schema_publication(session, publication.oid)
    check_column_lists(members, publication.pubname, with_schemas, publication.pubviaroot)
    if stmt.action is AlterPublicationAction.ADD:
        add_tables(session, publication, members, skip_members=False)
        return
    drop_tables(session, publication, _not_kept(session, publication, members), missing_ok=True)
    add_tables(session, publication, members, skip_members=True)


def _not_kept(
    session: Session, publication: tables.pg_publication, members: Sequence[PublicationRelation]
) -> list[PublicationRelation]:
    """The publication's tables that are not in the new list with the same filter and columns."""
    wanted = {member.relation.oid: member for member in members}
    dropped = []
    present = publication_relations(session, publication.oid, PublicationPart.ROOT)
    if present:
        _refuse_system_columns(members)
    for relid in present:
        old, new = member_table(session, publication.oid, relid), wanted.get(relid)
        assert old is not None
        if new is None or old.prqual != new.stored_filter or _columns(old.prattrs) != _wanted_columns(new):
            dropped.append(PublicationRelation(relation(session, relid)))
    return dropped


def _columns(attrs: Sequence[int] | None) -> frozenset[int]:
    return frozenset(attrs or ())


def _wanted_columns(member: PublicationRelation) -> frozenset[int]:
    """The attnums of the new column list; names that are no columns are refused later, when the table is added."""
    found = [member.relation.attribute(name) for name in member.columns or ()]
    return frozenset(attribute.num if attribute is not None else 0 for attribute in found)


def _refuse_system_columns(members: Sequence[PublicationRelation]) -> None:
    """Raise PostgreSQL's error for system columns: bms_add_member fails before the check with the better message."""
    for member in members:
        if any(name in SYSTEM_COLUMNS and member.relation.attribute(name) is None for name in member.columns or ()):
            raise PgError("XX000", "negative bitmapset member not allowed")


def _alter_schemas(
    session: Session, stmt: AlterPublicationStmt, publication: tables.pg_publication, schemas: Sequence[int]
) -> None:
    """As AlterPublicationSchemas. SET without a schema removes them all."""
    if stmt.action is AlterPublicationAction.ADD and schemas:
        _refuse_column_lists(session, publication)
        add_schemas(session, publication, schemas, skip_members=False)
    elif stmt.action is AlterPublicationAction.DROP:
        drop_schemas(session, publication, schemas)
    elif stmt.action is AlterPublicationAction.SET:
        present = publication_schemas(session, publication.oid)
        drop_schemas(session, publication, [s for s in present if s not in schemas], missing_ok=True)
        add_schemas(session, publication, schemas, skip_members=True)


def _refuse_column_lists(session: Session, publication: tables.pg_publication) -> None:
    for relid in publication_relations(session, publication.oid, PublicationPart.ROOT):
        member = member_table(session, publication.oid, relid)
        if member is not None and member.prattrs is not None:
            raise PgError(
                "22023",
                f'cannot add schema to publication "{publication.pubname}"',
                detail="Schemas cannot be added if any tables that specify a column list "
                "are already part of the publication.",
            )
