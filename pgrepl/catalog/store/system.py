"""The OIDs of the system tables and other fixed ones, and system catalogs and views as relations: their columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pgrepl.ground.frozen import frozen

PG_TYPE = 1247
PG_CLASS = 1259
PG_AUTHID = 1260
PG_AUTH_MEMBERS = 1261
PG_DATABASE = 1262
PG_DEFAULT_ACL = 826
PG_PROC = 1255
PG_ATTRDEF = 2604
PG_AM = 2601
PG_CONSTRAINT = 2606
PG_LANGUAGE = 2612
PG_OPERATOR = 2617
PG_NAMESPACE = 2615
PG_REWRITE = 2618
PG_TRIGGER = 2620
PG_EXTENSION = 3079
PG_COLLATION = 3456
PG_SUBSCRIPTION = 6100
PG_FOREIGN_SERVER = 1417
PG_USER_MAPPING = 1418
PG_PUBLICATION = 6104
PG_PUBLICATION_REL = 6106
PG_PUBLICATION_NAMESPACE = 6237

CATALOG_NAMESPACE = 11
TOAST_NAMESPACE = 99
PUBLIC_NAMESPACE = 2200
INFORMATION_SCHEMA = 13134

BOOTSTRAP_SUPERUSER = 10
ROLE_DATABASE_OWNER = 6171
ROLE_SIGNAL_AUTOVACUUM = 6392  # pg_signal_autovacuum_worker, of 18
ROLE_READ_ALL_DATA = 6181
ROLE_WRITE_ALL_DATA = 6182
ROLE_READ_ALL_SETTINGS = 3374
ROLE_MAINTAIN = 6337
ROLE_CREATE_SUBSCRIPTION = 6304

PLPGSQL_EXTENSION, PLPGSQL_LANGUAGE = 13484, 13488
PLPGSQL_FUNCTIONS = (13485, 13486, 13487)

FIRST_NORMAL_OID = 16384

# what a new instance and a new database begin with: name, owner or flags, privileges, comment
DATABASES = {
    5: ("postgres", False, True, "default administrative connection database"),
    1: ("template1", True, True, "default template for new databases"),
    4: ("template0", True, False, "unmodifiable empty database"),
}
INITIAL_COMMENTS: dict[str, str] = {name: comment for name, _, _, comment in DATABASES.values()}
INITIAL_ACL = ["=c/10", "10=CTc/10"]  # of template0 and template1
SCHEMAS = {
    TOAST_NAMESPACE: ("pg_toast", BOOTSTRAP_SUPERUSER, None, "reserved schema for TOAST tables"),
    CATALOG_NAMESPACE: ("pg_catalog", BOOTSTRAP_SUPERUSER, ["10=UC/10", "=U/10"], "system catalog schema"),
    PUBLIC_NAMESPACE: ("public", ROLE_DATABASE_OWNER, ["6171=UC/6171", "=U/6171"], "standard public schema"),
    INFORMATION_SCHEMA: ("information_schema", BOOTSTRAP_SUPERUSER, ["10=UC/10", "=U/10"], None),
}


class ObjectAddress(NamedTuple):
    """An object of any kind: the system table it stands in, its OID, and a column's number or 0."""

    classid: int
    objid: int
    subid: int = 0


# --- system -----------------------------------------------------------------------------------------------------------


@frozen
class SystemColumn:
    name: str
    type: int
    typmod: int = -1
    notnull: bool = False
    collation: int = 0
    since: int = 0  # the release of PostgreSQL that brought it, if later than 17: it is found by its name only
    acl: tuple[str, ...] | None = None


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
    release: int = 17  # of PostgreSQL, whose columns these are


class SystemRelations:
    """All system catalogs and views."""

    def __init__(self, relations: Iterable[SystemRelation]) -> None:
        self._by_oid = {rel.oid: rel for rel in relations}
        self._by_name = {(rel.schema, rel.name): rel for rel in self._by_oid.values()}
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
