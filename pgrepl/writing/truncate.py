"""TRUNCATE: removes all rows of tables (ExecuteTruncate)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.acl import check_table_privilege
from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.lock_modes import RelationMode
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.relkind import open_table
from pgrepl.catalog.sequences import check_sequences_owner, restart_sequences
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.rows.foreign import pending, truncate_tables
from pgrepl.rows.in_use import lock_table, refuse_used
from pgrepl.rows.references import referencing_tables, refuse_referenced
from pgrepl.sql.nodes import TruncateStmt

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def truncate(stmt: TruncateStmt, session: Session) -> Result:
    tables: dict[int, Relation] = {}
    for name in stmt.relations:
        rel = open_table(session, name)
        _check_kind(rel)
        check_table_privilege(session, rel, "TRUNCATE")
        if rel.oid in tables:
            continue
        _check_unused(session, rel)
        tables[rel.oid] = rel
        if name.inh:  # the privilege on a parent suffices for its children
            for child in (relation(session, oid) for oid in inheritors(session, rel.oid)[1:]):
                if child.oid not in tables:
                    _check_kind(child)
                    _check_unused(session, child)
                    tables[child.oid] = child
        elif rel.kind == "p":
            raise PgError(
                "42809",
                "cannot truncate only a partitioned table",
                hint="Do not specify the ONLY keyword, or use TRUNCATE ONLY on the partitions directly.",
            )
    if stmt.cascade:
        _add_referencing(session, tables)
    else:
        refuse_referenced(session, list(tables))
    if stmt.restart:
        check_sequences_owner(session, tables)

    def remove() -> None:
        if stmt.restart:
            restart_sequences(session, tables)
        empty(session, list(tables.values()), cascade=stmt.cascade, restart=stmt.restart)

    truncate_tables(session, list(tables.values()), remove)
    return Result("TRUNCATE TABLE")


def empty(session: Session, tables: Sequence[Relation], *, cascade: bool = False, restart: bool = False) -> None:
    """Remove all rows. CASCADE and RESTART IDENTITY are recorded, as publishers pass them on."""
    from pgrepl.lake import commit
    from pgrepl.lake.table import lake_table
    from pgrepl.lake.write import Write

    writes = []
    for rel in tables:
        if rel.kind in "rm":
            write = Write(session, lake_table(session, rel.oid))
            write.truncate()
            writes.append(write)
    if writes:
        said = {"tables": [rel.oid for rel in tables], "cascade": cascade, "restart_identity": restart}
        commit.apply(session, writes, {"truncate": said})


def _check_kind(rel: Relation) -> None:
    """As truncate_check_rel does."""
    if rel.kind not in ("r", "p"):
        raise PgError("42809", f'"{rel.name}" is not a table')
    if rel.is_catalog:
        raise PgError("42501", f'permission denied: "{rel.name}" is a system catalog')


def _check_unused(session: Session, rel: Relation) -> None:
    """As truncate_check_activity does."""
    lock_table(session, rel.oid, RelationMode.ACCESS_EXCLUSIVE)
    refuse_used(session, rel, "TRUNCATE")
    if pending(session, rel.oid):
        raise PgError("55006", f'cannot TRUNCATE "{rel.name}" because it has pending trigger events')


# --- foreign keys -----------------------------------------------------------------------------------------------------


def _add_referencing(session: Session, tables: dict[int, Relation]) -> None:
    while True:
        more = referencing_tables(session, list(tables))
        if not more:
            return
        for oid in more:
            rel = relation(session, oid)
            session.notice("NOTICE", f'truncate cascades to table "{rel.name}"')
            _check_kind(rel)
            check_table_privilege(session, rel, "TRUNCATE")
            _check_unused(session, rel)
            tables[oid] = rel
