"""The repair of what a comparison has found, as one transaction, applied as those of the publisher are, in one commit.

Both sides meet once more at a later LSN, where what was found is looked at again while the worker waits: only rows
that still differ are repaired. The commit checks that the origin is still there. A subscription whose slot is lost
gets a new one, whose snapshot is compared with; the origin moves to its LSN with the repair. The new slot knows nothing
of transactions that were prepared before: those here are rolled back, and come as a whole if they are committed later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.session.transaction import reading, statement
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake.read.files import last_snapshot
from pgrepl.lake.storage import crash_point
from pgrepl.replication.comparison.compare import Comparer, Comparison, Options, Wanted, moved_meanwhile
from pgrepl.replication.comparison.found import DIFFERENT, EXTRA, MISSING, Difference, Progress, TableComparison
from pgrepl.replication.comparison.pieces import KeyPieces
from pgrepl.replication.comparison.table import key_of
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.publisher.senders import LOST
from pgrepl.replication.publisher.tables import TablesAtLsn
from pgrepl.replication.subscriber import lease, state
from pgrepl.replication.subscriber.apply.transactions import step
from pgrepl.replication.subscriber.apply.write import roll_back_prepared
from pgrepl.replication.subscriber.lease import CopyProgress, Heartbeat, LeaseHeld
from pgrepl.replication.wire.messages import DELETE, INSERT, UPDATE, Message, SentRelation, WireTransaction

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.tables import pg_subscription
    from pgrepl.replication.comparison.sides import LocalTable
    from pgrepl.replication.comparison.table import Compared
    from pgrepl.replication.log import ServerLog
    from pgrepl.replication.publisher.protocol import Publisher, Slots

MOST = 1_000_000  # differences of a table
_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


@frozen
class Repaired:
    """What a repair has done: the rows it has inserted, deleted and updated, and the LSN at which that holds."""

    lsn: int
    inserted: int
    deleted: int
    updated: int
    new_slot: str | None = None

    @property
    def count(self) -> int:
        return self.inserted + self.deleted + self.updated


class Repairer(Comparer):
    """Compares, and repairs what was found, once the caller has seen it. It is closed in any case; a slot that was made
    for nothing is dropped."""

    def __init__(self, session: Session, subid: int, log: ServerLog, options: Options, progress: Progress) -> None:
        super().__init__(session, subid, log, replace(options, limit=MOST, progress=None), progress)
        self._opened = ExitStack()
        self._compared_tables: dict[str, tuple[Compared, Wanted]] = {}
        self.new_slot: str | None = None  # that has been made in place of a lost one
        self._is_done = False

    def close(self) -> None:
        try:
            with suppress(PublisherError, PgError):
                self._opened.close()
        finally:
            super().close()

    def prepared(self, there: TablesAtLsn, subscription: pg_subscription, wanted: Wanted) -> Compared:
        compared = super().prepared(there, subscription, wanted)
        self._compared_tables.setdefault(compared.found.name, (compared, wanted))
        return compared

    # --- looking ------------------------------------------------------------------------------------------------------

    def look(self) -> Comparison:
        """The differences. A subscription that has lost its slot has a new one from now on."""
        with self.publisher() as (subscription, publisher, _):
            lost = self._has_lost_slot(subscription, publisher)
        comparison = self._look_from_new_slot() if lost else self.compare()
        for table in comparison.tables:
            self._check_repairable(comparison, table)
        return comparison

    def _has_lost_slot(self, subscription: pg_subscription, publisher: Publisher) -> bool:
        if publisher.slots is None or not subscription.subslotname:
            raise PgError("55000", "subscription has no replication slot set")
        lag = publisher.stream.lag(subscription.subslotname)
        position = self.position(subscription.oid)
        return lag is None or lag.wal_status == LOST or 0 < position < lag.confirmed

    def _look_from_new_slot(self) -> Comparison:
        with self.publisher() as (subscription, publisher, comparing):
            slot, slots = subscription.subslotname, publisher.slots
            assert slot is not None and slots is not None
            if self.options.tables:
                raise PgError(
                    "55000",
                    f'replication slot "{slot}" is lost: all tables have to be repaired',
                    hint=f"Repair them without naming any: pgrepl repair {subscription.subname}",
                )
            wanted = self.wanted(subscription, publisher)
            for entry in wanted:
                if entry.error is not None:
                    raise entry.error
            self._opened.enter_context(self._leased(subscription))
            if publisher.stream.lag(slot) is not None:
                slots.drop(slot)
            self._opened.callback(self._drop_unused, slots, slot)
            comparison = Comparison(str(subscription.subname))
            with ExitStack() as opened:
                there = comparing.begin(0, self.options.limits, slot)
                self.new_slot = slot
                opened.callback(there.close)
                opened.enter_context(reading(self.session))
                comparison.lsn, comparison.snapshot = there.lsn, last_snapshot(self.session)
                self.compare_at(there, subscription, wanted, comparison)
            if subscription.subfailover:
                slots.alter(slot, failover=True, two_phase=None)
            return comparison

    def _drop_unused(self, slots: Slots, slot: str) -> None:
        if self.new_slot is not None and not self._is_done:
            with suppress(PublisherError, PgError):
                slots.drop(slot)

    @contextmanager
    def _leased(self, subscription: pg_subscription) -> Iterator[None]:
        """Keep the subscription's worker away."""
        session, subid, token = self.session, subscription.oid, lock_file.new_token()
        try:
            try:
                with statement(session, writes=True):
                    lease.take(session, subid, token)
            except LeaseHeld as held:
                raise PgError(
                    "55006", f'subscription "{subscription.subname}" is served by a worker with PID {held.pid}'
                ) from None
            heartbeat = Heartbeat(session, token, CopyProgress(self.context.observer))
            try:
                yield
            finally:
                heartbeat.stop()
                with statement(session, writes=True):
                    lease.end(session, subid, lease.APPLY, token)
        finally:
            lock_file.retire(token)

    def _check_repairable(self, comparison: Comparison, table: TableComparison) -> None:
        if table.error is not None:
            raise table.error
        if not table.is_complete:
            raise PgError(
                "54000",
                f'table "{table.name}" has more than {MOST:,} differences',
                hint=f"Copy it anew: pgrepl sync {comparison.subscription} --again {table.name}",
            )
        compared, _ = self._compared_tables[table.name]
        local = compared.local
        if table.differences and not compared.key and not local.is_whole:
            raise PgError(
                "55000",
                f'table "{table.name}" has columns that are not sent, and no key: its rows cannot be told apart',
                hint="Give it a primary key.",
            )

    # --- repairing ----------------------------------------------------------------------------------------------------

    def repair(self, seen: Comparison) -> Repaired:
        """Repair the differences that were seen."""
        if self.new_slot is not None:
            with statement(self.session, writes=True):
                roll_back_prepared(self.session, self.subscription())
            return self._repair_at(seen.lsn, seen.tables)
        with self.publisher() as (subscription, _, comparing), ExitStack() as opened:
            comparison = Comparison(seen.subscription)
            with ExitStack() as kept:
                there = self.meet(subscription, comparing, comparison, opened, kept, stays=True)
                for table in seen.tables:
                    if table.differences:
                        comparison.tables.append(self._look_again(there, subscription, table, comparison.snapshot))
            return self._repair_at(comparison.lsn, comparison.tables)

    def _look_again(
        self, there: TablesAtLsn, subscription: pg_subscription, table: TableComparison, snapshot: int
    ) -> TableComparison:
        """What still differs of the rows that were seen to."""
        before, wanted = self._compared_tables[table.name]
        now = self.prepared(there, subscription, wanted)
        ranges, pieces = before.side.pieces, now.side.pieces
        if isinstance(ranges, KeyPieces) and isinstance(pieces, KeyPieces):
            pieces.take_over(ranges.ranges)
            now.look_again(snapshot, table.differing)
        else:
            now.compare(snapshot, None, Progress())
        seen = Counter(difference.key for difference in table.differences)
        now.found.differences = [difference for difference in now.found.differences if _is_taken(seen, difference.key)]
        return now.found

    def _repair_at(self, lsn: int, tables: Sequence[TableComparison]) -> Repaired:
        """Apply the differences in one commit, in which the origin is at the LSN."""
        session = self.session
        messages = tuple([message for table in tables for message in self._messages(table)])
        usecs = int((datetime.now(timezone.utc) - _EPOCH).total_seconds() * 1_000_000)
        transaction = WireTransaction(0, lsn, lsn, usecs, messages)
        kinds = Counter(difference.kind for table in tables for difference in table.differences)
        with statement(session, writes=True):
            session.transaction.require_write()
            subscription = self.subscription()
            if self.new_slot is not None:
                state.move(session, subscription.oid, lsn)
                state.renew_two_phase(session, subscription)
                state.forget_errors(session, subscription.oid, lease.APPLY)
            elif state.position(session, subscription.oid) != lsn:
                raise moved_meanwhile()
            if messages:
                with session.acting_as(subscription.subowner):
                    step(session, subscription, transaction, self.context.log, lambda: None)
            crash_point("repair.written")
        session.link.flush()
        self._is_done = True
        return Repaired(lsn, kinds[MISSING], kinds[EXTRA], kinds[DIFFERENT], self.new_slot)

    def _messages(self, table: TableComparison) -> Iterator[Message]:
        """Deletes first: the keys of rows that go may be those of others that come."""
        compared, _ = self._compared_tables[table.name]
        relation = _by_all(compared.local.sent)
        rows = _replaced(compared.local, table.differences)
        for difference in rows:
            if difference.kind == EXTRA:
                yield Message(DELETE, relation, old=difference.here, whole_old=True)
        for kind, operation in ((DIFFERENT, UPDATE), (MISSING, INSERT)):
            for difference in rows:
                if difference.kind == kind:
                    yield Message(operation, relation, new=difference.sent)


def _replaced(local: LocalTable, differences: Sequence[Difference]) -> list[Difference]:
    """The differences, with a delete and an insert for the update of a row from which another one takes what it has in
    a unique index: no order of updates may allow that. A row with columns that are not sent is updated in any case."""
    updated = [difference for difference in differences if difference.kind == DIFFERENT]
    gives = set[int]()
    for places in local.unique if local.is_whole else ():
        key = key_of(local, places)
        holders = {key(difference.here): difference for difference in updated if difference.here is not None}
        for update in updated:
            wanted = key(update.texts)
            holder = None if None in wanted else holders.get(wanted)
            if holder is not None and holder is not update:
                gives.add(id(holder))
    return [
        replace(difference, kind=kind)
        for difference in differences
        for kind in ((EXTRA, MISSING) if id(difference) in gives else (difference.kind,))
    ]


def _is_taken(seen: Counter[Any], key: Any) -> bool:
    """Whether a difference with the key was seen, that is not taken yet."""
    seen[key] -= 1
    return seen[key] >= 0


def _by_all(sent: SentRelation) -> SentRelation:
    """The relation, of whose rows all columns are sent as the old ones."""
    columns = tuple([replace(column, is_key=True) for column in sent.columns])
    return replace(sent, replident="f", columns=columns)
