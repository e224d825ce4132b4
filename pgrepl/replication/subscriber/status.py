"""The status of subscriptions: their tables, positions, lag, workers and last errors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import activity
from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.relation import relation_or_none
from pgrepl.catalog.facts.roles import has_privs_of_role, is_superuser, role_or_none
from pgrepl.catalog.facts.subscription import conninfo_of
from pgrepl.catalog.session.login import apply_stored_settings
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.replication.conninfo import FILES, ConnectionFailure, parse_conninfo
from pgrepl.replication.origins import origin_or_none
from pgrepl.replication.publisher.protocol import Backlog, PublisherError, SlotLag, server_text, slot_is_ahead
from pgrepl.replication.publisher.senders import LOST, Retained, why_invalid
from pgrepl.replication.subscriber import lease, state
from pgrepl.replication.subscriber.connection import connect
from pgrepl.replication.subscriber.copying.ranges import copy_ranges
from pgrepl.replication.subscriber.dangers import Danger, dangers, limits
from pgrepl.replication.subscriber.state import Stop, stop_of
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


_EPOCH = 946684800  # 2000-01-01 in seconds since 1970


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """How far the copy of a table is. `pieces`: of one that is copied in pieces those that are copied, and all; rows
    and bytes are those of the running copy."""

    rows: int | None = None  # None: no copy runs
    size: int | None = None
    pieces: tuple[int, int] | None = None
    seconds_left: float | None = None

    def as_json(self) -> dict[str, Any]:
        done, total = self.pieces or (None, None)
        left = None if self.seconds_left is None else round(self.seconds_left, 1)
        return {"rows": self.rows, "bytes": self.size, "pieces_done": done, "pieces": total, "seconds_left": left}


@dataclass(frozen=True, slots=True)
class TableStatus:
    name: str
    state: str
    lsn: int
    published: bool | None = True  # do the publications have it still? None: the publisher does not answer
    copy: CopyStatus | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """One subscription."""

    database: str
    name: str
    publications: tuple[str, ...]
    publisher: str  # its place, without a password
    enabled: bool
    slot: str | None
    pid: int | None  # of the running worker
    tables: tuple[TableStatus, ...]
    applied: int  # the LSN up to which all changes are applied
    lag: SlotLag | None  # None: the publisher does not answer
    backlog: Backlog | None
    apply_errors: int
    sync_errors: int
    stop: Stop | None  # the last error, if it is not over
    unreachable: str | None  # why the publisher does not answer
    complete: datetime | None = None  # when all changes had last been applied
    retained: Retained | None = None  # what the publisher keeps for the slot
    dangers: tuple[Danger, ...] = ()

    @property
    def applied_lsn(self) -> str | None:
        """The LSN up to which changes are applied, as PostgreSQL prints it; None: no change is."""
        return lsn_text(self.applied) if self.applied else None

    @property
    def publisher_lsn(self) -> str | None:
        """The publisher's current LSN; None: it does not answer."""
        return None if self.lag is None else lsn_text(self.lag.current)

    @property
    def behind(self) -> int | None:
        """The bytes of the publisher's log that are not applied yet."""
        return None if self.lag is None else max(0, self.lag.current - (self.applied or self.lag.confirmed))

    @property
    def seconds(self) -> float | None:
        """The seconds since the commit of the first transaction that is not applied. Without a backlog an upper bound:
        those since all changes had been applied, or since the first unread file was written."""
        if self.behind == 0 or (self.backlog is not None and self.backlog.since is None):
            return 0.0
        if self.backlog is not None and self.backlog.since is not None:
            return max(0.0, time.time() - _EPOCH - self.backlog.since / 1_000_000)
        if self.behind is None:
            return None
        since = [] if self.complete is None else [self.complete.timestamp()]
        since += [] if self.lag is None or self.lag.since is None else [self.lag.since]
        return max(0.0, time.time() - max(since)) if since else None

    def exceeds(self, limit: float) -> str | None:
        """Why the subscription is further behind than `limit` seconds; None: it is not. One that is stopped, or whose
        lag nobody knows, is over any limit."""
        if not self.enabled:
            return "it is disabled"
        if self.slot is None:
            return "it has no replication slot"
        if self.stop is not None and not self.stop.failure.waits:
            return f"it is stopped by an error: {self.stop.failure.message}"
        if self.unreachable is not None:
            return "its publisher does not answer"
        waiting = sum(table.state in (subscriptions.INIT, subscriptions.DATASYNC) for table in self.tables)
        if waiting and self.pid is None:
            return f"{waiting} of {len(self.tables)} tables wait for their copies, and it has no worker"
        if self.seconds is None:
            return "it is behind, and has never had all changes"
        return f"it is {self.seconds:.1f} s behind" if self.seconds > limit else None

    def as_json(self) -> dict[str, Any]:
        lag, backlog, stop = self.lag, self.backlog, self.stop
        return {
            "database": self.database,
            "subscription": self.name,
            "publications": list(self.publications),
            **_named(self, "publisher", "enabled", "slot", "pid"),
            "tables": [
                {
                    "name": table.name,
                    "state": table.state,
                    "lsn": lsn_text(table.lsn) if table.lsn else None,
                    "published": table.published,
                    "copy": None if table.copy is None else table.copy.as_json(),
                }
                for table in self.tables
            ],
            "applied_lsn": self.applied_lsn,
            "confirmed_lsn": None if lag is None else lsn_text(lag.confirmed),
            "publisher_lsn": self.publisher_lsn,
            "lag": {
                "transactions": None if backlog is None else backlog.transactions,
                "rows": None if backlog is None else backlog.changes,
                "exact": None if backlog is None else backlog.exact,
                "seconds": None if self.seconds is None else round(self.seconds, 3),
                "lsn": self.behind,
                "files": None if lag is None else lag.files,
            },
            "retained": None if self.retained is None else _retained_json(self.retained),
            "warnings": [_named(danger, "message", "detail", "hint") for danger in self.dangers],
            "apply_error_count": self.apply_errors,
            "sync_error_count": self.sync_errors,
            "last_error": None
            if stop is None
            else {
                "time": stop.happened,
                **_named(stop.failure, "sqlstate", "message", "detail", "hint", "table"),
                "lsn": stop.lsn,
                "waits": stop.failure.waits,
                "advice": stop.advice.text,
                "statements": [statement for _, statements in stop.steps for statement in statements],
            },
            "unreachable": self.unreachable,
        }


def _retained_json(retained: Retained) -> dict[str, Any]:
    oldest = retained.transaction
    return {
        "bytes": retained.size,
        "seconds": _rounded(retained.seconds),
        "snapshots": retained.snapshots,
        "oldest_slot": None if retained.snapshots is None else retained.is_oldest,
        "wal_status": retained.status,
        "safe_wal_size": retained.left,
        "wal_limit": retained.limit,
        "invalidation_reason": retained.invalid,
        "idle_seconds": _rounded(retained.idle),
        "idle_limit": retained.idle_limit,
        "spilled_transactions": None if retained.snapshots is not None else retained.spills,
        "spilled_bytes": None if retained.snapshots is not None else retained.spilled,
        "oldest_transaction": None
        if oldest is None
        else {
            "seconds": _rounded(oldest.seconds),
            **_named(oldest, "pid", "gid", "database", "user", "application", "state"),
        },
        "sees_all_transactions": retained.sees_all,
    }


def _named(source: object, *names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def may_look(session: Session) -> bool:
    """May the role see the publishers? subconninfo is for superusers, the status for pg_monitor, too."""
    monitors = role_or_none(session, "pg_monitor")
    return is_superuser(session, session.role) or (
        monitors is not None and has_privs_of_role(session, session.role, monitors.oid)
    )


def check_may_look(session: Session) -> None:
    """Raise unless the role may see the publishers."""
    with reading(session):
        if may_look(session):
            return
    raise PgError(
        "42501",
        "permission denied to show the status of subscriptions",
        detail='Only roles with privileges of the "pg_monitor" role may do it.',
    )


def subscription_status(session: Session, names: Sequence[str] = (), *, everywhere: bool) -> list[Status]:
    """The status of subscriptions of the session's database, or of all databases; an error for an unknown name."""
    with reading(session):
        where = {} if everywhere else {"subdbid": session.database_oid}
        listed = sorted(rows(session, tables.pg_subscription, **where), key=lambda row: row.oid)
        databases = {row.oid: str(row.datname) for row in rows(session, tables.pg_database)}
    for name in names:
        if all(row.subname != name for row in listed):
            raise PgError("42704", f'subscription "{name}" does not exist')
    statuses = []
    for row in listed:
        if not names or row.subname in names:
            there = session.elsewhere(row.subdbid, BOOTSTRAP_SUPERUSER, apart=True)
            try:
                with reading(there):
                    apply_stored_settings(there, row.subowner, row.subdbid)  # the limits of its workers
                    statuses.append(_status(there, row, databases.get(row.subdbid, "")))
            finally:
                there.close()
    return statuses


def _status(session: Session, row: tables.pg_subscription, database: str) -> Status:
    origin = origin_or_none(session, f"pg_{row.oid}")
    applied = 0 if origin is None else int(origin.remote_lsn or 0)
    answer = _publisher(session, row, applied)
    worker = lease.holder(session, row.oid)
    counted = one(session, tables.pg_stat_subscription_stats, subid=row.oid)
    copying = _copies(session, row.oid)
    listed = []
    for relid, (current, lsn) in sorted(state.table_states(session, row.oid).items()):
        table = relation_or_none(session, relid)
        if table is None:
            listed.append(TableStatus(str(relid), current, lsn))
            continue
        known = None if answer.published is None else (table.schema, table.name) in answer.published
        listed.append(TableStatus(table.qualified_name, current, lsn, known, copying.get(relid)))
    retained, slot = answer.retained, str(row.subslotname)
    return Status(
        database=database,
        name=row.subname,
        publications=tuple(row.subpublications),
        publisher=_place_of(session, row),
        enabled=bool(row.subenabled),
        slot=row.subslotname,
        pid=None if worker is None else int(worker.pid),
        tables=tuple(listed),
        applied=applied,
        lag=answer.lag,
        backlog=answer.backlog,
        apply_errors=0 if counted is None else int(counted.apply_error_count or 0),
        sync_errors=0 if counted is None else int(counted.sync_error_count or 0),
        stop=stop_of(session, row),
        unreachable=answer.unreachable,
        complete=None if origin is None or not origin.caught_up else datetime.fromisoformat(origin.caught_up),
        retained=retained,
        dangers=() if retained is None else tuple(dangers(slot, retained, limits(session))),
    )


def _copies(session: Session, subid: int) -> dict[int, CopyStatus]:
    """The running copies, and those in pieces that are to go on, by table."""
    pieces = {relid: copy.progress for relid, copy in copy_ranges(session, subid).items()}
    running = {row.relid: row for row in activity.under_way(session) if row.datid == session.database_oid}
    copies = {relid: CopyStatus(pieces=done) for relid, done in pieces.items()}
    for relid, (current, _) in state.table_states(session, subid).items():
        row = running.get(relid) if current == subscriptions.DATASYNC else None
        if row is None:
            continue
        copies[relid] = CopyStatus(row.tuples_processed, row.bytes_processed, pieces.get(relid), row.seconds_left)
    return copies


@frozen
class _Answer:
    """What the publisher says of the subscription, or why it does not answer; and the schemas and names of the
    published tables."""

    lag: SlotLag | None = None
    backlog: Backlog | None = None
    unreachable: str | None = None
    published: set[tuple[str, str]] | None = None
    retained: Retained | None = None


def _publisher(session: Session, row: tables.pg_subscription, applied: int) -> _Answer:
    if not row.subslotname:
        return _Answer()
    required = row.subpasswordrequired and not is_superuser(session, row.subowner)
    try:
        publisher = connect(
            session, conninfo_of(session, row), must_use_password=bool(required), apart=True, subid=row.oid
        )
    except (ConnectionFailure, PgError) as failure:
        return _Answer(unreachable=str(failure))
    published = None
    try:
        published = {(table.schema, table.name) for table in publisher.catalog.published_tables(row.subpublications)}
        lag = publisher.stream.lag(row.subslotname)
        if lag is None:
            return _Answer(unreachable=f'replication slot "{row.subslotname}" does not exist', published=published)
        retained = None if publisher.slots is None else publisher.slots.retained(row.subslotname)
        if retained is not None and retained.status == LOST:
            lost = f'replication slot "{row.subslotname}" is lost: {why_invalid(retained.invalid)}'
            return _Answer(lag, None, lost, published, retained)
        if 0 < applied < lag.confirmed:
            ahead = server_text(slot_is_ahead(row.subslotname, lag.confirmed, applied))
            return _Answer(lag, None, ahead, published, retained)
        start = max(lag.confirmed, applied)
        backlog = publisher.stream.backlog(state.request(row, row.subslotname, start, lag.current))
        return _Answer(lag, backlog, None, published, retained)
    except PublisherError as error:
        return _Answer(unreachable=str(error), published=published)
    finally:
        publisher.close()


def _place_of(session: Session, row: tables.pg_subscription) -> str:
    """One with a foreign server that its owner may not use, or has no mapping for, has no place."""
    try:
        return _place(conninfo_of(session, row))
    except PgError as error:
        return error.message


def _place(conninfo: str) -> str:
    """Database and host of a publisher, without its password."""
    options = parse_conninfo(conninfo)
    host = options.get("host") or options.get("hostaddr") or ""
    port = options.get("port")
    database = options.get("dbname") or options.get("user") or "postgres"
    place = host if not port or not host else f"{host}:{port}"
    if FILES in options:
        return f"{database}, files {options[FILES]}"
    return f"{database} at {place}" if place and place != "localhost" else database
