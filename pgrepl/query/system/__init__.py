"""The system catalogs and views as queries see them.

`relations.tsv` lists them, with PostgreSQL 17's columns: OID, schema, name, kind, and a column's name, type, type
modifier, NOT NULL, collation, the later release that brought it, and the last one that has it. What 18 has brought is
there where `pgrepl.postgres_version` is 18; what 19 has is found by its name only, `*` and pg_attribute leave it out.
`pgrepl_stat_…` are pgrepl's own, with OIDs that PostgreSQL keeps free. Rows come from `base_tables` (the catalogs),
`activity` (settings, locks), `statistics`, providers of higher rooms (slots, subscriptions) or `views` (queries in
views.sql). Reading a relation without a provider is an error with its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.store.system import SystemColumn, SystemRelation, SystemRelations
from pgrepl.ground.errors import unsupported

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.query.system.activity import Provider

PUBLIC_READS = ("10=arwdDxtm/10", "=r/10")
OWNER_ONLY = ("10=arwdDxtm/10",)
_PRIVATE = frozenset(
    "pg_authid pg_shadow pg_statistic pg_largeobject pg_replication_origin_status pg_user_mapping "
    "pg_hba_file_rules pg_file_settings pg_ident_file_mappings pg_backend_memory_contexts pg_shmem_allocations "
    "pg_shmem_allocations_numa pg_aios pg_subscription pg_config".split()
)
_RELEASES = {4: ":0:19", 5: ":19", 6: ""}  # of a column, by the fields that are there
_KEYS = {"pg_class": "oid", "pg_type": "oid", "pg_proc": "oid", "pg_attribute": "attrelid"}  # by their numbers of rows


def relations(release: int) -> SystemRelations:
    """The relations that `relations.tsv` lists, with the columns that they have in a release."""
    return SystemRelations(_relations(release))


def _relations(release: int) -> Iterator[SystemRelation]:
    for line in (Path(__file__).parent / "relations.tsv").read_text("utf-8").splitlines():
        oid, schema, name, kind, columns = line.split("\t")
        made = []
        for column in columns.split(" "):
            title, typid, typmod, notnull, collation, since, until = f"{column}{_RELEASES[column.count(':')]}".split(
                ":"
            )
            if release < int(since) == 18 or release > int(until):
                continue
            later = int(since) if int(since) > release else 0
            made.append(SystemColumn(title, int(typid), int(typmod), notnull == "1", int(collation), later))
        if not made:
            continue
        acl = OWNER_ONLY if name in _PRIVATE else PUBLIC_READS
        key = rank = 0
        if name in _KEYS:
            key = 1 + [column.name for column in made].index(_KEYS[name])
            rank = 1 + list(_KEYS).index(name)
        yield SystemRelation(int(oid), name, schema, kind, tuple(made), acl, key, rank, release)


def rows(
    session: Session, relation: SystemRelation, above: Mapping[str, Provider], only: frozenset[int] | None = None
) -> Iterable[tuple[Any, ...]]:
    """The rows, with a Python value for each column; `above`: the providers of higher rooms. `only`: those with these
    OIDs in the relation's key; None: all."""
    from pgrepl.query.system import activity, base_tables, kept_rows, statistics

    if relation.key:
        return kept_rows.keyed_rows(session, relation, only)
    for providers in (above, base_tables.PROVIDERS, activity.PROVIDERS, statistics.PROVIDERS):
        if relation.schema == "pg_catalog" and relation.name in providers:
            return kept_rows.rows_of(session, relation, providers[relation.name])
    if relation.name in base_tables.EMPTY:
        return iter(())
    raise unsupported(f'reading "{relation.schema}.{relation.name}"')
