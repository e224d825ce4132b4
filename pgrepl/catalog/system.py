"""System catalogs and views as relations that can be asked: their columns, and where their rows come from.

What fills them lives higher up (a view such as pg_publication_tables needs expressions); it registers itself here. The
modules that register are named below and are imported when somebody first asks for a name that could be theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.classes import CATALOG_NAMESPACE, INFORMATION_SCHEMA
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


@frozen
class SystemColumn:
    name: str
    type: int
    typmod: int = -1
    notnull: bool = False
    collation: int = 0


@frozen
class SystemRelation:
    """A relation of pg_catalog or information_schema; a row has a Python value for each column."""

    oid: int
    name: str
    schema: str
    kind: str  # r or v
    columns: tuple[SystemColumn, ...]
    rows: Callable[[Session], Iterable[tuple[Any, ...]]]
    acl: tuple[str, ...] | None = None


Values = Mapping[str, Any]
"""A row before it is brought to the columns of its relation."""
Provider = Callable[["Session"], Iterable[Values]]

PROVIDERS = ["pgrepl.commands.system", "pgrepl.replication.system_views"]  # modules that call register() or provide()

_by_oid: dict[int, SystemRelation] = {}
_by_name: dict[tuple[str, str], SystemRelation] = {}
_provided: dict[str, Provider] = {}
_loaded: set[str] = set()


def register(relation: SystemRelation) -> None:
    _by_oid[relation.oid] = relation
    _by_name[relation.schema, relation.name] = relation


def provide(providers: Mapping[str, Provider]) -> None:
    """Say where the rows of relations of pg_catalog come from."""
    _provided.update(providers)


def provider(name: str) -> Provider | None:
    return _provided.get(name)


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
