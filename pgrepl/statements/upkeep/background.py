"""Work of an instance that a follower does beside its own, in a thread: the export of Iceberg tables
(pgrepl.iceberg_export), and autovacuum.

Its sessions are those of the bootstrap superuser with the settings of each database.

Autovacuum is VACUUM of the tables that need it, database after database within autovacuum_naptime (autovacuum.c). A
table needs a vacuum by PostgreSQL's formulas, and a partial one by rules of the lake: many small files
(lake/compact.py), many rows or deleted positions in the catalog. No file is opened to find that out. It takes
the write lock only for commits, and adapts to others' changes; where another session holds a lock the table waits for
the next look. Then snapshots expire, and files that nothing refers to are removed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from pgrepl.catalog.facts.relation import Relation, relation, relation_or_none
from pgrepl.catalog.facts.roles import databases
from pgrepl.catalog.facts.subscription import subscription_by_name, subscription_relations
from pgrepl.catalog.locks.lock_table import RelationMode
from pgrepl.catalog.session import login, statistics
from pgrepl.catalog.session.context import in_recovery
from pgrepl.catalog.session.login import apply_stored_settings
from pgrepl.catalog.session.parameters import split_identifiers
from pgrepl.catalog.session.transaction import reading, statement
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.interrupts import JoinedThread
from pgrepl.lake import compact
from pgrepl.lake.commit import Stale
from pgrepl.lake.expire import expire, remove_files, remove_scheduled
from pgrepl.lake.read.extent import RowCounts, file_sizes, row_counts
from pgrepl.replication.log import LogOf, ServerLog
from pgrepl.replication.publisher.slots import invalidate_idle
from pgrepl.sql.keywords import quote_qualified
from pgrepl.statements.table.storage import read_option
from pgrepl.statements.upkeep.vacuum import count, is_locked, logs, trim

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.ground.errors import Report

T = TypeVar("T")
LOCKED = "55P03"
_LOCK_PATIENCE = "1s"  # that a commit waits for the catalog's lock
_PATIENCE = 2.0  # seconds for the thread to end


class Background:
    """What is done. It ends once `is_over` returns true, and logs its work."""

    name = ""  # in the log

    def __init__(self, session: Session, log: ServerLog, is_over: Callable[[], bool] = lambda: False) -> None:
        """`session` gives the catalog; the work is done in sessions of its own."""
        self._session = session
        self._log = log
        self._is_over = is_over
        self._running: Session | None = None

    def stop(self) -> None:
        """Stop waiting for locks. Called from another thread."""
        running = self._running
        if running is not None:
            running.link.give_up()

    def _with_session(self, database: int, work: Callable[[Session], T]) -> T | None:
        """Do some work in a session of its own. An error is logged; None is returned then."""
        session: Session | None = None
        try:
            session = self._running = self._session.elsewhere(database, BOOTSTRAP_SUPERUSER, apart=True)
            session.on_report = LogOf(self._log, session).report
            with reading(session):
                login.reload(session)
                apply_stored_settings(session, BOOTSTRAP_SUPERUSER, database)
            session.settings.set_default("lock_timeout", _LOCK_PATIENCE, complain=False)
            if session.settings.get("synchronous_commit") != "off":  # it waits for no standby (AutoVacWorkerMain)
                session.settings.set_default("synchronous_commit", "local", complain=False, source="override")
            return work(session)
        except PgError as error:
            if error.sqlstate != LOCKED and not self._is_over():
                self._log.error(error)
        except Exception as problem:  # a mistake in here must not end a follower
            self._log.error(PgError("XX000", f"{self.name} failed: {problem!r}"))
        finally:
            self._running = None
            if session is not None:
                session.close()
        return None


class BackgroundThread:
    """Its thread. After `stop` it begins nothing more, and work in progress is rolled back."""

    def __init__(self, work: Background, over: threading.Event, thread: JoinedThread) -> None:
        self.over = over
        self._work = work
        self._thread = thread

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.over.set()
        self._work.stop()
        self._thread.join(_PATIENCE)


# --- iceberg export ---------------------------------------------------------------------------------------------------


_SETTING = "pgrepl.iceberg_export"
_USUAL = 10.0  # seconds between two looks, if the setting could not be read
_FIRST = 1.0  # seconds until the first look: a follower has other things to do when it starts


class IcebergExport(Background):
    name = "export of Iceberg tables"

    def __init__(self, session: Session, log: ServerLog, is_over: Callable[[], bool] = lambda: False) -> None:
        super().__init__(session, log, is_over)
        self._said: dict[int, list[Report]] = {}  # errors of the last look at a database

    def look(self) -> float:
        """Export what has changed; the seconds until the next look."""
        naptime, databases = self._with_session(self._session.database_oid, _wanted) or (_USUAL, [])
        for oid in databases:
            if not self._is_over():
                self._with_session(oid, self._export)
        return naptime

    def _export(self, session: Session) -> None:
        from pgrepl.iceberg.export import export_tables

        try:
            names = _tables_of(session)
            errors = [] if names == [] else export_tables(session, names or (), None, lambda *_: None)
        except PgError as problem:
            errors = [problem]
        for error in errors:
            if error.report not in self._said.get(session.database_oid, ()):
                self._log.error(error)
        self._said[session.database_oid] = [error.report for error in errors]


def _wanted(session: Session) -> tuple[float, list[int]]:
    """The naptime, and the databases that are to be exported."""
    naptime = float(session.settings.value("pgrepl.iceberg_export_naptime"))
    with reading(session):
        if in_recovery(session):
            return naptime, []
        every = [row.oid for row in rows(session, tables.pg_database) if row.datallowconn and not row.datistemplate]
        return naptime, [oid for oid in every if _is_exported(session, oid)]


def _is_exported(session: Session, database: int) -> bool:
    there = session.elsewhere(database, BOOTSTRAP_SUPERUSER)
    apply_stored_settings(there, BOOTSTRAP_SUPERUSER, database)
    return there.settings.get(_SETTING) != "off"


def _tables_of(session: Session) -> list[str] | None:
    """The tables of the subscriptions that the setting names; None: all of the database."""
    wanted = session.settings.get(_SETTING)
    if wanted == "on":
        return None
    with reading(session):
        subs = [subscription_by_name(session, name).oid for name in split_identifiers(wanted) or ()]
        oids = dict.fromkeys(row.srrelid for sub in subs for row in subscription_relations(session, sub))
        members = [relation(session, oid) for oid in oids]
        return [quote_qualified(member.schema, member.name) for member in members]


class IcebergExporter(BackgroundThread):
    """Looks again and again. Several of them write the same."""

    def __init__(self, session: Session, log: ServerLog) -> None:
        over = threading.Event()
        self._exports = IcebergExport(session, log, over.is_set)
        super().__init__(self._exports, over, JoinedThread(self.run, "pgrepl-iceberg"))

    def run(self) -> None:
        naptime = _FIRST
        while not self.over.wait(naptime):
            naptime = self._exports.look()


_TRIES = 3
_SNAPSHOTS, _FILES = 1000, 100  # at most so many go in one transaction
_STRAYS = 3600.0  # seconds between two looks for files that nothing refers to


@frozen
class Thresholds:
    """The thresholds of a table: its storage parameters, and the settings where it has none."""

    enabled: bool
    dead: int
    dead_scale: float
    inserted: int  # -1: inserted rows do not count
    inserted_scale: float
    log_after: int  # milliseconds; -1: nothing is logged

    @classmethod
    def of(cls, session: Session, options: Sequence[str] | None) -> Thresholds:
        def real(name: str) -> float:
            given = read_option(options, name)
            value = session.settings.value(name) if given is None else given
            return float(value)

        return cls(
            read_option(options, "autovacuum_enabled") is not False,
            int(real("autovacuum_vacuum_threshold")),
            real("autovacuum_vacuum_scale_factor"),
            int(real("autovacuum_vacuum_insert_threshold")),
            real("autovacuum_vacuum_insert_scale_factor"),
            int(real("log_autovacuum_min_duration")),
        )

    def need(self, there: RowCounts, inserted: int, small: Sequence[int]) -> VacuumNeed | None:
        """As relation_needs_vacanalyze does, for `inserted` rows since the last vacuum and small files."""
        if not self.enabled:
            return None
        most_dead = self.dead + self.dead_scale * there.live
        most_inserted = self.inserted + self.inserted_scale * there.live
        counts = self.inserted >= 0
        grown = counts and inserted > most_inserted
        urgency = max(
            there.dead / max(most_dead, 1),
            inserted / max(most_inserted, 1) if counts else 0.0,
            there.inlined / max(self.inserted, 1) if counts else 0.0,
            there.positions / compact.POSITIONS,
            len(small) / compact.TIER_FILES if compact.tier(small) else 0.0,
        )
        if there.dead > most_dead or grown:
            return VacuumNeed(urgency, whole=True, grown=grown)
        inlined = (counts and there.inlined > self.inserted) or there.positions > compact.POSITIONS
        if inlined or compact.tier(small):
            return VacuumNeed(urgency, whole=False, grown=False)
        return None


@frozen
class VacuumNeed:
    """The vacuum that a table needs (relation_needs_vacanalyze)."""

    urgency: float
    whole: bool  # the whole work of VACUUM, not a partial one
    grown: bool  # for inserted rows: the table counts as vacuumed even if there was nothing to do


class Autovacuum(Background):
    name = "autovacuum"
    _strays_at: float | None = None  # when stray files were looked for last

    @cached_property
    def _trimmed(self) -> dict[int, float]:
        """When histories were trimmed, by OID."""
        return {}

    def look(self) -> None:
        """Vacuum the tables of every database, then clean the instance."""
        for oid in self.databases() or ():
            if self._is_over():
                return
            self.look_at(oid)
        self.clean()

    def databases(self) -> list[int] | None:
        """The databases to look at. None: autovacuum is off, or an error was logged."""

        def listed(session: Session) -> list[int] | None:
            with reading(session):
                return [row.oid for row in databases(session) if row.datallowconn] if _is_on(session) else None

        return self._with_session(self._session.database_oid, listed)

    def naptime(self) -> int | None:
        """autovacuum_naptime in seconds. None: an error was logged."""
        return self._with_session(
            self._session.database_oid, lambda session: int(session.settings.value("autovacuum_naptime"))
        )

    # --- a database -----------------------------------------------------------------------------------------------

    def look_at(self, database: int) -> None:
        def work(session: Session) -> None:
            self._trim(session)
            for oid, need in _needy(session):
                if self._is_over():
                    return
                self._vacuum(session, oid, need)

        self._with_session(database, work)

    def _trim(self, session: Session) -> None:
        """Remove what histories no longer keep; of each at most once in a twentieth of the time that it is kept."""
        with reading(session):
            seconds = int(session.settings.value("pgrepl.history_retention"))
            oids = [log.oid for log in logs(session)] if seconds else []
        for oid in oids:
            now = time.monotonic()
            if self._is_over() or now - self._trimmed.get(oid, -seconds) < seconds / 20:
                continue
            self._trimmed[oid] = now
            with statement(session, writes=True):
                if not is_locked(session, oid, RelationMode.SHARE):
                    trim(session, relation(session, oid))

    def _vacuum(self, session: Session, oid: int, need: VacuumNeed) -> None:
        began, used = time.monotonic(), time.thread_time()
        with reading(session):
            table = relation_or_none(session, oid)
            if table is None:
                return
            thresholds = Thresholds.of(session, table.options)
            named = f"{session.database.name}.{table.qualified_name}"
        folded = 0
        try:
            done = next(
                (attempt for attempt in (self._try(session, table, need) for _ in range(_TRIES)) if attempt), None
            )
            folded = self._fold(session, table, rewrites=need.whole)
        except PgError as error:
            if error.sqlstate == LOCKED:
                return
            raise error.with_context(f'automatic vacuum of table "{named}"') from None
        staged = None if done is None else done.staged
        elapsed = time.monotonic() - began
        if staged is not None or folded or (done is not None and need.grown):
            count(session, oid, "autovacuum", "n_ins_since_vacuum", elapsed)
        if (staged is not None or folded) and 0 <= thresholds.log_after <= elapsed * 1000:
            self._log.log(_told(named, staged, folded, time.thread_time() - used, elapsed))

    def _try(self, session: Session, table: Relation, need: VacuumNeed) -> _Done | None:
        """Vacuum the table once. None: another session has changed it meanwhile, so that it can be tried again."""
        try:
            with statement(session):
                if need.whole:
                    staged = compact.stage(session, table.oid, full=False)
                else:
                    most = Thresholds.of(session, table.options).inserted
                    staged = compact.stage_tier(session, table.oid, inlined_rows=most if most >= 0 else None)
                if staged is not None:
                    self._take_lock(session, table)
                    compact.commit(session, staged)
            return _Done(staged)
        except Stale:
            return None

    def _take_lock(self, session: Session, table: Relation) -> None:
        """Take the catalog's write lock for the commit. A table that another session has locked is skipped."""
        session.transaction.require_write()
        if is_locked(session, table.oid, RelationMode.SHARE):
            raise PgError(LOCKED, f'skipping vacuum of "{table.name}" --- lock not available')

    def _fold(self, session: Session, table: Relation, *, rewrites: bool) -> int:
        """Write delete files for deleted positions in the catalog, and in old files; returns the number of files."""
        with statement(session):
            staged = compact.stage_folded(session, table.oid, rewrites=rewrites)
            if staged is None:
                return 0
            self._take_lock(session, table)
            return compact.commit_folded(session, staged)

    # --- the instance ---------------------------------------------------------------------------------------------

    def clean(self) -> None:
        """Remove snapshots that are not needed, and files that nothing refers to: some at a time, so that other
        sessions need not wait. All files are listed once an hour only."""
        self._with_session(self._session.database_oid, self._clean)

    def _clean(self, session: Session) -> None:
        with reading(session):
            if not _is_on(session):
                return
            keep = timedelta(seconds=int(session.settings.value("pgrepl.keep_snapshots")))
            grace = timedelta(seconds=int(session.settings.value("pgrepl.file_grace")))
        if session.settings.value("idle_replication_slot_timeout"):
            with statement(session, writes=True):
                invalidate_idle(session)
        self._some_at_a_time(session, _SNAPSHOTS, lambda: expire(session, keep, _SNAPSHOTS).snapshots)
        session.link.flush()  # the catalog must be on disk before files go that it no longer refers to
        self._some_at_a_time(session, _FILES, lambda: remove_scheduled(session, grace, _FILES))
        now = time.monotonic()
        if not self._is_over() and (self._strays_at is None or now - self._strays_at >= _STRAYS):
            self._strays_at = now
            with statement(session, writes=True):
                remove_files(session, grace)

    def _some_at_a_time(self, session: Session, most: int, work: Callable[[], int]) -> None:
        done = most
        while done >= most and not self._is_over():
            with statement(session, writes=True):
                done = work()


@frozen
class _Done:
    staged: compact.StagedCompaction | None  # None: there was nothing to do


def _needy(session: Session) -> list[tuple[int, VacuumNeed]]:
    """The tables of a database that need a vacuum, by OID, the neediest first."""
    counted = statistics.counters(session.catalog).read(statistics.RELATION)
    needy = []
    with reading(session):
        counts, sizes = row_counts(session), file_sizes(session, compact.SMALL_BYTES)
        for row in rows(session, tables.pg_class, datid=session.database_oid, relkind=("r", "m")):
            if row.relpersistence == "t" or row.table_id is None:
                continue
            since = counted.get((session.database_oid, str(row.oid)), {}).get("n_ins_since_vacuum", 0)
            there = counts.get(row.table_id, RowCounts())
            need = Thresholds.of(session, row.reloptions).need(there, since, sizes.get(row.table_id, ()))
            if need is not None:
                needy.append((row.oid, need))
    return sorted(needy, key=lambda entry: -entry[1].urgency)


def _is_on(session: Session) -> bool:
    return bool(session.settings.value("autovacuum")) and not in_recovery(session)


def _told(named: str, staged: compact.StagedCompaction | None, folded: int, used: float, elapsed: float) -> str:
    """As heap_vacuum_rel logs it, of files instead of pages."""
    files = () if staged is None else staged.plan.files
    moved = 0 if staged is None else len(staged.plan.inlined)
    written = () if staged is None else staged.files
    kept = sum(file.record_count for file in written)
    removed = sum(file.record_count for file in files) + moved - kept
    return (
        f'automatic vacuum of table "{named}": index scans: 0\n'
        f"files: {len(files)} removed, {len(written)} written, {folded} delete files written\n"
        f"tuples: {removed} removed, {kept} remain, {moved} moved from the catalog\n"
        f"system usage: CPU: {used:.2f} s, elapsed: {elapsed:.2f} s"
    )


class AutovacuumLauncher(BackgroundThread):
    """The launcher of an instance. A second one would only share its work."""

    def __init__(self, session: Session, log: ServerLog) -> None:
        over = threading.Event()
        self.autovacuum = Autovacuum(session, log, over.is_set)
        super().__init__(self.autovacuum, over, JoinedThread(self.run, "pgrepl-autovacuum"))

    def run(self) -> None:
        while not self.over.is_set():
            naptime = self.autovacuum.naptime() or 60.0
            listed = self.autovacuum.databases()
            if not listed:
                self.over.wait(naptime)
                continue
            for oid in listed:
                if self.over.wait(naptime / len(listed)):
                    return
                self.autovacuum.look_at(oid)
            self.autovacuum.clean()
