"""What is done to the rows of whole tables: CREATE TABLE AS, materialized views, TRUNCATE; and SET CONSTRAINTS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import check_table_privilege
from pgrepl.catalog.facts.namespace import explicit_schema, search_path
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import inheritors, open_table
from pgrepl.catalog.facts.sequences import check_sequences_owner, restart_sequences
from pgrepl.catalog.locks.lock_table import RelationMode
from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.ground.errors import PgError
from pgrepl.lake import commit
from pgrepl.lake.read import local
from pgrepl.lake.table import lake_table
from pgrepl.lake.write.statement import Write
from pgrepl.query.result import Result
from pgrepl.query.rowset import LocalRows, SparkRows
from pgrepl.rows.after_triggers import fire_deferred, pending, truncate_tables
from pgrepl.rows.changes import define_now
from pgrepl.rows.checks_table import keep_dimensions
from pgrepl.rows.foreign.actions import Modes, modes, set_modes
from pgrepl.rows.in_use import lock_table, referencing_tables, refuse_referenced, refuse_used
from pgrepl.sql.nodes import ConstraintsSetStmt, TruncateStmt
from pgrepl.types.style import DEFAULT_STYLE, quote_field
from pgrepl.types.text import writer

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.sql.nodes import RangeVar


def append(session: Session, table: Relation, rows: LocalRows | SparkRows) -> int:
    """Write the rows, whose columns are in the table's order; returns their number."""
    if isinstance(rows, LocalRows):
        keep_dimensions(session, table, rows.rows)
    define_now(session)
    write = Write(session, lake_table(session, table.oid))
    count = add_rows(session, table, write, rows)
    if count:
        commit.record_writes(session, [write])
    return count


def add_rows(session: Session, table: Relation, write: Write, rows: LocalRows | SparkRows) -> int:
    """Add the rows to a write; returns their number."""
    if isinstance(rows, LocalRows):
        write.insert(rows.rows)
        return len(rows.rows)
    from pgrepl.rows.arrivals import Arrival
    from pgrepl.rows.staged import StagedRows

    staged = StagedRows(session, table, session.snapshot(), write)
    (done,) = Arrival(session, table, table, frozenset()).write(rows.frame)
    staged.take(done, versions=False)
    return staged.count


# --- materialized view ------------------------------------------------------------------------------------------------


_Text = tuple[str | None, ...]


def replace_rows(session: Session, view: Relation, rows: LocalRows | SparkRows) -> int:
    """Replace all rows, in one commit; returns the number of new ones (refresh_by_heap_swap)."""
    write = _write(session, view)
    write.truncate()
    count = add_rows(session, view, write, rows)
    commit.record_writes(session, [write])
    return count


def merge_rows(session: Session, view: Relation, rows: LocalRows) -> None:
    """Delete the rows that are gone and insert those that are new (refresh_by_match_merge)."""
    write = _write(session, view)
    columns = view.columns
    writers = [writer(column.type) for column in columns]

    def text(row: tuple[Any, ...]) -> _Text:
        return tuple([None if v is None else write(v, DEFAULT_STYLE) for write, v in zip(writers, row, strict=True)])

    texts = [text(row) for row in rows.rows]
    wanted = Counter(texts)
    _refuse_duplicates(view, wanted)
    gone = []
    for *old, place in local.rows(session, write.table, [column.num for column in columns], places=True):
        shown = text(tuple(old))
        if wanted[shown]:
            wanted[shown] -= 1
        else:
            gone.append(place)
    new = []
    for row, shown in zip(rows.rows, texts, strict=True):
        if wanted[shown]:
            wanted[shown] -= 1
            new.append(row)
    if gone or new:
        write.delete(gone)
        write.insert(new)
        commit.record_writes(session, [write])


def _write(session: Session, view: Relation) -> Write:
    define_now(session)
    return Write(session, lake_table(session, view.oid))


def _refuse_duplicates(view: Relation, wanted: Counter[_Text]) -> None:
    for row, count in wanted.items():
        if count > 1 and None not in row:
            shown = ",".join("" if value is None else quote_field(value) for value in row)
            raise PgError(
                "21000",
                f'new data for materialized view "{view.name}" contains duplicate rows without any null columns',
                detail=f"Row: ({shown})",
            )


# --- truncate ---------------------------------------------------------------------------------------------------------


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
    writes = []
    for rel in tables:
        if rel.kind in "rm":
            write = Write(session, lake_table(session, rel.oid))
            write.truncate()
            writes.append(write)
    if writes:
        said = {"tables": [rel.oid for rel in tables], "cascade": cascade, "restart_identity": restart}
        commit.record_writes(session, writes, {"truncate": said})


def _check_kind(rel: Relation) -> None:
    """Raises for a relation that cannot be truncated (truncate_check_rel)."""
    if rel.kind not in ("r", "p"):
        raise PgError("42809", f'"{rel.name}" is not a table')
    if rel.is_catalog:
        raise PgError("42501", f'permission denied: "{rel.name}" is a system catalog')


def _check_unused(session: Session, rel: Relation) -> None:
    """Raises for a table that is in use (truncate_check_activity)."""
    lock_table(session, rel.oid, RelationMode.ACCESS_EXCLUSIVE)
    refuse_used(session, rel, "TRUNCATE")
    if pending(session, rel.oid):
        raise PgError("55006", f'cannot TRUNCATE "{rel.name}" because it has pending trigger events')


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


# --- constraints set --------------------------------------------------------------------------------------------------


def set_constraints(stmt: ConstraintsSetStmt, session: Session) -> Result:
    if session.transaction.is_outside_block:
        session.notice("WARNING", "SET CONSTRAINTS can only be used in transaction blocks", sqlstate="25P01")
    said = modes(session)
    if stmt.constraints is None:
        said = Modes(stmt.deferred, fired=said.fired)
    else:
        constraints = [oid for name in stmt.constraints for oid in _named(session, name, stmt.deferred)]
        for oid in constraints:  # and those of partitions
            constraints += [
                row.oid for row in store.rows(session, pg_constraint, conparentid=oid) if row.oid not in constraints
            ]
        changed = dict(said.single) | dict.fromkeys(constraints, stmt.deferred)
        said = replace(said, single=tuple(changed.items()))
    set_modes(session, said)
    if not stmt.deferred:
        fire_deferred(session)
    return Result("SET CONSTRAINTS")


def _named(session: Session, name: RangeVar, deferred: bool) -> list[int]:
    """The deferrable constraints of this name in the first schema that has the name."""
    if name.catalog is not None and name.catalog != session.database.name:
        raise PgError(
            "0A000", f'cross-database references are not implemented: "{name.catalog}.{name.schema}.{name.name}"'
        )
    schemas = search_path(session) if name.schema is None else [explicit_schema(session, name.schema)]
    for schema in schemas:
        rows = store.rows(session, pg_constraint, datid=session.database_oid, connamespace=schema, conname=name.name)
        rows = [row for row in rows if row.datid == session.database_oid]
        for row in rows:
            if deferred and not row.condeferrable:
                raise PgError("42809", f'constraint "{name.name}" is not deferrable')
        if rows:
            return [row.oid for row in rows if row.condeferrable]
    raise PgError("42704", f'constraint "{name.name}" does not exist')
