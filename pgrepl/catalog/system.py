"""System catalogs and views as relations that can be asked: their columns (system_rows.py has their rows).

The modules that register them are named below, and imported when somebody first asks for a name that could be theirs.
"""

from __future__ import annotations

from importlib import import_module

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


PROVIDERS = ["pgrepl.query.system", "pgrepl.replication.system_views"]  # modules that register or provide

_by_oid: dict[int, SystemRelation] = {}
_by_name: dict[tuple[str, str], SystemRelation] = {}
_loaded: set[str] = set()


def register(relation: SystemRelation) -> None:
    _by_oid[relation.oid] = relation
    _by_name[relation.schema, relation.name] = relation


def _load() -> None:
    for module in PROVIDERS:
        if module not in _loaded:
            import_module(module)  # waits for another thread that does the same
            _loaded.add(module)


def namespace_oid(relation: SystemRelation) -> int:
    return INFORMATION_SCHEMA if relation.schema == "information_schema" else CATALOG_NAMESPACE


def by_oid(oid: int) -> SystemRelation | None:
    _load()
    return _by_oid.get(oid)


def by_name(schema: str, name: str) -> SystemRelation | None:
    """Names in pg_catalog begin with pg_: others are not worth loading for."""
    if schema == "pg_catalog" and not name.startswith("pg_"):
        return None
    if schema not in ("pg_catalog", "information_schema"):
        return None
    _load()
    return _by_name.get((schema, name))


def relations() -> list[SystemRelation]:
    """All of them, by OID."""
    _load()
    return [_by_oid[oid] for oid in sorted(_by_oid)]
