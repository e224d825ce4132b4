"""The members of a publication: options, tables and schemas that a statement names, checked in the order of
publicationcmds.c, added and removed.

The order decides which of several errors is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import check_relation_owner
from pgrepl.catalog.facts.depend import Dependency, record_dependencies
from pgrepl.catalog.facts.namespace import current_schemas, schema_by_name, schema_name
from pgrepl.catalog.facts.publication import GENERATED, OPERATIONS, member_schema, member_table
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import inheritors, not_supported, open_table
from pgrepl.catalog.session.parameters import split_identifiers
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import insert, new_oid
from pgrepl.catalog.store.system import (
    CATALOG_NAMESPACE,
    PG_CLASS,
    PG_NAMESPACE,
    PG_PUBLICATION,
    PG_PUBLICATION_NAMESPACE,
    PG_PUBLICATION_REL,
    TOAST_NAMESPACE,
    ObjectAddress,
)
from pgrepl.expr.row_filter_checks import check_row_filter
from pgrepl.expr.stored import to_json
from pgrepl.expr.walk import var_attnums
from pgrepl.ground.errors import PgError
from pgrepl.sql.location import conflicting, get_boolean, get_string
from pgrepl.sql.nodes import DefElem, Expr, PublicationObj, PublicationObjKind, PublicationTable
from pgrepl.statements.deletion import drop_objects

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr import tree


@dataclass(frozen=True, slots=True)
class PublicationOptions:
    """None where the option was not given."""

    operations: frozenset[str] | None = None
    via_root: bool | None = None
    generated: str | None = None  # n: none, s: stored

    def operation_columns(self) -> dict[str, bool]:
        """The columns of pg_publication that `publish` decides: all operations where it was not given."""
        published = frozenset(OPERATIONS) if self.operations is None else self.operations
        return {f"pub{operation}": operation in published for operation in OPERATIONS}


def parse_publication_options(options: Sequence[DefElem]) -> PublicationOptions:
    operations: frozenset[str] | None = None
    via_root: bool | None = None
    generated: str | None = None
    for option in options:
        if option.name == "publish":
            if operations is not None:
                conflicting(option)
            operations = _operations(get_string(option))
        elif option.name == "publish_via_partition_root":
            if via_root is not None:
                conflicting(option)
            via_root = get_boolean(option)
        elif option.name == "publish_generated_columns":
            if generated is not None:
                conflicting(option)
            generated = _generated(option)
        else:
            raise PgError("42601", f'unrecognized publication parameter: "{option.name}"')
    return PublicationOptions(operations, via_root, generated)


def _generated(option: DefElem) -> str:
    """publish_generated_columns as it is stored: n or s (defGetGeneratedColsOption)."""
    given = "" if option.value is None else get_string(option)
    for word in GENERATED.values():
        if given.lower() == word:
            return word[0]
    name = "publish_generated_columns"
    raise PgError(
        "42601",
        f'invalid value for publication parameter "{name}": "{given}"',
        detail='Valid values are "none" and "stored".',
    )


def _operations(listed: str) -> frozenset[str]:
    names = split_identifiers(listed)
    if names is None:
        raise PgError("42601", 'invalid list syntax in parameter "publish"')
    for name in names:
        if name not in OPERATIONS:
            raise PgError("42601", f'unrecognized value for publication option "publish": "{name}"')
    return frozenset(names)


# --- objects ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PublicationRelation:
    """A table on its way into a publication (PublicationRelInfo)."""

    relation: Relation
    where: Expr | None = None  # as it was written
    columns: tuple[str, ...] | None = None
    filter: tree.Expr | None = None  # `where` analysed
    excepted: bool = False

    @property
    def stored_filter(self) -> Any:
        if self.filter is None:
            return None
        return to_json(self.filter)


def tables_and_schemas(session: Session, objects: Sequence[PublicationObj]) -> tuple[list[PublicationTable], list[int]]:
    """The tables as written, those of EXCEPT too, and the OIDs of the schemas, each once."""
    tables: list[PublicationTable] = []
    schemas: list[int] = []
    for item in objects:
        if item.kind in (PublicationObjKind.TABLE, PublicationObjKind.EXCEPT_TABLE):
            assert item.table is not None
            tables.append(item.table)
            continue
        schema = _schema(session, item)
        if schema not in schemas:
            schemas.append(schema)
    return tables, schemas


def _schema(session: Session, item: PublicationObj) -> int:
    if item.kind is PublicationObjKind.TABLES_IN_SCHEMA:
        assert item.name is not None
        return int(schema_by_name(session, item.name).oid)
    current = current_schemas(session, implicit=False)
    if not current:
        raise PgError("3F000", "no schema has been selected for CURRENT_SCHEMA")
    return int(schema_by_name(session, current[0]).oid)


class _Opened:
    """The list so far: its tables, and which of them have a filter or a column list."""

    def __init__(self) -> None:
        self.members: list[PublicationRelation] = []
        self._listed: dict[int, tuple[bool, bool]] = {}

    def __contains__(self, relid: int) -> bool:
        return relid in self._listed

    def add(self, rel: Relation, table: PublicationTable) -> None:
        self.members.append(PublicationRelation(rel, table.where, table.columns))
        self._listed[rel.oid] = (table.where is not None, table.columns is not None)

    def refuse_clauses_twice(self, relid: int, table: PublicationTable, name: str) -> None:
        """A table may be named again, but neither time with a filter or a column list."""
        had_filter, had_columns = self._listed[relid]
        if table.where is not None or had_filter:
            raise PgError("42710", f'conflicting or redundant WHERE clauses for table "{name}"')
        if table.columns is not None or had_columns:
            raise PgError("42710", f'conflicting or redundant column lists for table "{name}"')


def open_tables(session: Session, tables: Sequence[PublicationTable]) -> list[PublicationRelation]:
    """The tables and, without ONLY, those that inherit from them. Partitions come with their root and are not
    listed."""
    opened = _Opened()
    for table in tables:
        named = open_table(session, table.relation)
        if named.oid in opened:
            opened.refuse_clauses_twice(named.oid, table, named.name)
            continue
        opened.add(named, table)
        if not table.relation.inh or named.kind == "p":
            continue
        last = named  # PostgreSQL's message names the relation it opened last
        for relid in inheritors(session, named.oid):
            if relid in opened:
                if relid != named.oid:
                    opened.refuse_clauses_twice(relid, table, last.name)
                continue
            last = relation(session, relid)
            opened.add(last, table)
    return opened.members


def analyse_filters(
    session: Session, members: Sequence[PublicationRelation], via_root: bool
) -> list[PublicationRelation]:
    """Analyse the WHERE clauses; without publish_via_partition_root a partitioned table cannot have one."""
    out = []
    for member in members:
        if member.where is None:
            out.append(member)
            continue
        if not via_root and member.relation.kind == "p":
            raise PgError(
                "22023",
                f'cannot use publication WHERE clause for relation "{member.relation.name}"',
                detail="WHERE clause cannot be used for a partitioned table when publish_via_partition_root is false.",
            )
        out.append(replace(member, filter=check_row_filter(session, member.where, member.relation)))
    return out


def check_column_lists(
    members: Sequence[PublicationRelation], publication: str, with_schemas: bool, via_root: bool
) -> None:
    for member in members:
        if member.columns is None:
            continue
        refusal = (
            f'cannot use column list for relation "{member.relation.qualified_name}" in publication "{publication}"'
        )
        if with_schemas:
            raise PgError(
                "22023",
                refusal,
                detail="Column lists cannot be specified in publications containing FOR TABLES IN SCHEMA elements.",
            )
        if not via_root and member.relation.kind == "p":
            raise PgError(
                "22023",
                refusal,
                detail="Column lists cannot be specified for partitioned tables "
                "when publish_via_partition_root is false.",
            )


# --- members ----------------------------------------------------------------------------------------------------------


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
                "42710", f'relation "{member.relation.name}" is already member of publication "{publication.pubname}"'
            )
        check_publishable(member.relation, member.excepted)
        _insert_table(session, publication, member)


def check_publishable(relation: Relation, excepted: bool) -> None:
    """Raises for a relation that cannot be published, or left out (check_publication_add_relation)."""
    if excepted and relation.is_partition:
        reason = "This operation is not supported for individual partitions."
    elif relation.kind not in "rp":
        reason = not_supported(relation.kind)
    elif relation.is_catalog:
        reason = "This operation is not supported for system tables."
    elif relation.persistence == "t":
        reason = "This operation is not supported for temporary tables."
    elif relation.persistence == "u":
        reason = "This operation is not supported for unlogged tables."
    else:
        return
    refusal = f'cannot add relation "{relation.name}" to publication'
    if excepted:
        refusal = f'cannot specify relation "{relation.qualified_name}" in the publication EXCEPT clause'
    raise PgError("22023", refusal, detail=reason)


def column_numbers(relation: Relation, columns: Sequence[str], *, stored: bool) -> list[int]:
    """A column list as sorted attribute numbers (pub_collist_validate). `stored`: generated columns that are
    stored may be in it, as in 18."""
    numbers: list[int] = []
    for name in columns:
        attribute = relation.attribute(name)
        if attribute is None and name in SYSTEM_COLUMNS:
            raise PgError("42P10", f'cannot use system column "{name}" in publication column list')
        if attribute is None:
            raise PgError("42703", f'column "{name}" of relation "{relation.name}" does not exist')
        if attribute.generated and not (stored and attribute.generated == "s"):
            kind = "virtual generated" if attribute.generated == "v" else "generated"
            raise PgError("42P10", f'cannot use {kind} column "{name}" in publication column list')
        if attribute.num in numbers:
            raise PgError("42710", f'duplicate column "{name}" in publication column list')
        numbers.append(attribute.num)
    return sorted(numbers)


def _insert_table(session: Session, publication: tables.pg_publication, member: PublicationRelation) -> None:
    relation = member.relation
    attrs = (
        None
        if member.columns is None
        else column_numbers(relation, member.columns, stored=session.settings.release >= 18)
    )
    oid = new_oid(session)
    insert(
        session,
        tables.pg_publication_rel,
        oid=oid,
        prpubid=publication.oid,
        prrelid=relation.oid,
        prqual=member.stored_filter,
        prattrs=attrs,
        prexcept=member.excepted,
    )
    myself = ObjectAddress(PG_PUBLICATION_REL, oid)
    wholes = [ObjectAddress(PG_PUBLICATION, publication.oid), ObjectAddress(PG_CLASS, relation.oid)]
    record_dependencies(session, myself, wholes, Dependency.AUTO)
    used = [ObjectAddress(PG_CLASS, relation.oid, num) for num in [*_filter_columns(member), *(attrs or ())]]
    record_dependencies(session, myself, used, Dependency.NORMAL)


def _filter_columns(member: PublicationRelation) -> list[int]:
    if member.filter is None:
        return []
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
    """Raises for a schema that cannot be published (check_publication_add_schema)."""
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
