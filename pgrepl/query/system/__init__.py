"""The system catalogs and views as somebody who asks them sees them; importing this room makes them known.

`relations.tsv` says which there are and what columns PostgreSQL 17 gives them: OID, schema, name, kind, and a column's
name, type, type modifier, NOT NULL and collation. Rows come from `base_tables` (the catalogs), `activity` (settings,
locks), `statistics`, rooms above that say so (catalog/system_rows.py: slots, subscriptions) or `views` (queries of our
own). A relation none of them knows is refused by name when it is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pgrepl.catalog.session import Session
from pgrepl.catalog.system import SystemColumn, SystemRelation
from pgrepl.catalog.system_rows import Rows, register
from pgrepl.errors import unsupported

PUBLIC_READS = ("10=arwdDxtm/10", "=r/10")
OWNER_ONLY = ("10=arwdDxtm/10",)
_PRIVATE = frozenset(
    "pg_authid pg_shadow pg_statistic pg_largeobject pg_replication_origin_status pg_user_mapping "
    "pg_hba_file_rules pg_file_settings pg_ident_file_mappings pg_backend_memory_contexts pg_shmem_allocations "
    "pg_subscription pg_config".split()
)


def _rows(relation_name: str, schema: str) -> Rows:
    def rows(session: Session) -> Iterator[tuple[Any, ...]]:
        from pgrepl.catalog.system import by_name
        from pgrepl.catalog.system_rows import provider
        from pgrepl.query.system import activity, base_tables, forms, statistics

        relation = by_name(schema, relation_name)
        assert relation is not None
        found = (room.PROVIDERS.get(relation_name) for room in (base_tables, activity, statistics))
        made = provider(relation_name) or next((each for each in found if each is not None), None)
        if made is not None and schema == "pg_catalog":
            return forms.as_rows(session, relation, made(session))
        if relation_name in base_tables.EMPTY:
            return iter(())
        raise unsupported(f'reading "{schema}.{relation_name}"')

    return rows


def _load() -> None:
    for line in (Path(__file__).parent / "relations.tsv").read_text("utf-8").splitlines():
        oid, schema, name, kind, columns = line.split("\t")
        made = []
        for column in columns.split(" "):
            title, typid, typmod, notnull, collation = column.split(":")
            made.append(SystemColumn(title, int(typid), int(typmod), notnull == "1", int(collation)))
        acl = OWNER_ONLY if name in _PRIVATE else PUBLIC_READS
        register(SystemRelation(int(oid), name, schema, kind, tuple(made), acl), _rows(name, schema))


_load()
