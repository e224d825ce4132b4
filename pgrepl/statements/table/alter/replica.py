"""REPLICA IDENTITY: what identifies a row that is updated or deleted."""

from __future__ import annotations

from functools import partial

from pgrepl.catalog import store
from pgrepl.catalog.indexes import indexes
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_class, pg_index
from pgrepl.errors import PgError
from pgrepl.expr.index_info import IndexInfo
from pgrepl.sql.nodes import AlterTableCmd
from pgrepl.statements.table.alter.targets import MATVIEW, TABLE, check_target, index_of
from pgrepl.statements.table.alter.work import AlteredTable, Pass, WorkQueue


def prepare_replica_identity(
    work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool
) -> None:
    check_target(work.session, "REPLICA IDENTITY", rel, TABLE + MATVIEW)
    work.entry(rel).add(Pass.MISC, partial(_change, identity=cmd.identity or "d", index=cmd.name))


def _change(work: WorkQueue, altered: AlteredTable, *, identity: str, index: str | None) -> None:
    mark_replica_identity(work.session, work.relation(altered), identity, index)


def mark_replica_identity(session: Session, rel: Relation, identity: str, index: str | None) -> None:
    """As ATExecReplicaIdentity and relation_mark_replica_identity do."""
    chosen = _suitable_index(session, rel, index or "").oid if identity == "i" else 0
    if rel.replident != identity:
        store.update(session, pg_class, {"oid": rel.oid}, relreplident=identity)
    for row in indexes(session, rel.oid):
        if bool(row.indisreplident) != (row.indexrelid == chosen):
            store.update(session, pg_index, {"indexrelid": row.indexrelid}, indisreplident=row.indexrelid == chosen)


def _suitable_index(session: Session, rel: Relation, name: str) -> IndexInfo:
    info = index_of(session, rel, name)
    if not info.unique:
        raise PgError("42809", f'cannot use non-unique index "{name}" as replica identity')
    if not info.immediate:
        raise PgError("0A000", f'cannot use non-immediate index "{name}" as replica identity')
    if info.exprs:
        raise PgError("0A000", f'cannot use expression index "{name}" as replica identity')
    if info.predicate is not None:
        raise PgError("0A000", f'cannot use partial index "{name}" as replica identity')
    for attnum in info.columns[: info.key_count]:
        attribute = rel.attribute_by_number(attnum)
        if attribute is not None and not attribute.notnull:
            raise PgError(
                "42809",
                f'index "{name}" cannot be used as replica identity because column "{attribute.name}" is nullable',
            )
    return info
