"""CREATE, ALTER and DROP PUBLICATION."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import check_may_create, check_owner
from pgrepl.catalog.facts.publication import (
    PublicationPart,
    is_schema_publication,
    member_table,
    publication_by_name,
    publication_or_none,
    publication_relations,
    publication_schemas,
)
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.roles import check_can_set_role, is_superuser, resolve_role
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import insert, new_oid, update
from pgrepl.catalog.store.system import PG_PUBLICATION, ObjectAddress
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import (
    AlterOwnerStmt,
    AlterPublicationAction,
    AlterPublicationStmt,
    CreatePublicationStmt,
    DropStmt,
    PublicationTable,
    RenameStmt,
)
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.replication.publication_members import (
    SYSTEM_COLUMNS,
    PublicationOptions,
    PublicationRelation,
    add_schemas,
    add_tables,
    analyse_filters,
    check_column_lists,
    column_numbers,
    drop_schemas,
    drop_tables,
    open_tables,
    parse_publication_options,
    tables_and_schemas,
)

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def create_publication(stmt: CreatePublicationStmt, session: Session) -> Result:
    check_may_create(session)
    if (stmt.for_all_tables or stmt.for_all_sequences) and not is_superuser(session):
        scope = "a FOR ALL TABLES or ALL SEQUENCES" if stmt.for_all_sequences else "FOR ALL TABLES"
        raise PgError("42501", f"must be superuser to create {scope} publication")
    if publication_or_none(session, stmt.name) is not None:
        raise PgError("42710", f'publication "{stmt.name}" already exists')
    options = parse_publication_options(stmt.options)
    if stmt.for_all_sequences:
        _say_if_ignored(session, options)
    insert(
        session,
        tables.pg_publication,
        datid=session.database_oid,
        oid=new_oid(session),
        pubname=stmt.name,
        pubowner=session.role,
        puballtables=stmt.for_all_tables,
        puballsequences=stmt.for_all_sequences,
        pubviaroot=bool(options.via_root),
        pubgencols=options.generated or "n",
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


def _say_if_ignored(session: Session, options: PublicationOptions) -> None:
    if options != PublicationOptions():
        session.notice(
            "NOTICE",
            "publication parameters are not applicable to sequence synchronization and will be ignored for sequences",
            sqlstate="55000",
        )


def _add_objects(session: Session, stmt: CreatePublicationStmt, via_root: bool) -> None:
    publication = publication_by_name(session, stmt.name)
    named, schemas = tables_and_schemas(session, stmt.objects)
    if schemas and not is_superuser(session):
        raise PgError("42501", "must be superuser to create FOR TABLES IN SCHEMA publication")
    members = open_tables(session, named)
    if stmt.for_all_tables:
        members = [replace(member, excepted=True) for member in members]
    members = analyse_filters(session, members, via_root)
    check_column_lists(members, stmt.name, bool(schemas), via_root)
    add_tables(session, publication, members, skip_members=True)
    add_schemas(session, publication, schemas, skip_members=True)


# --- alter ------------------------------------------------------------------------------------------------------------


def alter_publication(stmt: AlterPublicationStmt, session: Session) -> Result:
    publication = publication_by_name(session, stmt.name)
    check_owner(session, "publication", stmt.name, publication.pubowner)
    if stmt.action is None:
        _set_options(session, stmt, publication)
    else:
        named, schemas = tables_and_schemas(session, stmt.objects)
        _check_alter(session, stmt, publication, named, schemas)
        _alter_tables(session, stmt, publication, named, bool(schemas))
        _alter_schemas(session, stmt, publication, schemas)
        if stmt.for_all_tables or stmt.for_all_sequences:
            update(
                session,
                tables.pg_publication,
                {"oid": publication.oid},
                puballtables=stmt.for_all_tables,
                puballsequences=stmt.for_all_sequences,
            )
    return Result("ALTER PUBLICATION")


def _set_options(session: Session, stmt: AlterPublicationStmt, publication: tables.pg_publication) -> None:
    """ALTER PUBLICATION … SET (…) (AlterPublicationOptions)."""
    options = parse_publication_options(stmt.options)
    if publication.puballsequences:
        _say_if_ignored(session, options)
    if options.via_root is False and not publication.puballtables:
        _refuse_partitioned_clauses(session, publication)
    changes: dict[str, Any] = {}
    if options.operations is not None:
        changes.update(options.operation_columns())
    if options.via_root is not None:
        changes["pubviaroot"] = options.via_root
    if options.generated is not None:
        changes["pubgencols"] = options.generated
    update(session, tables.pg_publication, {"oid": publication.oid}, **changes)


def _refuse_partitioned_clauses(session: Session, publication: tables.pg_publication) -> None:
    """Without publish_via_partition_root no partitioned table can have a filter or a column list."""
    for relid in publication_relations(session, publication.oid, PublicationPart.ROOT):
        member = member_table(session, publication.oid, relid)
        if member is None or (member.prqual is None and member.prattrs is None):
            continue
        rel = relation(session, relid)
        if rel.kind != "p":
            continue
        clause = "WHERE clause" if member.prqual is not None else "column list"
        raise PgError(
            "22023",
            f'cannot set parameter "publish_via_partition_root" to false for publication "{publication.pubname}"',
            detail=f'The publication contains a {clause} for partitioned table "{rel.name}", '
            'which is not allowed when "publish_via_partition_root" is false.',
        )


def _check_alter(
    session: Session,
    stmt: AlterPublicationStmt,
    publication: tables.pg_publication,
    named: Sequence[PublicationTable],
    schemas: Sequence[int],
) -> None:
    """Raises for members that the publication cannot have (CheckAlterPublication)."""
    if schemas and stmt.action is not AlterPublicationAction.DROP and not is_superuser(session):
        raise PgError("42501", "must be superuser to add or set schemas")
    for wanted, scope in ((stmt.for_all_tables, "TABLES"), (stmt.for_all_sequences, "SEQUENCES")):
        if wanted and not is_superuser(session):
            raise PgError("42501", f"must be superuser to set ALL {scope}")
    if stmt.for_all_tables or stmt.for_all_sequences:
        _check_becomes_all(session, stmt, publication)
        return
    everything = ["ALL TABLES"] if publication.puballtables else []
    everything += ["ALL SEQUENCES"] if publication.puballsequences else []
    if everything and (schemas or named):
        scope = f"FOR {', '.join(everything)}"
        what = "Schemas" if schemas else "Tables" if everything == ["ALL TABLES"] else "Tables or sequences"
        raise PgError(
            "55000",
            f'publication "{publication.pubname}" is defined as {scope}',
            detail=f"{what} cannot be added to or dropped from {scope} publications.",
        )


def _check_becomes_all(session: Session, stmt: AlterPublicationStmt, publication: tables.pg_publication) -> None:
    """A publication that names tables or schemas does not become one of all."""
    has_tables = not publication.puballtables and publication_relations(session, publication.oid, PublicationPart.ROOT)
    if has_tables or is_schema_publication(session, publication.oid):
        raise PgError(
            "55000",
            f'publication "{publication.pubname}" does not support '
            f"ALL {'TABLES' if stmt.for_all_tables else 'SEQUENCES'} operations",
            detail="This operation requires the publication to be defined as FOR ALL TABLES/SEQUENCES or to be empty.",
        )


def _alter_tables(
    session: Session,
    stmt: AlterPublicationStmt,
    publication: tables.pg_publication,
    named: Sequence[PublicationTable],
    with_schemas: bool,
) -> None:
    """ADD, SET and DROP TABLE of a publication (AlterPublicationTables). SET without a table removes them all."""
    if not named and stmt.action is not AlterPublicationAction.SET:
        return
    members = [replace(member, excepted=stmt.for_all_tables) for member in open_tables(session, named)]
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
        _check_columns(session, members)
    for relid in present:
        old, new = member_table(session, publication.oid, relid), wanted.get(relid)
        assert old is not None
        if new is None or old.prqual != new.stored_filter or frozenset(old.prattrs or ()) != _wanted_columns(new):
            dropped.append(PublicationRelation(relation(session, relid)))
    return dropped


def _wanted_columns(member: PublicationRelation) -> frozenset[int]:
    """The attnums of the new column list; names that are no columns are refused later, when the table is added."""
    attributes = [member.relation.attribute(name) for name in member.columns or ()]
    return frozenset(attribute.num if attribute is not None else 0 for attribute in attributes)


def _check_columns(session: Session, members: Sequence[PublicationRelation]) -> None:
    """Check column lists as 18 does before it compares them; in 17 bms_add_member refuses system columns before the
    check with the better message."""
    for member in members:
        if session.settings.release >= 18:
            column_numbers(member.relation, member.columns or (), stored=True)
        elif any(name in SYSTEM_COLUMNS and member.relation.attribute(name) is None for name in member.columns or ()):
            raise PgError("XX000", "negative bitmapset member not allowed")


def _alter_schemas(
    session: Session, stmt: AlterPublicationStmt, publication: tables.pg_publication, schemas: Sequence[int]
) -> None:
    """ADD, SET and DROP TABLES IN SCHEMA of a publication (AlterPublicationSchemas). SET without a schema removes them
    all."""
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


# --- drop -------------------------------------------------------------------------------------------------------------


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
    row = publication_by_name(session, stmt.name)
    check_owner(session, "publication", stmt.name, row.pubowner)
    if publication_or_none(session, stmt.new_name) is not None:
        raise PgError("42710", f'publication "{stmt.new_name}" already exists')
    update(session, tables.pg_publication, {"oid": row.oid}, pubname=stmt.new_name)
    return Result("ALTER PUBLICATION")


def give_publication(stmt: AlterOwnerStmt, session: Session) -> Result:
    owner = resolve_role(session, stmt.new_owner)
    (name,) = stmt.name
    change_publication_owner(session, publication_by_name(session, name), owner)
    return Result("ALTER PUBLICATION")


def change_publication_owner(session: Session, row: tables.pg_publication, owner: int) -> None:
    """Gives a publication to another role (AlterPublicationOwner_internal)."""
    if row.pubowner != owner:
        if not is_superuser(session):
            check_owner(session, "publication", row.pubname, row.pubowner)
            _check_new_owner(session, row, owner)
        update(session, tables.pg_publication, {"oid": row.oid}, pubowner=owner)


def _check_new_owner(session: Session, row: tables.pg_publication, owner: int) -> None:
    check_can_set_role(session, session.role, owner)
    check_may_create(session, owner)
    if is_superuser(session, owner):
        return
    scope = None
    if row.puballsequences:
        scope = "ALL TABLES or ALL SEQUENCES or TABLES IN SCHEMA"
    elif row.puballtables:
        scope = "ALL TABLES"
    elif is_schema_publication(session, row.oid):
        scope = "TABLES IN SCHEMA"
    if scope is not None:
        raise PgError(
            "42501",
            f'permission denied to change owner of publication "{row.pubname}"',
            hint=f"The owner of a FOR {scope} publication must be a superuser.",
        )
