"""VACUUM and ANALYZE.

VACUUM merges small files, leaves deleted rows out, moves inlined rows into files; then it expires snapshots that nobody
needs and removes what only they needed. FULL does so with every file. Statistics are always true: ANALYZE has nothing
to do but to say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from pgrepl.catalog import statistics, store
from pgrepl.catalog.acl import has_table_privilege, is_owner
from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.lock_modes import Kind, RelationMode, conflicts
from pgrepl.catalog.lock_table import Wanted
from pgrepl.catalog.recovery import refuse_in_recovery
from pgrepl.catalog.relation import Relation, find_relation, relation
from pgrepl.catalog.tables import pg_class, pg_database
from pgrepl.catalog.transaction import LockNeeded, require_no_block
from pgrepl.commands.base import Result, execute
from pgrepl.commands.options import get_boolean, get_int32
from pgrepl.errors import PgError
from pgrepl.lake.commit import Stale
from pgrepl.sql.nodes import VacuumStmt

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.sql.nodes.utility import DefElem

_SWITCHES = {
    "analyze", "freeze", "full", "disable_page_skipping", "process_main", "process_toast", "truncate",
    "skip_database_stats", "only_database_stats",
}  # fmt: skip
_TRIES = 5


@dataclass
class _Options:
    is_vacuum: bool
    verbose: bool = False
    analyze: bool = False
    full: bool = False
    only_statistics: bool = False


@execute.register(VacuumStmt)
def vacuum(stmt: VacuumStmt, session: Session) -> Result:
    options = _read(stmt)
    tag = "VACUUM" if stmt.is_vacuum else "ANALYZE"
    refuse_in_recovery(session, tag)
    if not options.analyze and any(columns for _, columns in stmt.relations):
        raise PgError("0A000", "ANALYZE option must be specified when a column list is provided")
    if stmt.is_vacuum:
        require_no_block(session, "VACUUM")
    if options.only_statistics:
        return Result(tag)
    found = list(_tables(session, stmt, options))
    if options.is_vacuum:
        _rearrange(session, found, options)
    for table in found:
        _count(session, table, options)
    return Result(tag)


def _count(session: Session, table: Relation, options: _Options) -> None:
    database, oid = session.database_oid, str(table.oid)
    counters = statistics.counters(session.catalog)
    known = counters.read(statistics.RELATION).get((database, oid), {})
    if options.is_vacuum:
        since = -known.get("n_ins_since_vacuum", 0)
        changes = {"vacuum_count": 1, "last_vacuum": statistics.now(), "n_ins_since_vacuum": since}
        counters.add(statistics.RELATION, database, oid, changes)
    if options.analyze:
        since = -known.get("n_mod_since_analyze", 0)
        changes = {"analyze_count": 1, "last_analyze": statistics.now(), "n_mod_since_analyze": since}
        counters.add(statistics.RELATION, database, oid, changes)


def _read(stmt: VacuumStmt) -> _Options:
    options = _Options(stmt.is_vacuum, analyze=not stmt.is_vacuum)
    kind = "VACUUM" if stmt.is_vacuum else "ANALYZE"
    for option in stmt.options:
        if option.name == "verbose":
            options.verbose = get_boolean(option)
        elif option.name in ("skip_locked", "buffer_usage_limit"):
            continue
        elif stmt.is_vacuum and option.name == "parallel":
            _check_parallel(option)
        elif stmt.is_vacuum and option.name == "index_cleanup":
            if str(option.value).lower() != "auto":
                get_boolean(option)
        elif stmt.is_vacuum and option.name in _SWITCHES:
            value = get_boolean(option)
            if option.name in ("analyze", "full"):
                setattr(options, option.name, value)
            elif option.name == "only_database_stats":
                options.only_statistics = value
        else:
            raise PgError("42601", f'unrecognized {kind} option "{option.name}"', location=option.location)
    return options


def _check_parallel(option: DefElem) -> None:
    if option.value is None:
        raise PgError("42601", "parallel option requires a value between 0 and 1024", location=option.location)
    if not 0 <= get_int32(option) <= 1024:
        raise PgError("42601", "parallel workers for vacuum must be between 0 and 1024", location=option.location)


# --- which tables -----------------------------------------------------------------------------------------------------


def _tables(session: Session, stmt: VacuumStmt, options: _Options) -> Iterator[Relation]:
    """The tables that hold rows, those named or all of the database; the others are skipped with a warning."""
    if not stmt.relations:
        for row in store.rows(session, pg_class, datid=session.database.oid, relkind="r"):
            found = relation(session, row.oid)
            if found.persistence != "t" and _may(session, found):
                yield found
        return
    seen: set[int] = set()
    for name, _ in stmt.relations:
        found = find_relation(session, replace(name, location=-1))  # its error shows no place
        if not _may(session, found):
            word = "vacuum" if options.is_vacuum else "analyze"
            session.notice("WARNING", f'permission denied to {word} "{found.name}", skipping it')
            continue
        if found.kind not in "rp":
            what = "vacuum non-tables or special system tables" if options.is_vacuum else None
            what = what or "analyze non-tables or special system tables"
            session.notice("WARNING", f'skipping "{found.name}" --- cannot {what}')
            continue
        for oid in inheritors(session, found.oid) if found.kind == "p" else [found.oid]:
            leaf = relation(session, oid)
            if leaf.kind == "r" and not leaf.is_system and oid not in seen:
                seen.add(oid)
                yield leaf


def _may(session: Session, found: Relation) -> bool:
    """As vacuum_is_permitted_for_relation: the database's owner, or who has MAINTAIN, as the table's owner does."""
    database = store.one(session, pg_database, oid=session.database.oid)
    if database is not None and is_owner(session, database.datdba):
        return True
    return has_table_privilege(session, found, "MAINTAIN") or is_owner(session, found.owner)


# --- the work ---------------------------------------------------------------------------------------------------------


def _rearrange(session: Session, tables: Sequence[Relation], options: _Options) -> None:
    """Each table in transactions of its own: the write lock is held for the moment of the commit only."""
    from pgrepl.lake.expire import expire, remove_files

    transaction = session.transaction
    for table in tables:
        _compact(session, table, options)
        transaction.end_statement()
        transaction.begin_statement()
    transaction.require_write()
    keep = timedelta(seconds=int(session.settings.value("pgrepl.keep_snapshots")))
    gone = expire(session, keep)
    transaction.end_statement()
    session.link.flush()  # before files go that nothing refers to any more, whoever wrote that
    transaction.begin_statement(writes=True)
    removed = remove_files(session, timedelta(seconds=int(session.settings.value("pgrepl.file_grace"))))
    if options.verbose:
        session.notice("INFO", f"expired {gone.snapshots} snapshots, removed {removed} files")


def _is_written(session: Session, table: Relation, options: _Options) -> bool:
    """Rows of a table to which others write stay where they are; FULL waits."""
    mode = RelationMode.ACCESS_EXCLUSIVE if options.full else RelationMode.SHARE
    locks = session.transaction.locks
    if not locks.are_held_by_others(Kind.RELATION, [table.oid], conflicts(Kind.RELATION, mode)):
        return False
    if options.full:
        raise LockNeeded(Wanted(Kind.RELATION, table.oid, 0, mode))
    session.transaction.release_write()
    return True


def _compact(session: Session, table: Relation, options: _Options) -> None:
    from pgrepl.lake import compact

    for attempt in range(_TRIES):
        if attempt == _TRIES - 1:
            session.transaction.require_write()
        staged = compact.stage(session, table.oid, full=options.full)
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
        if options.verbose:
            session.notice(
                "INFO",
                f'vacuumed "{table.qualified_name}": {len(staged.plan.files)} files and {len(staged.plan.inlined)} '
                f"inlined rows became {len(staged.files)} files",
            )
        return
