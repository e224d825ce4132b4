"""The comparison of a subscription's tables with its publisher's, both at one LSN.

A lake knows its past: the LSN is that up to which changes have been applied here. A server does not: it gives a
snapshot with its LSN, up to which changes are then applied, by the worker that follows, or here if there is none.

A file keeps what was found equal, so that a comparison can go on after it was stopped. A range of a key counts as equal
as of the LSN at which it was compared. What has changed since then is not known; the result says how many ranges were
left out. A table that is not divided by ranges is kept as a whole.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.session.transaction import reading, statement
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.tables import pg_subscription, pg_subscription_rel
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.interrupts import check_for_interrupts
from pgrepl.lake.read.files import last_snapshot
from pgrepl.replication.comparison.found import Progress, TableComparison
from pgrepl.replication.comparison.pieces import KeyPieces
from pgrepl.replication.comparison.sides import LocalTable
from pgrepl.replication.comparison.table import Compared
from pgrepl.replication.log import ServerLog
from pgrepl.replication.publisher.protocol import Publisher, PublisherError, not_received
from pgrepl.replication.publisher.tables import Comparing, KeyRange, Limits, TablesAtLsn
from pgrepl.replication.subscriber import lease, state
from pgrepl.replication.subscriber.context import WorkerContext
from pgrepl.replication.subscriber.lease import WorkerFailed
from pgrepl.replication.subscriber.worker import Worker
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.tables import TableAtLsn

_PAUSE = 0.02  # seconds between two looks at the origin
_QUIET = ServerLog(Path(os.devnull))  # errors are raised
_VERSION = 1
_OFTEN = 1.0  # seconds between two writes


@dataclass(frozen=True)
class Options:
    """`limit`: differences of a table; `timeout`: seconds until both sides must be at one LSN."""

    tables: tuple[str, ...] = ()
    limit: int | None = None
    connections: int = 2
    rows_per_second: int | None = None
    timeout: float = 60.0
    progress: ProgressFile | None = None

    @property
    def limits(self) -> Limits:
        return Limits(self.connections, self.rows_per_second, self.timeout)


@dataclass
class Comparison:
    """What was found of a subscription. `lsn`: of the publisher, before which everything counts."""

    subscription: str
    lsn: int = 0
    snapshot: int = 0  # of the lake here
    tables: list[TableComparison] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        return all(table.is_equal for table in self.tables)

    @property
    def is_told(self) -> bool:
        """Whether all tables could be compared."""
        return all(table.error is None for table in self.tables)

    @property
    def count(self) -> int:
        return sum(len(table.differences) for table in self.tables)


@dataclass(frozen=True)
class Wanted:
    """A table to compare, what is published of it, and why it cannot be compared."""

    table: Relation
    operations: tuple[str, ...]
    error: PgError | None


class Comparer:
    """Compares a subscription of the session's database, over a connection of its own to the publisher."""

    def __init__(self, session: Session, subid: int, log: ServerLog, options: Options, progress: Progress) -> None:
        self.options, self.progress = options, progress
        self._asking = session  # whose transactions are short: the meeting's
        self.context = WorkerContext(session, subid, log)
        self.session = self.context.session

    def close(self) -> None:
        self.context.close()

    def subscription(self) -> pg_subscription:
        subscription = self.context.subscription()
        if subscription is None:
            raise PgError("42704", "the subscription does not exist any more")
        return subscription

    @contextmanager
    def publisher(self) -> Iterator[tuple[pg_subscription, Publisher, Comparing]]:
        """The publisher, asked with the settings of the subscription's worker; its errors are those of a
        subscription."""
        try:
            with statement(self.session):
                subscription = self.subscription()
                self.context.settings.admit(self.session, subscription)
                publisher = self.context.connection.publisher(subscription)
            if publisher.comparing is None:
                raise PgError(
                    "0A000", f'subscription "{subscription.subname}" cannot be compared: files of changes have no rows'
                )
            yield subscription, publisher, publisher.comparing
        except WorkerFailed as failure:
            raise failure.error from None
        except PublisherError as error:
            raise not_received(error) from None

    # --- the tables ---------------------------------------------------------------------------------------------------

    def compare(self) -> Comparison:
        with self.publisher() as (subscription, publisher, comparing), ExitStack() as opened:
            comparison = Comparison(str(subscription.subname))
            wanted = self.wanted(subscription, publisher)
            there = self.meet(subscription, comparing, comparison, opened, opened)
            self.compare_at(there, subscription, wanted, comparison)
            return comparison

    def compare_at(
        self, there: TablesAtLsn, subscription: pg_subscription, wanted: Sequence[Wanted], result: Comparison
    ) -> None:
        """Compare tables, while a transaction keeps this side's snapshot."""
        for entry in wanted:
            comparison = TableComparison(entry.table.qualified_name, error=entry.error)
            if entry.error is None:
                comparison = self._compared(there, subscription, entry, result.snapshot)
            self.progress.ends(comparison)
            result.tables.append(comparison)

    def wanted(self, subscription: pg_subscription, publisher: Publisher) -> list[Wanted]:
        """The tables to compare."""
        with reading(self.session):
            states = state.table_states(self.session, subscription.oid)
            listed = sorted(
                [(relation(self.session, relid), current) for relid, (current, _) in states.items()],
                key=lambda one: one[0].qualified_name,
            )
        named = {name.strip() for name in self.options.tables}
        for name in sorted(named):
            if not any(name in (table.name, table.qualified_name) for table, _ in listed):
                raise PgError("42704", f'subscription "{subscription.subname}" has no table "{name}"')
        wanted = []
        for table, current in listed:
            if named and named.isdisjoint((table.name, table.qualified_name)):
                continue
            published = publisher.catalog.published_as(table.schema, table.name, subscription.subpublications)
            error = None if current == subscriptions.READY else _not_ready(table, current)
            if published is None:
                error = PgError("55000", f'table "{table.qualified_name}" is not published any more')
            wanted.append(Wanted(table, () if published is None else published.operations, error))
        return wanted

    def _compared(
        self, there: TablesAtLsn, subscription: pg_subscription, wanted: Wanted, snapshot: int
    ) -> TableComparison:
        try:
            compared = self.prepared(there, subscription, wanted)
            self.progress.begins(compared.found.name, compared.size)
            file = self.options.progress
            if file is None:
                compared.compare(snapshot, self.options.limit, self.progress)
            else:
                with file.of(compared, there.lsn) as known:
                    compared.compare(snapshot, self.options.limit, self.progress, known.numbers, known.equal)
            return compared.found
        except (PgError, Declined, PublisherError) as problem:
            if isinstance(problem, PgError) and (problem.is_of_machine or problem.sqlstate == "57014"):
                raise
            return TableComparison(wanted.table.qualified_name, error=_told(problem))

    def prepared(self, there: TablesAtLsn, subscription: pg_subscription, wanted: Wanted) -> Compared:
        """The table on both sides."""
        table = wanted.table
        at: TableAtLsn = there.table(table.schema, table.name, subscription.subpublications)
        local = LocalTable(self.session, at.relation)
        others = any(
            row.srsubid != subscription.oid for row in rows(self.session, pg_subscription_rel, srrelid=table.oid)
        )
        return Compared.of(at, local, wanted.operations, others)

    # --- one LSN ------------------------------------------------------------------------------------------------------

    def meet(
        self,
        subscription: pg_subscription,
        comparing: Comparing,
        comparison: Comparison,
        opened: ExitStack,
        kept: ExitStack,
        *,
        stays: bool = False,
    ) -> TablesAtLsn:
        """The publisher's tables at one LSN, at which this side's snapshot is, too: `kept` has the transaction that
        keeps it. `stays`: the worker is kept there until `opened` is closed."""
        session, subid = self.session, subscription.oid
        with ExitStack() as held:
            if stays or not comparing.knows_past:
                called = held.enter_context(lease.call_meeting(self._asking, subid))
                comparison.lsn = self.position(subid)
            else:
                kept.enter_context(reading(session))
                comparison.lsn = state.position(session, subid)
            if comparing.knows_past and not comparison.lsn:
                raise PgError("55000", f'subscription "{subscription.subname}" has applied nothing yet')
            there = comparing.begin(comparison.lsn, self.options.limits)
            opened.callback(there.close)
            comparison.lsn = there.lsn
            if stays or not comparing.knows_past:
                called.name(there.lsn)
                self._reach(subscription, there.lsn)
                kept.enter_context(reading(session))
            if state.position(session, subid) != there.lsn:
                raise moved_meanwhile()
            comparison.snapshot = last_snapshot(session)
            if stays:
                opened.push(held.pop_all())
        return there

    def position(self, subid: int) -> int:
        with reading(self.session):
            return state.position(self.session, subid)

    def _is_followed(self, subid: int) -> bool:
        with reading(self.session):
            return lease.holder(self.session, subid) is not None

    def _reach(self, subscription: pg_subscription, lsn: int) -> None:
        """Wait until all changes before the LSN have been applied, or apply them."""
        until = time.monotonic() + self.options.timeout
        worker: Worker | None = None
        try:
            while True:
                check_for_interrupts()
                position = self.position(subscription.oid)
                if position >= lsn:
                    return
                if not subscription.subenabled:
                    raise PgError(
                        "55000",
                        f'subscription "{subscription.subname}" is disabled',
                        detail=f"Changes are applied up to {lsn_text(position)}, and the publisher is at "
                        f"{lsn_text(lsn)}.",
                        hint=f"Enable it with ALTER SUBSCRIPTION {subscription.subname} ENABLE.",
                    )
                if time.monotonic() > until:
                    raise PgError(
                        "55000",
                        f"changes before {lsn_text(lsn)} have not been applied within "
                        f"{self.options.timeout:g} seconds, only those before {lsn_text(position)}",
                        hint="Look at pgrepl status, or wait longer with --timeout.",
                    )
                if not self._is_followed(subscription.oid):
                    worker = worker or Worker(self._asking, subscription.oid, _QUIET)
                    error = worker.round(upto=lsn, copy=False).error
                    if error is not None and not self._is_followed(subscription.oid):
                        raise error
                time.sleep(_PAUSE)
        finally:
            if worker is not None:
                worker.close()


def moved_meanwhile() -> PgError:
    return PgError("40001", "the origin of the subscription has been moved meanwhile")


def _told(problem: PgError | Declined | PublisherError) -> PgError:
    if isinstance(problem, PgError):
        return problem
    if isinstance(problem, PublisherError):
        return not_received(problem)
    return PgError("0A000", f"it cannot be compared: {problem}")


def _not_ready(table: Relation, current: str) -> PgError:
    return PgError(
        "55000",
        f'table "{table.qualified_name}" has not been copied yet',
        detail=f"Its state is {current}.",
        hint="Copy it with pgrepl sync.",
    )


# --- progress file ----------------------------------------------------------------------------------------------------


class Known:
    """The pieces of one table that are known to be equal."""

    def __init__(self, file: ProgressFile, compared: Compared, lsn: int) -> None:
        self._file, self._compared, self._lsn = file, compared, lsn
        self._kept: dict[str, Any] = file.tables.setdefault(compared.found.name, {})
        if self._kept.get("columns") != list(compared.found.columns):
            self._kept.clear()
        self._kept.setdefault("columns", list(compared.found.columns))
        self._equal: dict[str, str] = self._kept.setdefault("equal", {})
        pieces = compared.side.pieces
        if isinstance(pieces, KeyPieces):
            pieces.take_over([KeyRange.read(*ends) for ends in self._kept.get("ranges", [])])
            self._kept["ranges"] = [key_range.texts() for key_range in pieces.ranges]
        self.numbers = [number for number in range(pieces.count) if self._name(number) in self._equal]

    def _name(self, number: int) -> str:
        pieces = self._compared.side.pieces
        return json.dumps(pieces.ranges[number].texts()) if isinstance(pieces, KeyPieces) else ""

    def equal(self, number: int) -> None:
        if isinstance(self._compared.side.pieces, KeyPieces):
            self._equal[self._name(number)] = lsn_text(self._lsn)
            self._file.write_now_and_then()

    def end(self) -> None:
        table = self._compared.found
        if table.is_equal and table.is_complete and not isinstance(self._compared.side.pieces, KeyPieces):
            self._equal[""] = lsn_text(self._lsn)


class ProgressFile:
    def __init__(self, path: Path, subscription: str) -> None:
        self._path, self._subscription = path, subscription
        self._written = 0.0
        self.tables: dict[str, Any] = {}
        try:
            kept = json.loads(path.read_text()) if path.exists() and path.stat().st_size else {}
        except (OSError, ValueError) as problem:
            raise PgError("58030", f'could not read file "{path}": {problem}') from problem
        if kept:
            if not isinstance(kept, dict) or kept.get("pgrepl_compare") != _VERSION:
                raise PgError("22023", f'file "{path}" does not hold the progress of a comparison')
            if kept.get("subscription") != subscription:
                raise PgError("22023", f'file "{path}" is of subscription "{kept.get("subscription")}"')
            self.tables = kept["tables"]
        self.write()

    @contextmanager
    def of(self, compared: Compared, lsn: int) -> Iterator[Known]:
        known = Known(self, compared, lsn)
        try:
            yield known
            known.end()
        finally:
            self.write()

    def write_now_and_then(self) -> None:
        if time.monotonic() > self._written + _OFTEN:
            self.write()

    def write(self) -> None:
        progress = {"pgrepl_compare": _VERSION, "subscription": self._subscription, "tables": self.tables}
        beside = self._path.with_name(self._path.name + ".new")
        try:
            beside.write_text(json.dumps(progress))
            beside.replace(self._path)
        except OSError as problem:
            raise PgError("58030", f'could not write file "{self._path}": {problem}') from problem
        self._written = time.monotonic()
