"""The tables and schemas that a publication statement names: opened and checked, before they become members.

The steps are those of publicationcmds.c and in its order, because the order decides which of several errors is
reported: names become OIDs (ObjectsInPublicationToOids), tables are opened and their children added (OpenTableList),
row filters are analysed (TransformPubWhereClauses), column lists checked (CheckPubRelationColumnList).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.namespace import current_schemas, schema_by_name
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.relkind import open_table
from pgrepl.errors import PgError
from pgrepl.sql.nodes import Expr, PublicationObj, PublicationObjKind, PublicationTable

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr import tree


@dataclass(frozen=True, slots=True)
class PublicationRelation:
    """A table on its way into a publication (PublicationRelInfo)."""

    relation: Relation
    where: Expr | None = None  # as it was written
    columns: tuple[str, ...] | None = None
    filter: tree.Expr | None = None  # `where` analysed

    @property
    def stored_filter(self) -> Any:
        if self.filter is None:
            return None
        from pgrepl.expr.stored import to_json

        return to_json(self.filter)


def tables_and_schemas(session: Session, objects: Sequence[PublicationObj]) -> tuple[list[PublicationTable], list[int]]:
    """The tables as written, and the OIDs of the schemas, each once."""
    tables: list[PublicationTable] = []
    schemas: list[int] = []
    for item in objects:
        if item.kind is PublicationObjKind.TABLE:
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

    def add(self, found: Relation, table: PublicationTable) -> None:
        self.members.append(PublicationRelation(found, table.where, table.columns))
        self._listed[found.oid] = (table.where is not None, table.columns is not None)

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
        from pgrepl.expr.rowfilter import check_row_filter

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
