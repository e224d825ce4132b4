"""Adds tables and schemas to a publication, and removes them (publication_add_relation, publication_add_schema and
their reverse)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.acl import check_relation_owner
from pgrepl.catalog.classes import (
    CATALOG_NAMESPACE,
    PG_CLASS,
    PG_NAMESPACE,
    PG_PUBLICATION,
    PG_PUBLICATION_NAMESPACE,
    PG_PUBLICATION_REL,
    TOAST_NAMESPACE,
    ObjectAddress,
)
from pgrepl.catalog.depend import Dependency, record_dependencies
from pgrepl.catalog.namespace import schema_name
from pgrepl.catalog.publication import member_schema, member_table
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.relkind import not_supported
from pgrepl.catalog.store import insert, new_oid
from pgrepl.errors import PgError
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.publication.objects import PublicationRelation

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

SYSTEM_COLUMNS = ("ctid", "xmin", "cmin", "xmax", "cmax", "tableoid")


def add_tables(
    session: Session, publication: tables.pg_publication, members: Iterable[PublicationRelation], *, skip_members: bool
) -> None:
    """`skip_members`: a table that is in the publication already stays as it is, instead of an error."""
    for member in members:
        check_relation_owner(session, member.relation)
        if member_table(session, publication.oid, member.relation.oid) is not None:
            if skip_members:
                continue
            raise PgError(
                "42710",
                f'relation "{member.relation.name}" is already member of publication "{publication.pubname}"',
            )
        check_publishable(member.relation)
        _insert_table(session, publication, member)


def check_publishable(relation: Relation) -> None:
    """As check_publication_add_relation."""
    if relation.kind not in "rp":
        reason = not_supported(relation.kind)
    elif relation.is_catalog:
        reason = "This operation is not supported for system tables."
    elif relation.persistence == "t":
        reason = "This operation is not supported for temporary tables."
    elif relation.persistence == "u":
        reason = "This operation is not supported for unlogged tables."
    else:
        return
    raise PgError("22023", f'cannot add relation "{relation.name}" to publication', detail=reason)


def column_numbers(relation: Relation, columns: Sequence[str]) -> list[int]:
    """A column list as sorted attribute numbers (publication_translate_columns)."""
    found: list[int] = []
    for name in columns:
        attribute = relation.attribute(name)
        if attribute is None and name in SYSTEM_COLUMNS:
            raise PgError("42P10", f'cannot use system column "{name}" in publication column list')
        if attribute is None:
            raise PgError("42703", f'column "{name}" of relation "{relation.name}" does not exist')
        if attribute.generated:
            raise PgError("42P10", f'cannot use generated column "{name}" in publication column list')
        if attribute.num in found:
            raise PgError("42710", f'duplicate column "{name}" in publication column list')
        found.append(attribute.num)
    return sorted(found)


def _insert_table(session: Session, publication: tables.pg_publication, member: PublicationRelation) -> None:
    relation = member.relation
    attrs = None if member.columns is None else column_numbers(relation, member.columns)
    oid = new_oid(session)
    insert(
        session,
        tables.pg_publication_rel,
        oid=oid,
        prpubid=publication.oid,
        prrelid=relation.oid,
        prqual=member.stored_filter,
        prattrs=attrs,
    )
    myself = ObjectAddress(PG_PUBLICATION_REL, oid)
    wholes = [ObjectAddress(PG_PUBLICATION, publication.oid), ObjectAddress(PG_CLASS, relation.oid)]
    record_dependencies(session, myself, wholes, Dependency.AUTO)
    used = [ObjectAddress(PG_CLASS, relation.oid, num) for num in [*_filter_columns(member), *(attrs or ())]]
    record_dependencies(session, myself, used, Dependency.NORMAL)


def _filter_columns(member: PublicationRelation) -> list[int]:
    if member.filter is None:
        return []
    from pgrepl.expr.walk import var_attnums

    return sorted(var_attnums(member.filter))


def drop_tables(
    session: Session,
    publication: tables.pg_publication,
    members: Iterable[PublicationRelation],
    *,
    missing_ok: bool = False,
) -> None:
    for member in members:
        if member.columns is not None:
            raise PgError("42601", "column list must not be specified in ALTER PUBLICATION ... DROP")
        row = member_table(session, publication.oid, member.relation.oid)
        if row is None:
            if missing_ok:
                continue
            raise PgError("42704", f'relation "{member.relation.name}" is not part of the publication')
        if member.where is not None:
            raise PgError("42601", "cannot use a WHERE clause when removing a table from a publication")
        _drop(session, ObjectAddress(PG_PUBLICATION_REL, row.oid))


def add_schemas(
    session: Session, publication: tables.pg_publication, schemas: Iterable[int], *, skip_members: bool
) -> None:
    for schema in schemas:
        if member_schema(session, publication.oid, schema) is not None:
            if skip_members:
                continue
            raise PgError(
                "42710",
                f'schema "{schema_name(session, schema)}" is already member of publication "{publication.pubname}"',
            )
        _check_schema(session, schema)
        oid = new_oid(session)
        insert(
            session,
            tables.pg_publication_namespace,
            datid=session.database_oid,
            oid=oid,
            pnpubid=publication.oid,
            pnnspid=schema,
        )
        wholes = [ObjectAddress(PG_PUBLICATION, publication.oid), ObjectAddress(PG_NAMESPACE, schema)]
        record_dependencies(session, ObjectAddress(PG_PUBLICATION_NAMESPACE, oid), wholes, Dependency.AUTO)


def _check_schema(session: Session, schema: int) -> None:
    """As check_publication_add_schema."""
    name = schema_name(session, schema)
    if schema in (CATALOG_NAMESPACE, TOAST_NAMESPACE):
        reason = "This operation is not supported for system schemas."
    elif name.startswith(("pg_temp_", "pg_toast_temp_")):
        reason = "Temporary schemas cannot be replicated."
    else:
        return
    raise PgError("22023", f'cannot add schema "{name}" to publication', detail=reason)


def drop_schemas(
    session: Session, publication: tables.pg_publication, schemas: Iterable[int], *, missing_ok: bool = False
) -> None:
    for schema in schemas:
        row = member_schema(session, publication.oid, schema)
        if row is None:
            if missing_ok:
                continue
            raise PgError(
                "42704", f'tables from schema "{schema_name(session, schema)}" are not part of the publication'
            )
        _drop(session, ObjectAddress(PG_PUBLICATION_NAMESPACE, row.oid))


def _drop(session: Session, address: ObjectAddress) -> None:
    drop_objects(session, [address], cascade=True)
