"""System catalogs and views as relations that SELECT reads: their columns. The session's hooks list them
(query/system)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgrepl.catalog.classes import CATALOG_NAMESPACE, INFORMATION_SCHEMA
from pgrepl.frozen import frozen


@frozen
class SystemColumn:
    name: str
    type: int
    typmod: int = -1
    notnull: bool = False
    collation: int = 0


@frozen
class SystemRelation:
    """A relation of pg_catalog or information_schema."""

    oid: int
    name: str
    schema: str
    kind: str  # r or v
    columns: tuple[SystemColumn, ...]
    acl: tuple[str, ...] | None = None
    key: int = 0  # the column of OIDs by which a part of the rows can be read; 0: there is none
    rank: int = 0  # among the relations with a key; the higher, the more rows


class SystemRelations:
    """All system catalogs and views."""

    def __init__(self, relations: Iterable[SystemRelation]) -> None:
        self._by_oid = {each.oid: each for each in relations}
        self._by_name = {(each.schema, each.name): each for each in self._by_oid.values()}
        self.by_oid = self._by_oid.get

    def __iter__(self) -> Iterator[SystemRelation]:
        """The relations by OID."""
        return (self._by_oid[oid] for oid in sorted(self._by_oid))

    def by_name(self, schema: str, name: str) -> SystemRelation | None:
        return self._by_name.get((schema, name))


def namespace_oid(relation: SystemRelation) -> int:
    return INFORMATION_SCHEMA if relation.schema == "information_schema" else CATALOG_NAMESPACE


def may_be_system(namespace: int, name: str) -> bool:
    """Can it be the name of a system relation? Those in pg_catalog begin with pg_ or pgrepl_. If not, the list need not
    be loaded."""
    return namespace == INFORMATION_SCHEMA or (namespace == CATALOG_NAMESPACE and name.startswith(("pg_", "pgrepl_")))
