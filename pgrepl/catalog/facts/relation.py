"""Relations with their columns, by OID or by name; and the transition tables that a trigger function finds by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from pgrepl.catalog.facts.namespace import explicit_schema, schema_name, search_path
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import (
    BOOTSTRAP_SUPERUSER,
    CATALOG_NAMESPACE,
    FIRST_NORMAL_OID,
    INFORMATION_SCHEMA,
    may_be_system,
    namespace_oid,
)
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql.keywords import quote_identifier, quote_qualified
from pgrepl.types.builtin import type_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session.context import CatalogSession
    from pgrepl.catalog.store.system import SystemColumn, SystemRelation
    from pgrepl.sql.nodes.expr import RangeVar


@frozen
class Attribute:
    """A column (pg_attribute)."""

    num: int
    name: str
    type: int
    typmod: int
    notnull: bool = False
    collation: int = 0
    has_default: bool = False
    identity: str = ""  # a: ALWAYS, d: BY DEFAULT
    generated: str = ""  # s: STORED, v: VIRTUAL
    dropped: bool = False
    is_local: bool = True
    inhcount: int = 0
    ndims: int = 0
    storage: str = "p"
    compression: str = ""
    stattarget: int | None = None
    acl: tuple[str, ...] | None = None
    options: list[str] | None = None
    missing: Any = None
    expands: bool = True  # False: of a system catalog, and `*` leaves it out


@frozen
class Relation:
    """A row of pg_class with its columns. `attributes` has dropped columns too: number n is at position n - 1."""

    oid: int
    name: str
    namespace: int
    schema: str
    kind: str  # r p v m i I S (pg_class.relkind)
    persistence: str
    owner: int
    replident: str  # d n f i
    is_partition: bool
    populated: bool  # False: a materialized view without data
    bound: Any  # partition bound, as stored
    has_subclass: bool
    has_index: bool
    checks: int
    row_security: bool
    force_row_security: bool
    type: int  # of its rows
    access_method: int
    acl: tuple[str, ...] | None
    options: list[str] | None
    attributes: tuple[Attribute, ...]
    system: SystemRelation | None = None

    @property
    def columns(self) -> tuple[Attribute, ...]:
        """The columns that are not dropped."""
        return tuple([a for a in self.attributes if not a.dropped])

    @property
    def kept(self) -> tuple[Attribute, ...]:
        """The columns that rows hold: not dropped, and not virtual."""
        return tuple([a for a in self.attributes if not a.dropped and a.generated != "v"])

    @property
    def virtual(self) -> bool:
        """Has it columns that no row holds?"""
        return any(a.generated == "v" for a in self.attributes)

    @property
    def stored(self) -> list[Attribute]:
        """The columns that its rows hold."""
        return [a for a in self.columns if a.generated != "v"]

    def attribute(self, name: str) -> Attribute | None:
        for attribute in self.attributes:
            if attribute.name == name and not attribute.dropped:
                return attribute
        return None

    def attribute_by_number(self, num: int) -> Attribute | None:
        if 0 < num <= len(self.attributes):
            return self.attributes[num - 1]
        return None

    @property
    def is_system(self) -> bool:
        """Is it one of initdb's? (IsCatalogRelationOid, and information_schema)"""
        return self.oid < FIRST_NORMAL_OID

    @property
    def is_catalog(self) -> bool:
        """Is it a system catalog, which users cannot change? (IsSystemClass)"""
        return self.is_system and self.namespace != INFORMATION_SCHEMA

    @property
    def qualified_name(self) -> str:
        """`public.t`, unquoted, as messages have it."""
        return f"{self.schema}.{self.name}"


# --- by OID -------------------------------------------------------------------------------------------------------


def relation(session: CatalogSession, oid: int, release: int | None = None) -> Relation:
    rel = relation_or_none(session, oid, release)
    if rel is None:
        raise PgError("XX000", f"could not open relation with OID {oid}")
    return rel


def relations_named(
    session: CatalogSession, name: str | None = None, namespace: int | None = None
) -> list[tables.pg_class]:
    """The rows of pg_class in this database, or those with a name or of a schema."""
    wanted: dict[str, object] = {"datid": session.database_oid}
    if name is not None:
        wanted["relname"] = name
    if namespace is not None:
        wanted["relnamespace"] = namespace
    return rows(session, tables.pg_class, **wanted)


def relation_or_none(session: CatalogSession, oid: int, release: int | None = None) -> Relation | None:
    """The relation; None if there is no such relation in this database. `release`: a system catalog's columns are those
    of that one, not of the session's."""
    session.transaction.require_read()
    release = release or session.settings.release
    key = ("relation", oid, release) if oid < FIRST_NORMAL_OID else ("relation", oid)
    known = session.derived.get(key)
    if known is not None:
        return known  # type: ignore[no-any-return]
    if oid < FIRST_NORMAL_OID:
        known = session.system_relations(release).by_oid(oid)
        rel = None if known is None else _from_system(known)
    else:
        row = one(session, tables.pg_class, oid=oid)
        if row is None or row.datid != session.database_oid:
            return None
        rel = _made(session, row)
    if rel is not None:
        session.derived[key] = rel
    return rel


def _made(session: CatalogSession, row: tables.pg_class) -> Relation:
    columns = rows(session, tables.pg_attribute, attrelid=row.oid)
    columns.sort(key=lambda a: a.attnum)
    return Relation(
        oid=row.oid,
        name=row.relname,
        namespace=row.relnamespace,
        schema=schema_name(session, row.relnamespace),
        kind=row.relkind,
        persistence=row.relpersistence,
        owner=row.relowner,
        replident=row.relreplident,
        is_partition=bool(row.relispartition),
        populated=bool(row.relispopulated),
        bound=row.relpartbound,
        has_subclass=bool(row.relhassubclass),
        has_index=bool(row.relhasindex),
        checks=row.relchecks or 0,
        row_security=bool(row.relrowsecurity),
        force_row_security=bool(row.relforcerowsecurity),
        type=session.type_of(row.reltype) if row.reltype and row.relkind == "c" else row.reltype or 0,
        access_method=row.relam or 0,
        acl=None if row.relacl is None else tuple(row.relacl),
        options=row.reloptions,
        attributes=tuple([_attribute(session, a) for a in columns if a.attnum > 0]),
    )


def _attribute(session: CatalogSession, row: tables.pg_attribute) -> Attribute:
    return Attribute(
        num=row.attnum,
        name=row.attname,
        type=session.type_of(row.atttypid),
        typmod=-1 if row.atttypmod is None else row.atttypmod,
        notnull=bool(row.attnotnull),
        collation=session.collation_of(row.attcollation or 0),
        has_default=bool(row.atthasdef),
        identity=row.attidentity or "",
        generated=row.attgenerated or "",
        dropped=bool(row.attisdropped),
        is_local=bool(row.attislocal),
        inhcount=row.attinhcount or 0,
        ndims=row.attndims or 0,
        storage=row.attstorage or "p",
        compression=row.attcompression or "",
        stattarget=row.attstattarget,
        acl=None if row.attacl is None else tuple(row.attacl),
        options=row.attoptions,
        missing=row.attmissingval,
    )


_SYSTEM_ACL = (f"{BOOTSTRAP_SUPERUSER}=arwdDxtm/{BOOTSTRAP_SUPERUSER}", f"=r/{BOOTSTRAP_SUPERUSER}")


def _system_attribute(number: int, column: SystemColumn) -> Attribute:
    kind = type_by_oid(column.type)
    storage = "p" if kind is None else kind.storage
    return Attribute(
        number,
        column.name,
        column.type,
        column.typmod,
        column.notnull,
        column.collation,
        storage=storage,
        acl=column.acl,
        expands=not column.since,
    )


def _from_system(system: SystemRelation) -> Relation:
    return Relation(
        oid=system.oid,
        name=system.name,
        namespace=namespace_oid(system),
        schema=system.schema,
        kind=system.kind,
        persistence="p",
        owner=BOOTSTRAP_SUPERUSER,
        replident="n",
        is_partition=False,
        populated=True,
        bound=None,
        has_subclass=False,
        has_index=system.kind == "r",
        checks=0,
        row_security=False,
        force_row_security=False,
        type=0,
        access_method=2 if system.kind == "r" else 0,
        acl=_SYSTEM_ACL if system.acl is None else system.acl,
        options=None,
        attributes=tuple([_system_attribute(n, c) for n, c in enumerate(system.columns, 1)]),
        system=system,
    )


def range_var(parts: Sequence[str]) -> RangeVar:
    """A relation's name from its parts (makeRangeVarFromNameList)."""
    from pgrepl.sql.nodes import RangeVar

    if len(parts) > 3:
        refused = PgError("42601", f"improper relation name (too many dotted names): {'.'.join(parts)}")
        refused.is_hard = True
        raise refused
    catalog, schema, name = (None, None, *parts)[-3:]
    assert name is not None
    return RangeVar(name, schema, catalog)


# --- by name ------------------------------------------------------------------------------------------------------


def oid_in_schema(session: CatalogSession, namespace: int, name: str) -> int | None:
    """The OID of the relation with this name in a schema (get_relname_relid)."""
    if may_be_system(namespace, name):
        schema = "pg_catalog" if namespace == CATALOG_NAMESPACE else "information_schema"
        system = session.system_relations().by_name(schema, name)
        if system is not None:
            return system.oid
    row = one(session, tables.pg_class, datid=session.database_oid, relnamespace=namespace, relname=name)
    return None if row is None else int(row.oid)


@overload
def find_relation(session: CatalogSession, name: RangeVar, missing_ok: Literal[False] = False) -> Relation: ...


@overload
def find_relation(session: CatalogSession, name: RangeVar, missing_ok: bool) -> Relation | None: ...


def find_relation(session: CatalogSession, name: RangeVar, missing_ok: bool = False) -> Relation | None:
    """The relation of that name, in its schema or along the search path (RangeVarGetRelid)."""
    oid = find_relation_oid(session, name, missing_ok)
    if oid is None:
        return None
    rel = relation(session, oid)
    if rel.persistence == "t":
        session.transaction.uses_temporary = True
    return rel


def find_relation_oid(session: CatalogSession, name: RangeVar, missing_ok: bool = False) -> int | None:
    try:
        return _find_oid(session, name, missing_ok)
    except PgError as problem:
        raise problem.at(name.location) from None


def _find_oid(session: CatalogSession, name: RangeVar, missing_ok: bool) -> int | None:
    if name.catalog is not None and name.catalog != session.database.name:
        raise PgError(
            "0A000", f'cross-database references are not implemented: "{name.catalog}.{name.schema}.{name.name}"'
        )
    if name.schema is not None:
        namespace = explicit_schema(session, name.schema, missing_ok=missing_ok)
        if namespace:
            oid = oid_in_schema(session, namespace, name.name)
            if oid is not None:
                return oid
        if missing_ok:
            return None
        raise PgError("42P01", f'relation "{name.schema}.{name.name}" does not exist')
    for namespace in search_path(session):
        oid = oid_in_schema(session, namespace, name.name)
        if oid is not None:
            return oid
    if missing_ok:
        return None
    raise PgError("42P01", f'relation "{name.name}" does not exist')


def relation_is_visible(session: CatalogSession, rel: Relation) -> bool:
    """Does its unqualified name find it? (RelationIsVisible)"""
    for namespace in search_path(session):
        if namespace == rel.namespace:
            return True
        if oid_in_schema(session, namespace, rel.name) is not None:
            return False
    return False


def display_name(session: CatalogSession, rel: Relation) -> str:
    """The quoted name, with the schema if the unqualified name does not find it (regclassout)."""
    if relation_is_visible(session, rel):
        return quote_identifier(rel.name)
    return quote_qualified(rel.schema, rel.name)


# --- transition tables ------------------------------------------------------------------------------------------------


@frozen
class TransitionTable:
    """Rows in the layout of the trigger's table: column n stands at n - 1."""

    name: str
    relation: Relation
    rows: Sequence[tuple[Any, ...]]


class HasTransitionTables(Protocol):
    transition_tables: Mapping[str, TransitionTable]


@contextmanager
def without_transition_tables(session: HasTransitionTables) -> Iterator[None]:
    """A definition lasts longer than the run of a trigger function, whose names it does not find."""
    tables, session.transition_tables = session.transition_tables, {}
    try:
        yield
    finally:
        session.transition_tables = tables


class TransitionRows(Sequence[tuple[Any, ...]]):
    """The rows of the transition table that has a name now: a plan that is kept sees those of each call."""

    def __init__(self, session: HasTransitionTables, name: str) -> None:
        self._session = session
        self._name = name

    def _rows(self) -> Sequence[tuple[Any, ...]]:
        return self._session.transition_tables[self._name].rows

    def __len__(self) -> int:
        return len(self._rows())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows())

    def __getitem__(self, place: Any) -> Any:
        return self._rows()[place]
