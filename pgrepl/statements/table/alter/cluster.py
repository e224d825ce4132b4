"""CLUSTER ON and SET WITHOUT CLUSTER: the index that CLUSTER would order the table by."""

from __future__ import annotations

from functools import partial

from pgrepl.catalog import store
from pgrepl.catalog.indexes import indexes
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_index
from pgrepl.errors import PgError
from pgrepl.sql.nodes import AlterTableCmd
from pgrepl.statements.table.alter.targets import MATVIEW, TABLE, check_target, index_of
from pgrepl.statements.table.alter.work import AlteredTable, Pass, WorkQueue

_CLUSTERABLE = (403, 783)  # btree, gist


def prepare_cluster(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    check_target(work.session, cmd.kind.value, rel, TABLE + MATVIEW)
    work.entry(rel).add(Pass.MISC, partial(_change, index=cmd.name))


def _change(work: WorkQueue, altered: AlteredTable, *, index: str | None) -> None:
    mark_clustered(work.session, work.relation(altered), index)


def mark_clustered(session: Session, rel: Relation, index: str | None) -> None:
    """As ATExecClusterOn and mark_index_clustered do; None: no index."""
    chosen = 0 if index is None else _suitable_index(session, rel, index)
    if rel.kind == "p":
        raise PgError("0A000", "cannot mark index clustered in partitioned table")
    for row in indexes(session, rel.oid):
        if bool(row.indisclustered) != (row.indexrelid == chosen):
            store.update(session, pg_index, {"indexrelid": row.indexrelid}, indisclustered=row.indexrelid == chosen)


def _suitable_index(session: Session, rel: Relation, name: str) -> int:
    """As check_index_is_clusterable does."""
    info = index_of(session, rel, name)
    if info.method not in _CLUSTERABLE:
        raise PgError("0A000", f'cannot cluster on index "{name}" because access method does not support clustering')
    if info.predicate is not None:
        raise PgError("0A000", f'cannot cluster on partial index "{name}"')
    if not info.valid:
        raise PgError("0A000", f'cannot cluster on invalid index "{name}"')
    return info.oid
