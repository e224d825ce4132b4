"""The system catalogs and views as queries see them.

`relations.tsv` lists them, with PostgreSQL 17's columns: OID, schema, name, kind, and a column's name, type, type
modifier, NOT NULL, collation, the later release that brought it, and the last one that has it. What 18 has brought is
there where `pgrepl.postgres_version` is 18; what 19 has is found by its name only, `*` and pg_attribute leave it out.
`pgrepl_stat_…` are pgrepl's own, with OIDs that PostgreSQL keeps free. Rows come from `base_tables` (the catalogs),
`activity` (settings, locks, statistics), providers of higher rooms (slots, subscriptions), or are those of a
query in views.sql. Reading a relation without a provider is an error with its name.

Rows are kept from one statement to the next: those of PostgreSQL's own objects as long as the process runs, those of
users' objects until a definition changes, unless they are very many.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.store.system import SystemColumn, SystemRelation, SystemRelations
from pgrepl.ground.errors import unsupported

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.query.system.activity import Provider
    from pgrepl.query.system.base_tables import Only
    from pgrepl.sql.nodes import SelectStmt

Row = tuple[Any, ...]

PUBLIC_READS = ("10=arwdDxtm/10", "=r/10")
PUBLIC_SETS = ("10=arwdDxtm/10", "=rw/10")
OWNER_ONLY = ("10=arwdDxtm/10",)
_PUBLIC_COLUMN = ("=r/10",)
_PRIVATE = frozenset(
    "pg_authid pg_shadow pg_statistic pg_statistic_ext_data pg_largeobject pg_replication_origin_status "
    "pg_user_mapping pg_hba_file_rules pg_file_settings pg_ident_file_mappings pg_backend_memory_contexts "
    "pg_shmem_allocations pg_shmem_allocations_numa pg_aios pg_subscription pg_config".split()
)
_RELEASES = {4: ":0:19", 5: ":19", 6: ""}  # of a column, by the fields that are there
_KEYS = {"pg_class": "oid", "pg_type": "oid", "pg_proc": "oid", "pg_attribute": "attrelid"}  # by their numbers of rows


def relations(release: int) -> SystemRelations:
    """The relations that `relations.tsv` lists, with the columns that they have in a release."""
    return SystemRelations(_relations(release))


def _relations(release: int) -> Iterator[SystemRelation]:
    for line in (Path(__file__).parent / "relations.tsv").read_text("utf-8").splitlines():
        oid, schema, name, kind, columns = line.split("\t")
        system_columns = []
        for column in columns.split(" "):
            title, typid, typmod, notnull, collation, since, until = f"{column}{_RELEASES[column.count(':')]}".split(
                ":"
            )
            if release < int(since) == 18 or release > int(until):
                continue
            later = int(since) if int(since) > release else 0
            # PUBLIC can read pg_subscription, but not the connection string, which may hold a password
            shown = _PUBLIC_COLUMN if name == "pg_subscription" and title != "subconninfo" else None
            system_columns.append(
                SystemColumn(title, int(typid), int(typmod), notnull == "1", int(collation), later, shown)
            )
        if not system_columns:
            continue
        acl = OWNER_ONLY if name in _PRIVATE else PUBLIC_SETS if name == "pg_settings" else PUBLIC_READS
        key = rank = 0
        if name in _KEYS:
            key = 1 + [column.name for column in system_columns].index(_KEYS[name])
            rank = 1 + list(_KEYS).index(name)
        yield SystemRelation(int(oid), name, schema, kind, tuple(system_columns), acl, key, rank, release)


def rows(
    session: Session, relation: SystemRelation, above: Mapping[str, Provider], only: frozenset[int] | None = None
) -> Iterable[Row]:
    """The rows, with a Python value for each column; `above`: the providers of higher rooms. `only`: those with these
    OIDs in the relation's key; None: all."""
    from pgrepl.query.system import activity, base_tables

    if relation.key:
        return keyed_rows(session, relation, only)
    for providers in (above, base_tables.PROVIDERS, activity.PROVIDERS):
        if relation.schema == "pg_catalog" and relation.name in providers:
            return unkeyed_rows(session, relation, providers[relation.name])
    if relation.name in base_tables.EMPTY:
        return iter(())
    raise unsupported(f'reading "{relation.schema}.{relation.name}"')


# --- rows that are kept -----------------------------------------------------------------------------------------------


_MOST = 20_000  # rows of a catalog that a session keeps


Read = Callable[["Only"], Iterable[Row]]
"""What reads rows of a catalog: those with some OIDs in its key, or all."""


class KeptRows:
    """Rows of a catalog as they have been asked for: all of them, or those with some OIDs in its key."""

    def __init__(self, relation: SystemRelation) -> None:
        self._place = relation.key - 1
        self._all: list[Row] | None = None
        self._by_key: dict[int, list[Row]] = {}
        self._count = 0  # of the rows by key

    def all(self, read: Read) -> list[Row]:
        if self._all is None:
            rows = list(read(None))
            if len(rows) > _MOST:
                return rows
            self._all, self._by_key, self._count = rows, {}, 0
        return self._all

    def of(self, oids: Collection[int], read: Read) -> Iterable[Row]:
        missing = frozenset(oids).difference(self._by_key)
        if missing and self._count > _MOST:
            self._by_key, self._count, missing = {}, 0, frozenset(oids)
        if missing:
            if self._all is None:
                self._add([row for row in read(missing) if row[self._place] in missing])
            elif not self._count:
                self._add(self._all)
            for oid in missing:
                self._by_key.setdefault(oid, [])
        return chain.from_iterable([self._by_key[oid] for oid in sorted(oids)])

    def _add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._by_key.setdefault(row[self._place], []).append(row)
        self._count += len(rows)


_own: dict[tuple[str, int, int], KeptRows] = {}  # by catalog, the release of its rows and that of its columns


def keyed_rows(session: Session, relation: SystemRelation, only: frozenset[int] | None) -> Iterable[Row]:
    """The rows of a catalog with these OIDs in its key; None: all."""
    from pgrepl.query.system.activity import as_rows
    from pgrepl.query.system.base_tables import KEYED, OWN, SETTLED

    name = relation.name

    def read_users(oids: Only) -> Iterable[Row]:
        return as_rows(session, relation, KEYED[name](session, oids))

    def read_own(_: Only) -> Iterable[Row]:
        return as_rows(session, relation, OWN[name](session))

    kept = _own.setdefault((name, session.settings.release, relation.release), KeptRows(relation))
    own: Iterable[Row] = kept.all(read_own)
    if only is not None:
        own = kept.of(only, read_own)
    if name not in SETTLED:
        users = read_users(only)
    elif only is None:
        users = _kept(session, relation).all(read_users)
    else:
        users = _kept(session, relation).of(only, read_users)
    return chain(users, own) if name in ("pg_class", "pg_attribute") else chain(own, users)


def unkeyed_rows(session: Session, relation: SystemRelation, provide: Provider) -> Iterable[Row]:
    """All rows of a catalog that has no key."""
    from pgrepl.query.system.activity import as_rows
    from pgrepl.query.system.base_tables import SETTLED

    if relation.name not in SETTLED:
        return as_rows(session, relation, provide(session))
    return _kept(session, relation).all(lambda _: as_rows(session, relation, provide(session)))


def _kept(session: Session, relation: SystemRelation) -> KeptRows:
    """What the session keeps of a catalog whose rows change with definitions only. Defaults of types are printed by the
    search path."""
    printed_by = session.settings.found(("search_path", "pgrepl.postgres_version"))
    key = ("catalog rows", relation.oid, relation.release, session.database_oid, printed_by)
    known: KeptRows | None = session.derived.get(key)
    if known is None:
        known = session.derived[key] = KeptRows(relation)
    return known


# --- views ------------------------------------------------------------------------------------------------------------


@cache
def definitions() -> dict[tuple[str, str], str]:
    """(schema, view) → the text of its SELECT."""
    texts = {}
    for file in ("views.sql", "information_schema.sql"):
        for paragraph in Path(__file__).with_name(file).read_text("utf-8").split("\n\n"):
            name, _, text = paragraph.partition("\n")
            if not name.startswith("--"):
                schema, _, view = name.partition(".")
                texts[schema, view] = text
    return texts


@cache
def definition(schema: str, view: str, release: int) -> SelectStmt | None:
    """The SELECT of a system view with the columns that it has in a release; None: a provider has its rows."""
    text = definitions().get((schema, view))
    if text is None:
        return None
    if release >= 18:
        text = "\n".join([line for line in text.split("\n") if not line.endswith("-- up to 17")])
    from pgrepl.sql.nodes import SelectStmt
    from pgrepl.sql.parser import parse

    (statement,) = parse(text)
    assert isinstance(statement.stmt, SelectStmt)
    return statement.stmt
