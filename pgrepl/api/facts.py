"""The contents of a catalog, as frozen dataclasses: `pgrepl.publications()` returns them, `pgrepl describe` prints
them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgrepl.catalog.publication_facts import PublicationFacts
    from pgrepl.catalog.session import Session


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table that a publication names. `columns` is None without a column list, `where` without a row filter."""

    table: str
    columns: tuple[str, ...] | None
    where: str | None

    def as_json(self) -> dict[str, Any]:
        columns = None if self.columns is None else list(self.columns)
        return {"table": self.table, "columns": columns, "where": self.where}


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication. `published` are the tables whose changes are sent, by schemas and partition trees, too."""

    name: str
    owner: str
    all_tables: bool
    publish: tuple[str, ...]
    publish_via_partition_root: bool
    tables: tuple[PublishedTable, ...]
    schemas: tuple[str, ...]
    published: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "owner": self.owner,
            "all_tables": self.all_tables,
            "publish": list(self.publish),
            "publish_via_partition_root": self.publish_via_partition_root,
            "tables": [table.as_json() for table in self.tables],
            "schemas": list(self.schemas),
            "published": list(self.published),
        }


def publication_of(session: Session, publication: PublicationFacts) -> Publication:
    from pgrepl.catalog.publication_facts import member_schemas, member_tables, published_names
    from pgrepl.catalog.roles import role_display
    from pgrepl.expr.deparse import stored_expression_text

    listed = [
        PublishedTable(
            each.table.qualified_name,
            each.columns,
            None if each.filter is None else stored_expression_text(session, each.filter, each.table.oid),
        )
        for each in member_tables(session, publication)
    ]
    return Publication(
        publication.name,
        role_display(session, publication.owner),
        publication.all_tables,
        publication.operations,
        publication.via_root,
        tuple(sorted(listed, key=lambda each: each.table)),
        tuple(sorted(member_schemas(session, publication))),
        tuple(published_names(session, publication)),
    )
