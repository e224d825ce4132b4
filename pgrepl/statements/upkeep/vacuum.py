"""VACUUM and ANALYZE; retention of histories.

VACUUM merges small files, leaves deleted rows out, moves inlined rows into files; then it expires snapshots that are
not needed and removes files that only they used. FULL rewrites every file. Statistics are always exact: ANALYZE only
counts itself in pg_stat_all_tables.

What ended longer ago than pgrepl.history_retention leaves a log (catalog/facts/history.py). Versions that are still
valid, or were within that time, are kept, however old. What is left begins the history anew: the update that brought
such a version becomes a copy, as what it replaced is gone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import history
from pgrepl.catalog.facts.acl import has_table_privilege, is_owner
from pgrepl.catalog.facts.history import COPY, OLD, is_log
from pgrepl.catalog.facts.relation import Relation, find_relation, relation
from pgrepl.catalog.facts.relation_parts import inheritors
from pgrepl.catalog.locks.lock_table import LockKind, LockRequest, RelationMode, conflicts
from pgrepl.catalog.session import parameters, statistics
from pgrepl.catalog.session.context import refuse_in_recovery
from pgrepl.catalog.session.parameters import parse
from pgrepl.catalog.session.transaction import LockNeeded, require_no_block
from pgrepl.catalog.store import store
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.tables import pg_class, pg_database
from pgrepl.ground.errors import PgError
from pgrepl.lake import compact
from pgrepl.lake.commit import Stale
from pgrepl.lake.expire import expire, remove_files
from pgrepl.query.result import Result
from pgrepl.replication.publisher.slots import invalidate_idle
from pgrepl.replication.wire.pgoutput import now
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified
from pgrepl.sql.location import get_boolean, get_int32, get_string, refuse_newer
from pgrepl.sql.nodes import VacuumStmt
from pgrepl.types import oids
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.sql.nodes.utility import DefElem


_SWITCHES = (
    "analyze", "freeze", "full", "disable_page_skipping", "process_main", "process_toast", "truncate",
    "skip_database_stats", "only_database_stats",
)  # fmt: skip
_ALONE = {"verbose", "process_main", "process_toast", "only_database_stats"}  # options that go with only_database_stats
_TRIES = 5


@dataclass
class _Options:
    is_vacuum: bool
    switches: dict[str, bool] = field(default_factory=dict)
    workers: int = 0
    buffers: bool = False  # BUFFER_USAGE_LIMIT was given

    def has(self, name: str) -> bool:
        return self.switches.get(name, name.startswith("process_"))


def vacuum(stmt: VacuumStmt, session: Session) -> Result:
    if session.settings.release < 18:
        refuse_newer(session.query, stmt.newer)
    options = _read(stmt)
    tag = "VACUUM" if stmt.is_vacuum else "ANALYZE"
    refuse_in_recovery(session, tag)
    _check(stmt, options)
    if stmt.is_vacuum:
        require_no_block(session, "VACUUM")
    _check_full(stmt, options)
    if options.has("only_database_stats"):
        return Result(tag)
    vacuumed = list(_tables(session, stmt, options))
    if session.catalog.is_rehearsal:
        return Result(tag)
    elapsed = _rearrange(session, vacuumed, options) if stmt.is_vacuum and options.has("process_main") else {}
    for table in vacuumed:
        if stmt.is_vacuum:
            count(session, table.oid, "vacuum", "n_ins_since_vacuum", elapsed.get(table.oid, 0.0))
        if options.has("analyze"):
            count(session, table.oid, "analyze", "n_mod_since_analyze")
    return Result(tag)


def count(session: Session, oid: int, done: str, since: str, elapsed: float = 0.0) -> None:
    """Count a vacuum or analyze of a table in pg_stat_all_tables with the seconds it took, and set the count of rows
    `since` then to 0."""
    database = session.database_oid
    counters = statistics.counters(session.catalog)
    known = counters.read(statistics.RELATION).get((database, str(oid)), {})
    changes = {f"{done}_count": 1, f"last_{done}": statistics.now(), since: -known.get(since, 0)}
    changes[f"{done}_usecs"] = int(elapsed * 1_000_000)
    counters.add(statistics.RELATION, database, str(oid), changes)


def _read(stmt: VacuumStmt) -> _Options:
    options = _Options(stmt.is_vacuum, {"analyze": not stmt.is_vacuum})
    kind = "VACUUM" if stmt.is_vacuum else "ANALYZE"
    for option in stmt.options:
        if option.name in ("verbose", "skip_locked") or (stmt.is_vacuum and option.name in _SWITCHES):
            options.switches[option.name] = get_boolean(option)
        elif option.name == "buffer_usage_limit":
            _check_buffers(get_string(option))
            options.buffers = True
        elif stmt.is_vacuum and option.name == "parallel":
            options.workers = _workers(option)
        elif stmt.is_vacuum and option.name == "index_cleanup":
            if str(option.value).lower() != "auto":
                get_boolean(option)
        else:
            raise PgError("42601", f'unrecognized {kind} option "{option.name}"', location=option.location)
    return options


def _workers(option: DefElem) -> int:
    if option.value is None:
        raise PgError("42601", "parallel option requires a value between 0 and 1024", location=option.location)
    wanted = get_int32(option)
    if not 0 <= wanted <= 1024:
        raise PgError("42601", "parallel workers for vacuum must be between 0 and 1024", location=option.location)
    return wanted


def _check_buffers(text: str) -> None:
    parameter = parameters.find("vacuum_buffer_usage_limit")
    assert parameter is not None
    hint = None
    try:
        value = int(parse(parameter, text))
    except PgError as problem:
        value, hint = -1, problem.report.hint
    if value and not 128 <= value <= 16777216:
        raise PgError("22023", "BUFFER_USAGE_LIMIT option must be 0 or between 128 kB and 16777216 kB", hint=hint)


def _check(stmt: VacuumStmt, options: _Options) -> None:
    """Raises for options of VACUUM that do not fit together (ExecVacuum)."""
    if options.has("full") and options.workers:
        raise PgError("0A000", "VACUUM FULL cannot be performed in parallel")
    if options.buffers and options.has("full") and not options.has("analyze"):
        raise PgError("0A000", "BUFFER_USAGE_LIMIT cannot be specified for VACUUM FULL")
    if not options.has("analyze") and any(columns for _, columns in stmt.relations):
        raise PgError("0A000", "ANALYZE option must be specified when a column list is provided")


def _check_full(stmt: VacuumStmt, options: _Options) -> None:
    """Refuse options that exclude each other, of FULL and of ONLY_DATABASE_STATS (vacuum)."""
    if options.has("full") and options.has("disable_page_skipping"):
        raise PgError("0A000", "VACUUM option DISABLE_PAGE_SKIPPING cannot be used with FULL")
    if options.has("full") and not options.has("process_toast"):
        raise PgError("0A000", "PROCESS_TOAST required with VACUUM FULL")
    if options.has("only_database_stats"):
        if stmt.relations:
            raise PgError("0A000", "ONLY_DATABASE_STATS cannot be specified with a list of tables")
        if any(given and name not in _ALONE for name, given in options.switches.items()):
            raise PgError("0A000", "ONLY_DATABASE_STATS cannot be specified with other VACUUM options")


# --- which tables -----------------------------------------------------------------------------------------------------


def _tables(session: Session, stmt: VacuumStmt, options: _Options) -> Iterator[Relation]:
    """The tables that hold rows, those named or all of the database; the others are skipped with a warning."""
    if not stmt.relations:
        for row in store.rows(session, pg_class, datid=session.database_oid, relkind=("r", "m")):
            rel = relation(session, row.oid)
            if rel.persistence != "t" and _may(session, rel):
                yield rel
        return
    seen: set[int] = set()
    for name, columns in stmt.relations:
        rel = find_relation(session, replace(name, location=-1))  # its error shows no place
        if not _may(session, rel):
            word = "vacuum" if options.is_vacuum else "analyze"
            session.notice("WARNING", f'permission denied to {word} "{rel.name}", skipping it')
            continue
        if rel.kind not in "rpm":
            what = "vacuum non-tables or special system tables" if options.is_vacuum else None
            what = what or "analyze non-tables or special system tables"
            session.notice("WARNING", f'skipping "{rel.name}" --- cannot {what}')
            continue
        _check_columns(rel, columns)
        if rel.kind == "p" and not name.inh and options.is_vacuum:
            session.notice("WARNING", f'VACUUM ONLY of partitioned table "{rel.name}" has no effect')
        goes_down = name.inh and (rel.kind == "p" or session.settings.release >= 18)
        for oid in inheritors(session, rel.oid) if goes_down else [rel.oid]:
            leaf = relation(session, oid)
            if leaf.kind in "rm" and not leaf.is_system and oid not in seen:
                seen.add(oid)
                yield leaf


def _check_columns(rel: Relation, columns: Sequence[str]) -> None:
    """Raises for columns of ANALYZE that do not exist (do_analyze_rel)."""
    for place, name in enumerate(columns):
        if rel.attribute(name) is None:
            raise PgError("42703", f'column "{name}" of relation "{rel.name}" does not exist')
        if name in columns[:place]:
            raise PgError("42701", f'column "{name}" of relation "{rel.name}" appears more than once')


def _may(session: Session, rel: Relation) -> bool:
    """As vacuum_is_permitted_for_relation: the owner of the database or the table, or a role with MAINTAIN."""
    database = store.one(session, pg_database, oid=session.database_oid)
    if database is not None and is_owner(session, database.datdba):
        return True
    return has_table_privilege(session, rel, "MAINTAIN") or is_owner(session, rel.owner)


# --- the work ---------------------------------------------------------------------------------------------------------


def _rearrange(session: Session, tables: Sequence[Relation], options: _Options) -> dict[int, float]:
    """Compact each table in transactions of its own, so that the write lock is held for commits only; then expire
    snapshots and remove files. Returns the seconds for each table."""
    transaction = session.transaction
    elapsed = {}
    for table in tables:
        began = time.monotonic()
        for work in (_trim, _compact, _fold_deletes):
            work(session, table, options)
            transaction.end_statement()
            transaction.begin_statement()
        elapsed[table.oid] = time.monotonic() - began
    transaction.require_write()
    keep = timedelta(seconds=int(session.settings.value("pgrepl.keep_snapshots")))
    invalidate_idle(session)
    gone = expire(session, keep)
    transaction.end_statement()
    session.link.flush()  # the catalog must be on disk before files go that it no longer refers to
    transaction.begin_statement(writes=True)
    removed = remove_files(session, timedelta(seconds=int(session.settings.value("pgrepl.file_grace"))))
    if find_spec("pgrepl.iceberg") is not None:  # the room may be left out
        from pgrepl.iceberg.manifests import remove_dropped

        remove_dropped(session)
    if options.has("verbose"):
        session.notice("INFO", f"expired {gone.snapshots} snapshots, removed {removed} files")
    return elapsed


def is_locked(session: Session, oid: int, mode: RelationMode) -> bool:
    """Whether another transaction holds a lock on the table that conflicts with this mode."""
    locks = session.transaction.locks
    return locks.are_held_by_others(LockKind.RELATION, [oid], conflicts(LockKind.RELATION, mode))


def _is_written(session: Session, table: Relation, options: _Options) -> bool:
    """Whether other transactions write to the table, so that it is not compacted. FULL waits for them."""
    mode = RelationMode.ACCESS_EXCLUSIVE if options.has("full") else RelationMode.SHARE
    if not is_locked(session, table.oid, mode):
        return False
    if options.has("full") and options.has("skip_locked"):
        text = f'skipping vacuum of "{table.name}" --- lock not available'
        session.notice("WARNING", text, sqlstate="55P03")
    elif options.has("full"):
        raise LockNeeded(LockRequest(LockKind.RELATION, table.oid, 0, mode))
    session.transaction.release_write()
    return True


def _trim(session: Session, table: Relation, options: _Options) -> None:
    """Remove what a history no longer keeps, unless another transaction writes to it."""
    if is_log(table) and not is_locked(session, table.oid, RelationMode.SHARE):
        trim(session, table)


def _compact(session: Session, table: Relation, options: _Options) -> None:
    for attempt in range(_TRIES):
        if attempt == _TRIES - 1:
            session.transaction.require_write()
        staged = compact.stage(session, table.oid, full=options.has("full"))
        if staged is None:
            return
        session.transaction.require_write()
        if _is_written(session, table, options):
            return
        try:
            compact.commit(session, staged)
        except Stale:
            session.transaction.fail_statement()
            session.transaction.begin_statement()
            continue
        if options.has("verbose"):
            session.notice(
                "INFO",
                f'vacuumed "{table.qualified_name}": {len(staged.plan.files)} files and {len(staged.plan.inlined)} '
                f"inlined rows became {len(staged.files)} files",
            )
        return


def _fold_deletes(session: Session, table: Relation, options: _Options) -> None:
    staged = compact.stage_folded(session, table.oid, rewrites=True)
    if staged is not None:
        session.transaction.require_write()
        if not _is_written(session, table, options):
            compact.commit_folded(session, staged)


def logs(session: Session) -> Iterator[Relation]:
    """The logs of the database whose tables are there."""
    for row in rows(session, pg_class, datid=session.database_oid, relkind="r"):
        if "_history" in row.relname:
            rel = relation(session, row.oid)
            if history.is_log(rel) and history.table_of(session, rel) is not None:
                yield rel


def trim(session: Session, log: Relation) -> None:
    """Remove what is older than the retention; holding the write lock."""
    seconds = int(session.settings.value("pgrepl.history_retention"))
    table = history.table_of(session, log) if history.is_log(log) else None
    if not seconds or table is None:
        return
    session.transaction.require_write()
    since = quote_literal(write_text(now() - seconds * 1_000_000, oids.TIMESTAMPTZ, session.text_style))
    name = quote_qualified(log.schema, log.name)
    keys, _ = history.key_names(session, table)
    forgotten = ", ".join(f"{quote_identifier(OLD + key)} = NULL" for key in keys)
    ended = history.versions_sql(session, table, log, places=True)
    statements = [
        f"DELETE FROM {name} WHERE committed_at < {since} AND (operation IN ('delete', 'truncate')"
        f" OR (lsn, change) IN (SELECT lsn, change FROM ({ended}) AS v WHERE valid_to < {since}))",
        f"UPDATE {name} SET operation = '{COPY}', {forgotten} WHERE committed_at < {since} AND operation = 'update'",
    ]
    with session.acting_as(log.owner):
        session.define(statements)
