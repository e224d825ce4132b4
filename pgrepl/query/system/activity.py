"""Views of activity (settings, copies, locks, prepared transactions) and of the cumulative statistics (tables, indexes,
databases, slots, pgrepl_stat_engine), and the catalog's stored values as values of a query.

As in PostgreSQL held row locks are not shown; who waits for a row waits for a transaction's ID. The numbers of live and
dead rows come from the lake. pgrepl reads no blocks, so that pg_statio_… count none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import activity
from pgrepl.catalog.facts.acl import acl_text
from pgrepl.catalog.facts.roles import database_name, has_privs_of_role, role_display
from pgrepl.catalog.locks.lock_table import MODE_NAMES, TUPLE_MODES, LockKind, RelationMode
from pgrepl.catalog.locks.locks import AdvisoryKey
from pgrepl.catalog.session import login, parameters, statistics
from pgrepl.catalog.session.parameters import Parameter, Value
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.statistics import DATABASE, ENGINE, RELATION, SLOT
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.system import (
    CATALOG_NAMESPACE,
    INFORMATION_SCHEMA,
    ROLE_READ_ALL_SETTINGS,
    TOAST_NAMESPACE,
    SystemRelation,
)
from pgrepl.catalog.store.tables import pg_class, pg_database, pg_index, pg_namespace, pg_replication_slot
from pgrepl.engine import choice
from pgrepl.ground.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.arrays import array_of, vector_of
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.lake.forms import ctid
from pgrepl.types.text import read_text

if TYPE_CHECKING:
    from pgrepl.catalog.locks.lock_table import Holder, LockTable, Waiter


Values = Mapping[str, Any]
"""A row before it is brought to the columns of its relation."""
Provider = Callable[[Session], Iterable[Values]]


def _moment(value: Any) -> Any:
    return read_text(value, oids.TIMESTAMPTZ) if isinstance(value, str) else value


def _tree(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


@cache
def _reader(typid: int) -> Callable[[Any], Any] | None:
    if typid == oids.TIMESTAMPTZ:
        return _moment
    if typid == oids.CHAR:
        return lambda value: value or "\0"  # a "char" always is one byte
    if typid == oids.PG_NODE_TREE:
        return _tree
    if typid == oids.INT2VECTOR:
        return lambda value: vector_of(oids.INT2, value)
    if typid == oids.OIDVECTOR:
        return lambda value: vector_of(oids.OID, value)
    kind = type_by_oid(typid)
    if kind is not None and kind.category == "A" and kind.elem:
        return lambda value: array_of(kind.elem, value)
    return None


def as_rows(session: Session, relation: SystemRelation, values: Iterable[Values]) -> Iterator[tuple[Any, ...]]:
    """Values by column name as tuples in the relation's column order."""

    def privileges(stored: Any) -> Any:
        return array_of(oids.ACLITEM, acl_text(session, stored) or [])

    columns = [
        (column.name, privileges if column.type == oids.ACLITEM_ARRAY else _reader(column.type))
        for column in relation.columns
    ]
    for value in values:
        values_in_order = []
        for name, read in columns:
            item = value.get(name)
            values_in_order.append(item if item is None or read is None else read(item))
        yield tuple(values_in_order)


# --- locks ------------------------------------------------------------------------------------------------------------


_EPOCH = 946_684_800  # 2000-01-01 in the seconds of time.time()


def locks(session: Session) -> Iterator[Values]:
    own = session.transaction.locks
    if not own.possible or not own.table.exists():
        return
    table = own.table
    table.remove_dead_holders(None)
    holders = table.holders()
    held = table.held()
    in_transaction = table.with_transaction()
    for holder in holders.values():
        if holder.prepared is None and holder.id in in_transaction:
            yield _lock(holder, "virtualxid", "ExclusiveLock", virtualxid=_virtual(holder), fastpath=True)
    for number, wanted in held:
        if wanted.kind is LockKind.RELATION and number in holders:
            fast = wanted.mode < RelationMode.SHARE_UPDATE_EXCLUSIVE and holders[number].prepared is None
            where = {"database": holders[number].database, "relation": wanted.object, "fastpath": fast}
            yield _lock(holders[number], "relation", MODE_NAMES[wanted.mode], **where)
        elif wanted.kind is LockKind.ADVISORY and number in holders:
            yield _lock(holders[number], "advisory", MODE_NAMES[wanted.mode], **AdvisoryKey.of(wanted)._asdict())
    for number in dict.fromkeys(number for number, wanted in held if wanted.kind is not LockKind.ADVISORY):
        if number in holders:
            yield _lock(holders[number], "transactionid", "ExclusiveLock", transactionid=holders[number].xid)
    for waiter in table.waiters():
        if waiter.holder in holders:
            yield from _waiting(table, waiter, holders)


def _waiting(table: LockTable, waiter: Waiter, holders: dict[int, Holder]) -> Iterator[Values]:
    wanted, holder = waiter.wanted, holders[waiter.holder]
    waits = {"granted": False, "waitstart": int((waiter.since - _EPOCH) * 1_000_000)}
    if wanted.kind is LockKind.ADVISORY:
        yield _lock(holder, "advisory", MODE_NAMES[wanted.mode], **AdvisoryKey.of(wanted)._asdict(), **waits)
        return
    where = {"database": holder.database, "relation": wanted.object}
    if wanted.kind is LockKind.RELATION:
        yield _lock(holder, "relation", MODE_NAMES[wanted.mode], **where, **waits)
        return
    if wanted.kind is LockKind.ROW:
        page, item = ctid(wanted.item)
        yield _lock(holder, "tuple", MODE_NAMES[TUPLE_MODES[wanted.mode]], **where, page=page, tuple=item)
    blocker = next((other for other, _ in table.blockers(waiter) if other in holders), None)
    if blocker is not None:
        yield _lock(holder, "transactionid", "ShareLock", transactionid=holders[blocker].xid, **waits)


def _virtual(holder: Holder) -> str:
    return f"{holder.id}/1"


def _lock(holder: Holder, locktype: str, mode: str, **more: Any) -> Values:
    common = {"virtualtransaction": _virtual(holder), "pid": holder.pid or None, "granted": True, "fastpath": False}
    return {**common, "locktype": locktype, "mode": mode, **more}


# --- activity ---------------------------------------------------------------------------------------------------------


_STATS = 3375  # pg_read_all_stats


def _settings(session: Session) -> Iterator[Values]:
    lines: dict[str, Values] = {}
    if has_privs_of_role(session, session.role, ROLE_READ_ALL_SETTINGS):
        lines = {
            line.name: {"sourcefile": session.catalog.name, "sourceline": line.line}
            for line in login.file_settings(session)
            if session.settings.source(line.name) == "configuration file"
        }
    for parameter in parameters.all_parameters():
        if not session.settings.may_examine(parameter.name):
            continue
        value = session.settings.value(parameter.name)
        reset = session.settings.reset_value(parameter.name)
        yield {
            "name": parameter.name, "setting": parameters.setting(parameter, value), "unit": parameter.unit,
            "category": parameter.category, "short_desc": parameter.short_desc,
            "context": parameter.context, "vartype": parameter.vartype,
            "source": session.settings.source(parameter.name), "min_val": _limit(parameter, parameter.minimum),
            "max_val": _limit(parameter, parameter.maximum),
            "enumvals": None if parameter.options is None else list(parameter.options),
            "boot_val": parameter.boot, "reset_val": parameters.raw(parameter, reset),
            "pending_restart": parameter.key in session.settings.pending_restart, **lines.get(parameter.name, {}),
        }  # fmt: skip


def _file_settings(session: Session) -> Iterator[Values]:
    for line in login.file_settings(session):
        yield {
            "sourcefile": session.catalog.name, "sourceline": line.line, "seqno": line.number, "name": line.name,
            "setting": line.text, "applied": line.error is None, "error": line.error,
        }  # fmt: skip


def _limit(parameter: Parameter, value: Value | None) -> str | None:
    return None if value is None else parameters.raw(parameter, value)


def _copies(session: Session) -> Iterator[Values]:
    """The copies of subscriptions' tables and those of users."""
    for row in activity.under_way(session):
        yield {**row._asdict(), "datname": database_name(session, row.datid)}


def _copies_in_pieces(session: Session) -> Iterator[Values]:
    """Those of large tables, whose interrupted copies go on."""
    for row in _copies(session):
        if row["pieces_total"]:
            yield row


def _sessions(session: Session) -> Iterator[Values]:
    """The sessions of the server; without one, this session only."""
    table = activity.table()
    if table is None:
        yield _shown(session, activity.shown(activity.entry_of(session)))
        return
    waited = {lock["pid"]: lock["locktype"] for lock in locks(session) if not lock["granted"]}
    for entry in table.entries():
        yield _shown(session, {**entry, **_wait(entry, waited)})


def _wait(entry: Mapping[str, Any], waited: Mapping[int, str]) -> Values:
    """What a session waits for: its client, or a lock."""
    if entry.get("state", "").startswith("idle"):
        return {"wait_event_type": "Client", "wait_event": "ClientRead"}
    kind = waited.get(entry["pid"])
    return {} if kind is None else {"wait_event_type": "Lock", "wait_event": kind}


def _shown(session: Session, entry: Mapping[str, Any]) -> Values:
    """An entry as its row. What a session runs is for its role and those that may read all statistics."""
    role, database = entry.get("usesysid"), entry.get("datid")
    names = {
        "usename": None if role is None else role_display(session, role),
        "datname": None if database is None else database_name(session, database),
    }
    if (
        role is None
        or has_privs_of_role(session, session.role, role)
        or has_privs_of_role(session, session.role, _STATS)
    ):
        return {**entry, **names}
    known = {name: entry.get(name) for name in ("pid", "datid", "usesysid")}
    return {**known, **names, "query": "<insufficient privilege>"}


def _prepared(session: Session) -> Iterator[Values]:
    from pgrepl.lake import prepared

    for transaction in prepared.every(session):
        yield {
            "transaction": transaction.xid, "gid": transaction.gid, "prepared": transaction.prepared_at,
            "owner": role_display(session, transaction.owner), "database": database_name(session, transaction.database),
        }  # fmt: skip


def _prepared_statements(session: Session) -> Iterator[Values]:
    for statement in session.prepared.values():
        generic, custom = statement.plans
        columns = (
            None
            if statement.columns is None
            else array_of(oids.REGTYPE, [int(column.type) for column in statement.columns])
        )
        yield {
            "name": statement.name, "statement": statement.text, "prepare_time": statement.prepared_at,
            "parameter_types": array_of(oids.REGTYPE, list(statement.types)),
            "result_types": columns, "from_sql": statement.from_sql, "generic_plans": generic, "custom_plans": custom,
        }  # fmt: skip


def _cursors(session: Session) -> Iterator[Values]:
    for portal in session.transaction.portals.values():
        said = portal.declared
        yield {
            "name": portal.name, "statement": said.text, "is_holdable": said.holds, "is_binary": said.binary,
            "is_scrollable": portal.scrolls, "creation_time": portal.created_at,
        }  # fmt: skip


def _nothing(session: Session) -> Iterable[Values]:
    """No rows: pgrepl has nothing of the kind."""
    return ()


# --- statistics -------------------------------------------------------------------------------------------------------


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
    for rel in session.system_relations():
        if rel.kind == "r" and wanted(rel.schema):
            yield _Named(rel.oid, rel.schema, rel.name)
    schemas = _schemas(session)
    for row in rows(session, pg_class, datid=session.database_oid, relkind=("r", "m", "p")):
        if wanted(schemas[row.relnamespace]):
            table_id = row.table_id if row.relkind in "rm" else None
            yield _Named(row.oid, schemas[row.relnamespace], row.relname, table_id)


def _schemas(session: Session) -> dict[int, str]:
    names = {CATALOG_NAMESPACE: "pg_catalog", INFORMATION_SCHEMA: "information_schema", TOAST_NAMESPACE: "pg_toast"}
    names.update({row.oid: row.nspname for row in rows(session, pg_namespace, datid=session.database_oid)})
    return names


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
            return sum(values.get(counter, 0) for values in relations for counter in names)

        yield {
            "datid": oid, "datname": name, "numbackends": None if name is None else int(oid == session.database_oid),
            **{counter: known.get(counter, 0) for counter in _DATABASE_COUNTERS},
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
    "pg_settings": _settings,
    "pg_file_settings": _file_settings,
    "pg_stat_progress_copy": _copies,
    "pgrepl_stat_progress_copy": _copies_in_pieces,
    "pg_locks": locks,
    "pg_stat_activity": _sessions,
    "pg_prepared_xacts": _prepared,
    "pg_prepared_statements": _prepared_statements,
    "pg_cursors": _cursors,
    **dict.fromkeys(
        (
            "pg_policies", "pg_rules",
            "pg_seclabels", "pg_stats", "pg_stats_ext", "pg_stats_ext_exprs",
            "pg_stat_progress_analyze", "pg_stat_progress_vacuum", "pg_stat_progress_cluster",
            "pg_stat_progress_create_index", "pg_stat_progress_basebackup", "pg_stat_wal_receiver",
            "pg_stat_ssl", "pg_stat_gssapi", "pg_available_extensions", "pg_available_extension_versions",
            "pg_hba_file_rules", "pg_ident_file_mappings", "pg_stat_user_functions", "pg_aios",
        ),
        _nothing,
    ),
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
}  # fmt: skip
