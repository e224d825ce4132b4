"""The numbers of a server in Prometheus' text format: of its processes, of the catalog, and of publishers.

Labels name databases, subscriptions, slots and kinds of work; never tables, roles, addresses or what a session runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pgrepl import __version__
from pgrepl.api.overview import slots
from pgrepl.catalog.facts import activity
from pgrepl.catalog.facts.roles import database_name
from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.statistics import DATABASE, ENGINE, RELATION, SUBSCRIPTION
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.engine import choice
from pgrepl.lake.read.extent import present_files, row_counts
from pgrepl.replication.conninfo import names_files
from pgrepl.replication.publisher.senders import LOST, Retained
from pgrepl.replication.subscriber import lease, state
from pgrepl.replication.subscriber.lease import CONFLICTS
from pgrepl.server.settings import RUNNING, ServerState

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.subscriber.status import Status

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
GAUGE, COUNTER = "gauge", "counter"


@dataclass
class Family:
    """A metric with its samples. The name of a counter ends in _total."""

    name: str
    help: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return COUNTER if self.name.endswith("_total") else GAUGE

    def add(self, value: float | None, **labels: str) -> None:
        """Add a sample; None: the value is not known."""
        if value is not None:
            self.samples.append((labels, value))


def text(families: Iterable[Family]) -> str:
    """The page. A family without samples is left out."""
    lines = []
    for family in families:
        if family.samples:
            lines.append(f"# HELP {family.name} {_escaped(family.help)}")
            lines.append(f"# TYPE {family.name} {family.kind}")
            lines += [f"{family.name}{_labels(labels)} {_number(value)}" for labels, value in family.samples]
    return "".join(line + "\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(value: str) -> str:
    return _escaped(value).replace('"', '\\"')


def _number(value: float) -> str:
    return repr(value) if isinstance(value, float) else str(int(value))


# --- collect ----------------------------------------------------------------------------------------------------------


STATES = ("active", "idle", "idle in transaction", "idle in transaction (aborted)")
TABLE_STATES = {"i": "initialize", "d": "data", "f": "finished copy", "s": "synchronized", "r": "ready"}


def of_processes(state: ServerState, started: float, max_connections: int) -> list[Family]:
    """The families that are known without the catalog."""
    up = Family("pgrepl_up", "Whether the server takes connections.")
    up.add(int(state.get() == RUNNING))
    build = Family("pgrepl_build_info", "The version of pgrepl.")
    build.add(1, version=__version__)
    start = Family("pgrepl_start_time_seconds", "When the server was started, in seconds since 1970.")
    start.add(round(started, 3))
    most = Family("pgrepl_connections_max", "Connections that the server takes (max_connections).")
    most.add(max_connections)
    sessions = Family("pgrepl_sessions", "Sessions of clients, by their state.")
    processes = Family("pgrepl_processes", "Processes of the server, by their kind.")
    table = activity.table()
    entries = [] if table is None else list(table.entries())
    states = Counter(_state(entry) for entry in entries if entry.get("backend_type") == "client backend")
    for name in STATES:
        sessions.add(states[name], state=name)
    for kind, count in sorted(Counter(str(entry.get("backend_type")) for entry in entries).items()):
        processes.add(count, backend_type=kind)
    return [up, build, start, most, sessions, processes]


def _state(entry: Mapping[str, Any]) -> str:
    return str(entry.get("state"))


def of_catalog(session: Session) -> list[Family]:
    with reading(session):
        return [*_slots(session), *_subscriptions(session), *_databases(session), *_lake(session)]


def _slots(session: Session) -> list[Family]:
    active = Family("pgrepl_replication_slot_active", "Whether a subscriber is connected to the slot.")
    lost = Family("pgrepl_replication_slot_lost", "Whether changes that the slot needs were removed.")
    behind = Family("pgrepl_replication_slot_lag_bytes", "Distance of the slot from the end of the log, as LSNs count.")
    changed = Family("pgrepl_replication_slot_lag_rows", "Rows changed in all tables since the slot's position, about.")
    seconds = Family(
        "pgrepl_replication_slot_lag_seconds", "Seconds since the first commit that the subscriber has not confirmed."
    )
    sent = Family("pgrepl_replication_slot_transactions_total", "Transactions decoded for the slot.")
    size = Family("pgrepl_replication_slot_bytes_total", "Bytes decoded for the slot.")
    snapshots = Family("pgrepl_replication_slot_retained_snapshots", "Snapshots that are kept for the slot.")
    files = Family("pgrepl_replication_slot_retained_bytes", "Bytes of files that only these snapshots have.")
    for slot in slots(session):
        names = {"slot_name": slot.name, "database": slot.database}
        active.add(int(slot.is_active), **names)
        lost.add(int(slot.is_lost), **names)
        behind.add(slot.behind, **names)
        changed.add(slot.changed, **names)
        seconds.add(slot.seconds, **names)
        sent.add(slot.transactions, **names)
        size.add(slot.sent, **names)
        snapshots.add(slot.snapshots, **names)
        files.add(slot.retained, **names)
    return [active, lost, behind, changed, seconds, sent, size, snapshots, files]


def _subscriptions(session: Session) -> list[Family]:
    from pgrepl.replication.publisher.files import memory

    enabled = Family("pgrepl_subscription_enabled", "Whether the subscription is enabled.")
    working = Family("pgrepl_subscription_worker_running", "Whether the subscription has an apply worker.")
    failing = Family("pgrepl_subscription_failing", "Whether the last attempt of a worker ended with an error.")
    in_state = Family("pgrepl_subscription_tables", "Tables of the subscription, by the state of their copies.")
    counters = {
        "batches": Family("pgrepl_subscription_batches_total", "Batches of transactions applied."),
        "transactions": Family("pgrepl_subscription_transactions_total", "Transactions applied."),
        "changes": Family("pgrepl_subscription_changes_total", "Changed rows received and applied."),
        "tables_copied": Family("pgrepl_subscription_tables_copied_total", "Initial copies of tables that have ended."),
        "rows_copied": Family("pgrepl_subscription_rows_copied_total", "Rows of initial copies that have ended."),
    }
    errors = Family("pgrepl_subscription_errors_total", "Errors of workers, as pg_stat_subscription_stats counts them.")
    conflicts = Family(
        "pgrepl_subscription_conflicts_total", "Conflicts, by the kinds of pg_stat_subscription_stats of PostgreSQL 18."
    )
    files = Family("pgrepl_subscription_files_total", "Files of changes that were begun.")
    rejected = Family("pgrepl_subscription_rejected_total", "Records of files that went to the file of rejects.")
    counted = statistics.counters(session.catalog).read(SUBSCRIPTION)
    stats = {row.subid: row for row in rows(session, tables.pg_stat_subscription_stats)}
    for row in sorted(rows(session, tables.pg_subscription), key=lambda row: row.oid):
        names = {"database": database_name(session, row.subdbid) or "", "subscription": row.subname}
        enabled.add(int(row.subenabled), **names)
        working.add(int(lease.holder(session, row.oid) is not None), **names)
        failing.add(int(bool(state.stored_errors(session, row.oid))), **names)
        states = Counter(current for current, _ in state.table_states(session, row.oid).values())
        for letter, name in TABLE_STATES.items():
            in_state.add(states[letter], **names, state=name)
        known = counted.get((row.subdbid, str(row.oid)), {})
        for name, family in counters.items():
            family.add(known.get(name, 0), **names)
        for kind in CONFLICTS:
            conflicts.add(known.get(f"confl_{kind}", 0), **names, type=kind)
        of_workers = stats.get(row.oid)
        if of_workers is not None:
            errors.add(int(of_workers.apply_error_count or 0), **names, worker="apply")
            errors.add(int(of_workers.sync_error_count or 0), **names, worker="table synchronization")
        if names_files(row.subconninfo):
            last = memory.remembered(session, row.oid).last
            files.add(0 if last is None else last.number, **names)
            rejected.add(memory.rejected(session, row.oid), **names)
    return [enabled, working, failing, in_state, *counters.values(), errors, conflicts, files, rejected]


_ROW_COUNTERS = {"inserted": "n_tup_ins", "updated": "n_tup_upd", "deleted": "n_tup_del"}
_VACUUM_COUNTERS = {"manual": "vacuum_count", "automatic": "autovacuum_count"}


def _databases(session: Session) -> list[Family]:
    ends = Family("pgrepl_transactions_total", "Transactions, by how they have ended.")
    changed = Family("pgrepl_rows_total", "Rows that statements have changed.")
    vacuums = Family("pgrepl_vacuums_total", "Tables that VACUUM has worked on.")
    work = Family("pgrepl_engine_calls_total", "Pieces of work, by the engine that did them (pgrepl_stat_engine).")
    read = statistics.counters(session.catalog).read
    of_databases, of_relations, of_engines = read(DATABASE), read(RELATION), read(ENGINE)
    for row in rows(session, tables.pg_database):
        known = of_databases.get((row.oid, str(row.oid)), {})
        for name, counter in (("commit", "xact_commit"), ("rollback", "xact_rollback")):
            ends.add(known.get(counter, 0), database=row.datname, outcome=name)
        here = [values for (database, _), values in of_relations.items() if database == row.oid]
        for name, counter in _ROW_COUNTERS.items():
            changed.add(_sum(here, counter), database=row.datname, operation=name)
        for name, counter in _VACUUM_COUNTERS.items():
            vacuums.add(_sum(here, counter), database=row.datname, kind=name)
        for (database, kind), calls in sorted(of_engines.items()):
            for counter, count in sorted(calls.items()) if database == row.oid else ():
                used, declined = choice.counted(counter)
                if declined is None:
                    work.add(count, database=row.datname, work=kind, engine=used)
    return [ends, changed, vacuums, work]


def _sum(counted: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(int(values.get(name, 0)) for values in counted)


def _lake(session: Session) -> list[Family]:
    files = Family("pgrepl_lake_files", "Files of tables as they are now.")
    size = Family("pgrepl_lake_file_bytes", "Bytes in files of tables as they are now.")
    kept_rows = Family("pgrepl_lake_rows", "Rows of all tables; dead ones are deleted and still in files.")
    snapshots = Family("pgrepl_lake_snapshots", "Snapshots that are kept.")
    present = present_files(session)
    for kind, (count, total) in (("data", present.data), ("delete", present.delete)):
        files.add(count, kind=kind)
        size.add(total, kind=kind)
    snapshots.add(present.snapshots)
    counts = row_counts(session).values()
    kept_rows.add(sum(table.live for table in counts), state="live")
    kept_rows.add(sum(table.dead for table in counts), state="dead")
    return [files, size, kept_rows, snapshots]


def of_publishers(statuses: Iterable[Status]) -> list[Family]:
    """The lag of subscriptions, for which their publishers were asked."""
    up = Family("pgrepl_publisher_up", "Whether the subscription's publisher answers and has its slot.")
    behind = Family(
        "pgrepl_subscription_lag_bytes", "Bytes of the publisher's log that are not applied, as LSNs count."
    )
    waiting = Family("pgrepl_subscription_lag_transactions", "Transactions that are not applied; unknown of a server.")
    changed = Family("pgrepl_subscription_lag_rows", "Changed rows that are not applied; unknown of a server.")
    seconds = Family(
        "pgrepl_subscription_lag_seconds",
        "Seconds since the first commit that is not applied; of a server and of files since nothing was missing.",
    )
    files = Family("pgrepl_subscription_lag_files", "Files of changes that are not read to their ends.")
    kept = _Retained()
    for status in statuses:
        names = {"database": status.database, "subscription": status.name}
        if status.slot:
            up.add(int(status.unreachable is None), **names)
        behind.add(status.behind, **names)
        waiting.add(None if status.backlog is None else status.backlog.transactions, **names)
        changed.add(None if status.backlog is None else status.backlog.changes, **names)
        seconds.add(None if status.seconds is None else round(status.seconds, 3), **names)
        files.add(None if status.lag is None else status.lag.files, **names)
        if status.retained is not None and status.retained.snapshots is None:
            kept.add(status.retained, len(status.dangers), names)
    return [up, behind, waiting, changed, seconds, files, *kept.families]


class _Retained:
    """The families of what servers retain for the slots of subscriptions."""

    def __init__(self) -> None:
        self._size = Family("pgrepl_publisher_wal_retained_bytes", "WAL that the server retains for the slot.")
        self._seconds = Family(
            "pgrepl_publisher_wal_retained_seconds", "For how long at least; unknown to roles without pg_monitor there."
        )
        self._left = Family(
            "pgrepl_publisher_wal_safe_bytes", "WAL that may be written before the slot is in danger (safe_wal_size)."
        )
        self._status = Family("pgrepl_publisher_slot_wal_status", "The slot's wal_status.")
        self._transaction = Family(
            "pgrepl_publisher_oldest_transaction_seconds", "Age of the oldest open transaction with changes; 0: none."
        )
        self._spilled = Family(
            "pgrepl_publisher_slot_spilled_bytes", "Bytes of transactions that the server has spilled for the slot."
        )
        self._warnings = Family("pgrepl_publisher_warnings", "Warnings of pgrepl status about the slot's server.")

    @property
    def families(self) -> list[Family]:
        return [
            self._size, self._seconds, self._left, self._status, self._transaction, self._spilled, self._warnings,
        ]  # fmt: skip

    def add(self, retained: Retained, warnings: int, names: Mapping[str, str]) -> None:
        oldest = 0.0 if retained.transaction is None else round(retained.transaction.seconds, 3)
        self._size.add(retained.size, **names)
        self._seconds.add(None if retained.seconds is None else round(retained.seconds, 3), **names)
        self._left.add(retained.left, **names)
        for status in ("reserved", "extended", "unreserved", LOST):
            self._status.add(int(retained.status == status), **names, wal_status=status)
        self._transaction.add(oldest if retained.sees_all or retained.transaction is not None else None, **names)
        self._spilled.add(retained.spilled, **names)
        self._warnings.add(warnings, **names)
