r"""The facts of a publication that `\dRp`, `describe --json`, a dump and the query of ECHO_HIDDEN show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog import tables
from pgrepl.catalog.namespace import schema_name
from pgrepl.catalog.publication import is_publishable, published_tables
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.store import one, rows
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

OPERATIONS = ("insert", "update", "delete", "truncate")


@frozen
class MemberTable:
    """A table that a publication names, with its column list and its row filter as stored."""

    table: Relation
    columns: tuple[str, ...] | None
    filter: Any = None


@frozen
class PublicationFacts:
    oid: int
    name: str
    owner: int
    all_tables: bool
    operations: tuple[str, ...]
    via_root: bool


def publication_facts(session: Session, name: str | None = None) -> list[PublicationFacts]:
    """The publications of the database, or the one of this name, by name."""
    named = {} if name is None else {"pubname": name}
    found = rows(session, tables.pg_publication, datid=session.database_oid, **named)
    return sorted((_publication(row) for row in found), key=lambda each: each.name)


def _publication(row: tables.pg_publication) -> PublicationFacts:
    return PublicationFacts(
        row.oid,
        row.pubname,
        row.pubowner,
        bool(row.puballtables),
        tuple(each for each in OPERATIONS if getattr(row, "pub" + each)),
        bool(row.pubviaroot),
    )


def member_tables(session: Session, publication: PublicationFacts) -> list[MemberTable]:
    """The tables that the publication names, in the order in which they were added."""
    found = rows(session, tables.pg_publication_rel, prpubid=publication.oid)
    return [_member(relation(session, row.prrelid), row) for row in found]


def _member(table: Relation, row: tables.pg_publication_rel) -> MemberTable:
    columns = None if row.prattrs is None else tuple(table.attributes[number - 1].name for number in row.prattrs)
    return MemberTable(table, columns, row.prqual)


def member_schemas(session: Session, publication: PublicationFacts) -> list[str]:
    """The schemas that the publication names, in the order in which they were added."""
    found = rows(session, tables.pg_publication_namespace, pnpubid=publication.oid)
    return [schema_name(session, row.pnnspid) for row in found]


def published_names(session: Session, publication: PublicationFacts) -> list[str]:
    """The tables whose changes are sent, as pg_publication_tables lists them."""
    found = published_tables(session, [publication.name])
    return sorted(relation(session, each.relid).qualified_name for each in found)


def publications_of_table(session: Session, table: Relation) -> list[tuple[str, MemberTable | None]]:
    """The publications that name the table (with column list and row filter), its schema, or all tables."""
    named: list[tuple[str, MemberTable | None]] = [
        (publication_name(session, row.prpubid), _member(table, row))
        for row in rows(session, tables.pg_publication_rel, prrelid=table.oid)
    ]
    if is_publishable(table):
        named += [(name, None) for name in publications_of_schema(session, table.namespace)]
        everything = rows(session, tables.pg_publication, datid=session.database_oid, puballtables=True)
        named += [(row.pubname, None) for row in everything]
    return named


def publications_of_schema(session: Session, schema: int) -> list[str]:
    """The publications FOR TABLES IN SCHEMA of this schema."""
    found = rows(session, tables.pg_publication_namespace, pnnspid=schema, datid=session.database_oid)
    return [publication_name(session, row.pnpubid) for row in found]


def publication_name(session: Session, oid: int) -> str:
    row = one(session, tables.pg_publication, oid=oid)
    return "" if row is None else str(row.pubname)
