"""Views of the cumulative statistics: of tables, indexes, databases and slots, and pgrepl_stat_engine.

The numbers of live and dead rows come from the lake. pgrepl reads no blocks, so that pg_statio_… count none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.statistics import DATABASE, ENGINE, RELATION, SLOT
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.system import CATALOG_NAMESPACE, INFORMATION_SCHEMA, TOAST_NAMESPACE
from pgrepl.catalog.store.tables import pg_class, pg_database, pg_index, pg_namespace, pg_replication_slot
from pgrepl.engine import choice
from pgrepl.ground.frozen import frozen
from pgrepl.query.system.activity import Provider, Values

_TABLE_COUNTERS = (
    "seq_scan seq_tup_read n_tup_ins n_tup_upd n_tup_del n_mod_since_analyze n_ins_since_vacuum vacuum_count"
    " autovacuum_count analyze_count"
).split()
_NEVER = ("n_tup_hot_upd", "n_tup_newpage_upd", "autoanalyze_count")
_TIMED = ("vacuum", "autovacuum", "analyze", "autoanalyze")  # in 18; the last two take no time here
_MOMENTS = ("last_seq_scan", "last_idx_scan", "last_vacuum", "last_autovacuum", "last_analyze")
_BLOCKS = "heap_blks_read heap_blks_hit".split()
_INDEX_BLOCKS = "idx_blks_read idx_blks_hit".split()
_SLOT_COUNTERS = (
    "spill_txns spill_count spill_bytes stream_txns stream_count stream_bytes total_txns total_bytes"
    " mem_exceeded_count slotsync_skip_count".split()
)
_DATABASE_COUNTERS = (
    "xact_commit xact_rollback blks_read blks_hit conflicts temp_files temp_bytes deadlocks blk_read_time"
    " blk_write_time session_time active_time idle_in_transaction_time sessions sessions_abandoned"
    " sessions_fatal sessions_killed parallel_workers_to_launch parallel_workers_launched"
).split()
_CONFLICTS = "tablespace lock snapshot bufferpin deadlock active_logicalslot".split()

Wanted = Callable[[str], bool]  # of a schema


def _all(schema: str) -> bool:
    return True


def _user(schema: str) -> bool:
    return not _system(schema)


def _system(schema: str) -> bool:
    return schema in ("pg_catalog", "information_schema") or schema.startswith("pg_toast")


@frozen
class _Named:
    """A relation with its names."""

    oid: int
    schema: str
    name: str
    table_id: int | None = None


def _tables(session: Session, wanted: Wanted) -> Iterator[_Named]:
    for each in session.system_relations():
        if each.kind == "r" and wanted(each.schema):
            yield _Named(each.oid, each.schema, each.name)
    schemas = _schemas(session)
    for row in rows(session, pg_class, datid=session.database_oid, relkind=("r", "m", "p")):
        if wanted(schemas[row.relnamespace]):
            table_id = row.table_id if row.relkind in "rm" else None
            yield _Named(row.oid, schemas[row.relnamespace], row.relname, table_id)


def _schemas(session: Session) -> dict[int, str]:
    found = {CATALOG_NAMESPACE: "pg_catalog", INFORMATION_SCHEMA: "information_schema", TOAST_NAMESPACE: "pg_toast"}
    found.update({row.oid: row.nspname for row in rows(session, pg_namespace, datid=session.database_oid)})
    return found


def _counted(session: Session) -> dict[str, dict[str, Any]]:
    """The counters of the relations of the session's database, by OID."""
    read = statistics.counters(session.catalog).read(RELATION)
    return {name: values for (database, name), values in read.items() if database == session.database_oid}


def _of_tables(wanted: Wanted, session: Session) -> Iterator[Values]:
    from pgrepl.lake.read.extent import RowCounts, row_counts

    counted = _counted(session)
    counts = row_counts(session)
    indexed = {row.indrelid for row in rows(session, pg_index)}
    for table in _tables(session, wanted):
        known = counted.get(str(table.oid), {})
        has_index = table.oid in indexed or table.table_id is None
        there = counts.get(table.table_id, RowCounts()) if table.table_id is not None else RowCounts()
        yield {
            "relid": table.oid, "schemaname": table.schema, "relname": table.name,
            **{name: known.get(name, 0) for name in _TABLE_COUNTERS}, **dict.fromkeys(_NEVER, 0),
            **{name: known.get(name) for name in _MOMENTS},
            **{f"total_{work}_time": known.get(f"{work}_usecs", 0) / 1000 for work in _TIMED},
            "idx_scan": known.get("idx_scan", 0) if has_index else None,
            "idx_tup_fetch": known.get("idx_scan", 0) if has_index else None,
            "n_live_tup": there.live, "n_dead_tup": there.dead,
        }  # fmt: skip


def _blocks_of_tables(wanted: Wanted, session: Session) -> Iterator[Values]:
    indexed = {row.indrelid for row in rows(session, pg_index)}
    for table in _tables(session, wanted):
        zero = [*_BLOCKS, *(_INDEX_BLOCKS if table.oid in indexed else ())]
        yield {
            "relid": table.oid, "schemaname": table.schema, "relname": table.name, **dict.fromkeys(zero, 0),
        }  # fmt: skip


def _indexes(session: Session, wanted: Wanted) -> Iterator[tuple[_Named, pg_class]]:
    named = {table.oid: table for table in _tables(session, wanted)}
    for row in rows(session, pg_class, datid=session.database_oid, relkind="i"):
        for index in rows(session, pg_index, indexrelid=row.oid):
            if index.indrelid in named:
                yield named[index.indrelid], row


def _of_indexes(wanted: Wanted, session: Session) -> Iterator[Values]:
    counted = _counted(session)
    for table, row in _indexes(session, wanted):
        known = counted.get(str(row.oid), {})
        scans = known.get("scans", 0)
        yield {
            "relid": table.oid, "indexrelid": row.oid, "schemaname": table.schema, "relname": table.name,
            "indexrelname": row.relname, "idx_scan": scans, "last_idx_scan": known.get("last_idx_scan"),
            "idx_tup_read": scans, "idx_tup_fetch": scans, **dict.fromkeys(_INDEX_BLOCKS, 0),
        }  # fmt: skip


def _blocks_of_sequences(wanted: Wanted, session: Session) -> Iterator[Values]:
    schemas = _schemas(session)
    for row in rows(session, pg_class, datid=session.database_oid, relkind="S"):
        if wanted(schemas[row.relnamespace]):
            yield {
                "relid": row.oid, "schemaname": schemas[row.relnamespace], "relname": row.relname, "blks_read": 0,
                "blks_hit": 0,
            }  # fmt: skip


def _databases(session: Session) -> Iterator[Values]:
    counters = statistics.counters(session.catalog)
    of_databases, of_relations = counters.read(DATABASE), counters.read(RELATION)
    known_databases: list[tuple[int, str | None]] = [(0, None)]
    known_databases += [(row.oid, row.datname) for row in rows(session, pg_database)]
    for oid, name in known_databases:
        known = of_databases.get((oid, str(oid)), {})
        relations = [values for (database, _), values in of_relations.items() if database == oid]

        def together(*names: str, relations: list[dict[str, Any]] = relations) -> int:
            return sum(values.get(each, 0) for values in relations for each in names)

        yield {
            "datid": oid, "datname": name, "numbackends": None if name is None else int(oid == session.database_oid),
            **{each: known.get(each, 0) for each in _DATABASE_COUNTERS},
            "tup_returned": together("seq_tup_read"), "tup_fetched": together("idx_scan"),
            "tup_inserted": together("n_tup_ins"), "tup_updated": together("n_tup_upd"),
            "tup_deleted": together("n_tup_del"), "stats_reset": known.get("stats_reset"),
        }  # fmt: skip


def _conflicts(session: Session) -> Iterator[Values]:
    for row in rows(session, pg_database):
        yield {"datid": row.oid, "datname": row.datname, **{f"confl_{name}": 0 for name in _CONFLICTS}}


def _slots(session: Session) -> Iterator[Values]:
    """The counters of logical slots. No transaction is spilled or streamed: the lake has each one whole."""
    counted = statistics.counters(session.catalog).read(SLOT)
    for row in rows(session, pg_replication_slot):
        if row.slot_type == "logical":
            known = counted.get((0, row.slot_name), {})
            yield {
                "slot_name": row.slot_name, **{name: known.get(name, 0) for name in _SLOT_COUNTERS},
                "stats_reset": known.get("stats_reset"),
            }  # fmt: skip


def _engines(session: Session) -> Iterator[Values]:
    """The work of columns and Spark in each database, and the work they declined."""
    known = statistics.counters(session.catalog).read(ENGINE)
    for row in rows(session, pg_database):
        for (database, work), counters in sorted(known.items()):
            for counter, calls in sorted(counters.items()) if database == row.oid else ():
                used, declined = choice.counted(counter)
                yield {
                    "datid": row.oid, "datname": row.datname, "work": work, "engine": used, "declined": declined,
                    "calls": calls,
                }  # fmt: skip


PROVIDERS: dict[str, Provider] = {
    "pgrepl_stat_engine": _engines,
    "pg_stat_database": _databases,
    "pg_stat_database_conflicts": _conflicts,
    "pg_stat_replication_slots": _slots,
    **{
        f"{prefix}_{name}_{kind}": partial(provider, wanted)
        for name, wanted in (("all", _all), ("sys", _system), ("user", _user))
        for prefix, kind, provider in (
            ("pg_stat", "tables", _of_tables),
            ("pg_stat", "indexes", _of_indexes),
            ("pg_statio", "tables", _blocks_of_tables),
            ("pg_statio", "indexes", _of_indexes),
            ("pg_statio", "sequences", _blocks_of_sequences),
        )
    },
}
