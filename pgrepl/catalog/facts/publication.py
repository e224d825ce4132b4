"""The members of publications, and the relations that they publish (pg_publication.c).

With publish_via_partition_root a partitioned table is published as itself, without it as its leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.namespace import schema_name
from pgrepl.catalog.facts.relation import Attribute, Relation, relation, relation_or_none
from pgrepl.catalog.facts.relation_parts import inheritors, partition_ancestors
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import FIRST_NORMAL_OID
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


class PublicationPart(Enum):
    """The relations that stand for a partitioned table (PublicationPartOpt)."""

    ROOT = "itself"
    LEAF = "its leaves"
    ALL = "itself and all below it"


@frozen
class PublishedTable:
    """A table as one publication publishes it: the numbers of its published columns, its row filter as stored."""

    publication: int
    relid: int
    attrs: tuple[int, ...]
    qual: Any = None


def publication_or_none(session: Session, name: str) -> tables.pg_publication | None:
    return one(session, tables.pg_publication, datid=session.database_oid, pubname=name)


def publication_by_name(session: Session, name: str) -> tables.pg_publication:
    row = publication_or_none(session, name)
    if row is None:
        raise PgError("42704", f'publication "{name}" does not exist')
    return row


def publications(session: Session) -> list[tables.pg_publication]:
    return rows(session, tables.pg_publication, datid=session.database_oid)


# --- members ---


def member_table(session: Session, pubid: int, relid: int) -> tables.pg_publication_rel | None:
    return one(session, tables.pg_publication_rel, prpubid=pubid, prrelid=relid)


def member_schema(session: Session, pubid: int, schema: int) -> tables.pg_publication_namespace | None:
    return one(session, tables.pg_publication_namespace, pnpubid=pubid, pnnspid=schema)


def is_schema_publication(session: Session, pubid: int) -> bool:
    return one(session, tables.pg_publication_namespace, pnpubid=pubid) is not None


def relation_publications(session: Session, relid: int) -> list[int]:
    """The publications that name the relation (GetRelationIncludedPublications)."""
    return [row.prpubid for row in rows(session, tables.pg_publication_rel, prrelid=relid) if not row.prexcept]


def excepting_publications(session: Session, relation: Relation) -> list[int]:
    """The publications FOR ALL TABLES that leave the table out: by its name, of a partition by that of its topmost
    table (GetRelationExcludedPublications)."""
    relid = partition_ancestors(session, relation.oid)[-1] if relation.is_partition else relation.oid
    return sorted(row.prpubid for row in rows(session, tables.pg_publication_rel, prrelid=relid) if row.prexcept)


def publishes_as_one_of_all(session: Session, publication: tables.pg_publication, relation: Relation) -> bool:
    """Is the publication FOR ALL TABLES, and does it not leave this one out?"""
    return bool(publication.puballtables) and publication.oid not in excepting_publications(session, relation)


def schema_publications(session: Session, schema: int) -> list[int]:
    """The publications that name the schema. `public` has the same OID in every database."""
    here = {row.oid for row in publications(session)}
    members = rows(session, tables.pg_publication_namespace, pnnspid=schema)
    return [row.pnpubid for row in members if row.pnpubid in here]


def publication_schemas(session: Session, pubid: int) -> list[int]:
    return sorted(row.pnnspid for row in rows(session, tables.pg_publication_namespace, pnpubid=pubid))


def publication_relations(session: Session, pubid: int, part: PublicationPart) -> list[int]:
    """The tables a publication names, by OID (GetPublicationRelations); of one FOR ALL TABLES, those that it leaves
    out."""
    relids: set[int] = set()
    for row in rows(session, tables.pg_publication_rel, prpubid=pubid):
        relids.update(partition_option(session, row.prrelid, part))
    return sorted(relids)


def partition_option(session: Session, relid: int, part: PublicationPart) -> list[int]:
    """The relation itself, its leaves, or both (GetPubPartitionOptionRelations)."""
    relation = relation_or_none(session, relid)
    if relation is None or relation.kind != "p" or part is PublicationPart.ROOT:
        return [relid]
    tree = inheritors(session, relid)
    return tree if part is PublicationPart.ALL else [oid for oid in tree if _kind(session, oid) != "p"]


# --- what may be published, and what is ---


def is_publishable(relation: Relation) -> bool:
    """Is it a permanent table of a user? (is_publishable_class)"""
    return relation.kind in "rp" and relation.persistence == "p" and relation.oid >= FIRST_NORMAL_OID


def all_tables_relations(session: Session, publication: tables.pg_publication) -> list[int]:
    """The relations that FOR ALL TABLES publishes (GetAllPublicationRelations)."""
    via_root = bool(publication.pubviaroot)
    excepted = set(publication_relations(session, publication.oid, PublicationPart.ALL))
    plain, partitioned = [], []
    for row in rows(session, tables.pg_class, datid=session.database_oid):
        if row.relpersistence != "p" or (row.relispartition and via_root) or row.oid in excepted:
            continue
        if row.relkind == "r":
            plain.append(row.oid)
        elif row.relkind == "p" and via_root:
            partitioned.append(row.oid)
    return plain + partitioned


def published_sequences(session: Session, publication: tables.pg_publication) -> list[int]:
    """The sequences that the publication publishes: all or none (pg_get_publication_sequences)."""
    return permanent_sequences(session) if publication.puballsequences else []


def permanent_sequences(session: Session) -> list[int]:
    sequences = rows(session, tables.pg_class, datid=session.database_oid, relkind="S", relpersistence="p")
    return sorted(row.oid for row in sequences)


def schema_relations(session: Session, schema: int, part: PublicationPart) -> list[int]:
    """The relations of a schema that TABLES IN SCHEMA publishes (GetSchemaPublicationRelations)."""
    relids: list[int] = []
    for row in rows(session, tables.pg_class, datid=session.database_oid, relnamespace=schema):
        if row.relpersistence != "p":
            continue
        if row.relkind == "r":
            relids.append(row.oid)
        elif row.relkind == "p":
            # partitions may stand in other schemas than their parent
            relids += [oid for oid in partition_option(session, row.oid, part) if oid not in relids]
    return relids


def published_tables(session: Session, names: Sequence[str]) -> list[PublishedTable]:
    """The tables of the publications, each as each publishes it (pg_get_publication_tables).

    If one of them publishes via the root, a table whose ancestor is listed too is left out: it would be sent twice.
    """
    listed: list[tuple[tables.pg_publication, int]] = []
    for name in names:
        publication = publication_by_name(session, name)
        listed += [(publication, relid) for relid in _published_relations(session, publication)]
    if any(publication.pubviaroot for publication, _ in listed):
        everything = {relid for _, relid in listed}
        listed = [(p, relid) for p, relid in listed if not _has_ancestor_in(session, relid, everything)]
    return [_published(session, publication, relid) for publication, relid in listed]


def _published_relations(session: Session, publication: tables.pg_publication) -> list[int]:
    if publication.puballtables:
        return all_tables_relations(session, publication)
    part = PublicationPart.ROOT if publication.pubviaroot else PublicationPart.LEAF
    relids = publication_relations(session, publication.oid, part)
    for schema in publication_schemas(session, publication.oid):
        relids += [relid for relid in schema_relations(session, schema, part) if relid not in relids]
    return relids


def published_table(session: Session, name: str, relation: Relation) -> PublishedTable | None:
    """One table of published_tables, found without a look at the others."""
    publication = publication_by_name(session, name)
    return _published(session, publication, relation.oid) if _lists(session, publication, relation) else None


def _lists(session: Session, publication: tables.pg_publication, relation: Relation) -> bool:
    """Is the relation one of those that published_tables lists for the publication?"""
    via_root = publication.pubviaroot
    if relation.kind != "r" and not (relation.kind == "p" and via_root):
        return False
    if publication.puballtables:
        is_meant = relation.persistence == "p" and not (relation.is_partition and via_root)
        return is_meant and publishes_as_one_of_all(session, publication, relation)
    ancestors = partition_ancestors(session, relation.oid) if relation.is_partition else []
    by_ancestor = topmost_ancestor(session, publication.oid, ancestors) is not None
    named = is_named(session, publication.oid, relation)
    return (named and not by_ancestor) if via_root else (named or by_ancestor)


def is_named(session: Session, pubid: int, relation: Relation) -> bool:
    """Does the publication name the relation, itself or by its schema?"""
    if member_table(session, pubid, relation.oid) is not None:
        return True
    return relation.persistence == "p" and member_schema(session, pubid, relation.namespace) is not None


def _has_ancestor_in(session: Session, relid: int, listed: set[int]) -> bool:
    relation = relation_or_none(session, relid)
    if relation is None or not relation.is_partition:
        return False
    return not listed.isdisjoint(partition_ancestors(session, relid))


def _published(session: Session, publication: tables.pg_publication, relid: int) -> PublishedTable:
    relation = relation_or_none(session, relid)
    assert relation is not None
    member = None
    if not publication.puballtables and member_schema(session, publication.oid, relation.namespace) is None:
        member = member_table(session, publication.oid, relid)
    attrs = None if member is None else member.prattrs
    if attrs is None:
        attrs = [column.num for column in whole_columns(relation, publication.pubgencols)]
    return PublishedTable(publication.oid, relid, tuple(attrs), None if member is None else member.prqual)


def whole_columns(table: Relation, generated: str) -> list[Attribute]:
    """The columns that are published without a column list. `generated`: pg_publication.pubgencols."""
    return [column for column in table.columns if not column.generated or column.generated == generated]


def topmost_ancestor(session: Session, pubid: int, ancestors: Sequence[int]) -> int | None:
    """The topmost of the ancestors (root last) that the publication names, itself or by its schema
    (GetTopMostAncestorInPublication)."""
    topmost = None
    for ancestor in ancestors:
        relation = relation_or_none(session, ancestor)
        if relation is not None and is_named(session, pubid, relation):
            topmost = ancestor
    return topmost


def _kind(session: Session, relid: int) -> str:
    relation = relation_or_none(session, relid)
    return "" if relation is None else relation.kind


# --- publication facts ------------------------------------------------------------------------------------------------


OPERATIONS = ("insert", "update", "delete", "truncate")
GENERATED = {"n": "none", "s": "stored"}  # pubgencols


@frozen
class MemberTable:
    """A table that a publication names, with its column list and its row filter as stored."""

    table: Relation
    columns: tuple[str, ...] | None
    filter: Any = None

    @property
    def lists_generated(self) -> bool:
        """Is a generated column in the list? Sessions of 17 refuse that."""
        return any(column.generated and column.name in (self.columns or ()) for column in self.table.columns)


@frozen
class PublicationFacts:
    oid: int
    name: str
    owner: int
    all_tables: bool
    all_sequences: bool
    operations: tuple[str, ...]
    via_root: bool
    generated: str  # none or stored


def publication_facts(session: Session, name: str | None = None) -> list[PublicationFacts]:
    """The publications of the database, or the one of this name, by name."""
    named = {} if name is None else {"pubname": name}
    stored = rows(session, tables.pg_publication, datid=session.database_oid, **named)
    return sorted((_publication(row) for row in stored), key=lambda facts: facts.name)


def _publication(row: tables.pg_publication) -> PublicationFacts:
    return PublicationFacts(
        row.oid,
        row.pubname,
        row.pubowner,
        bool(row.puballtables),
        bool(row.puballsequences),
        tuple(operation for operation in OPERATIONS if getattr(row, "pub" + operation)),
        bool(row.pubviaroot),
        GENERATED[row.pubgencols],
    )


def member_tables(session: Session, publication: PublicationFacts) -> list[MemberTable]:
    """The tables that the publication names, in the order in which they were added; of one FOR ALL TABLES, those that
    it leaves out."""
    members = rows(session, tables.pg_publication_rel, prpubid=publication.oid)
    return [_member(relation(session, row.prrelid), row) for row in members]


def _member(table: Relation, row: tables.pg_publication_rel) -> MemberTable:
    columns = None if row.prattrs is None else tuple(table.attributes[number - 1].name for number in row.prattrs)
    return MemberTable(table, columns, row.prqual)


def member_schemas(session: Session, publication: PublicationFacts) -> list[str]:
    """The schemas that the publication names, in the order in which they were added."""
    members = rows(session, tables.pg_publication_namespace, pnpubid=publication.oid)
    return [schema_name(session, row.pnnspid) for row in members]


def published_names(session: Session, publication: PublicationFacts) -> list[str]:
    """The tables whose changes are sent, as pg_publication_tables lists them."""
    published = published_tables(session, [publication.name])
    return sorted(relation(session, table.relid).qualified_name for table in published)


def publications_of_table(session: Session, table: Relation) -> list[tuple[str, MemberTable | None]]:
    """The publications that name the table (with column list and row filter), its schema, or all tables."""
    named: list[tuple[str, MemberTable | None]] = [
        (publication_name(session, row.prpubid), _member(table, row))
        for row in rows(session, tables.pg_publication_rel, prrelid=table.oid)
        if not row.prexcept
    ]
    if is_publishable(table):
        named += [(name, None) for name in publications_of_schema(session, table.namespace)]
        everything = rows(session, tables.pg_publication, datid=session.database_oid, puballtables=True)
        named += [(row.pubname, None) for row in everything if publishes_as_one_of_all(session, row, table)]
    return named


def publications_of_schema(session: Session, schema: int) -> list[str]:
    """The publications FOR TABLES IN SCHEMA of this schema."""
    members = rows(session, tables.pg_publication_namespace, pnnspid=schema, datid=session.database_oid)
    return [publication_name(session, row.pnpubid) for row in members]


def publication_name(session: Session, oid: int) -> str:
    row = one(session, tables.pg_publication, oid=oid)
    return "" if row is None else str(row.pubname)
