"""The worker of one subscription, which does the work of PostgreSQL's apply worker and table synchronization workers.

    round: receive messages up to the publisher's LSN at the start → apply them (a commit each batch)
           copy the tables that wait for it → apply the changes since then, so that the tables are ready

A worker has a session of its own. An error belongs to the subscription: it is logged, counted, and with
disable_on_error disables the subscription; the caller gets it in the result.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.transaction import reading
from pgrepl.engine import spark
from pgrepl.ground.errors import PgError
from pgrepl.lake.storage import crash_point
from pgrepl.replication.log import ServerLog
from pgrepl.replication.publisher.protocol import PublisherError, not_started
from pgrepl.replication.subscriber import lease, state
from pgrepl.replication.subscriber.at_once import catch_up_at_once
from pgrepl.replication.subscriber.attach import (
    CANCELLED,
    Round,
    attach,
    check_free,
    detach,
    fails,
    store_error,
    succeeds,
)
from pgrepl.replication.subscriber.context import WorkerContext, despite_locks
from pgrepl.replication.subscriber.copying.copy import copy_again, copy_table, divide_tables, forget_slot, tables_in
from pgrepl.replication.subscriber.dangers import PublisherWatch
from pgrepl.replication.subscriber.lease import (
    LeaseHeld,
    Observer,
    Streamed,
    SubscriptionChanged,
    WorkerFailed,
    asking,
    working,
)
from pgrepl.replication.subscriber.schema_changes import follow
from pgrepl.replication.subscriber.schema_changes.present import PresentDefinitions
from pgrepl.replication.subscriber.sequences import SequenceSync
from pgrepl.replication.subscriber.streaming import enable_two_phase, missing_before, note_caught_up, stream_batch
from pgrepl.replication.subscriber.table_workers import copy_together, shared_out

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.files.memory import GivenBatch

_LOOK = 1.0  # seconds
_POLL = 0.05  # seconds between two checks whether another worker has finished


class Worker:
    """The worker of one subscription."""

    def __init__(
        self,
        session: Session,
        subid: int,
        log: ServerLog,
        *,
        observer: Observer | None = None,
        keeps_lease: bool = False,
        warns: bool = False,
        patience: float | None = None,
        given: GivenBatch | None = None,
    ) -> None:
        """`keeps_lease`: remain the subscription's worker between rounds. `warns`: of what endangers the publisher, as
        one that remains does. `patience`, `given`: see WorkerContext."""
        self.keeps_lease = keeps_lease
        self.context = WorkerContext(session, subid, log, observer, patience=patience, given=given)
        self._watch: PublisherWatch | None = None
        if keeps_lease or warns:
            self._watch = PublisherWatch(self.context.session, self.context.log)
        self.session = self.context.session
        self._sequences = SequenceSync(self.context)
        self._definitions = PresentDefinitions(self.context)
        self._subid = subid
        self._version = -1  # of the catalog, at the end of the last wait
        self._asked_at = -1  # the publisher's end when it was asked for newly published tables
        self.log = self.context.log
        self._observer = self.context.observer

    @property
    def tag(self) -> str:
        """The tag of its Spark jobs, so that they can be cancelled alone."""
        return f"pgrepl-subscription-{self._subid}"

    @property
    def subscription(self) -> str:
        """The subscription's name; empty if it was dropped."""
        with reading(self.session):
            row = self.context.subscription()
        return "" if row is None else str(row.subname)

    def stop(self) -> None:
        """Ask the worker to end soon. Called from another thread. Work in progress is rolled back; the caller waits for
        the worker, and calls again if it still runs."""
        self.context.stop()
        spark.cancel_tagged(self.tag)

    def wait(self, lsn: int, seconds: float, over: Event) -> bool:
        """Wait between two rounds, for so long at most; whether there may be something to do: the publisher has
        something behind `lsn`, or others have changed the catalog since this was last asked."""
        if self.context.lease is None:
            over.wait(seconds)
            return True
        if self._sequences.is_due or self._definitions.is_owed:
            return True
        if self.context.connection.wait(lsn, seconds, over):
            return True
        before, self._version = self._version, self.session.link.version()
        return before != self._version

    def close(self) -> None:
        """End the worker. It does not wait long for a catalog's write lock: the next worker finds that it has ended."""
        if not self.context.closed:
            self.context.give_up()
            self._detach()
            self.context.close()

    def say_goodbye(self) -> None:
        """Log why a worker that holds the lease ends: its subscription was disabled or dropped."""
        reason = self.context.farewell()
        if reason:
            self.log.log(reason)
            self._detach()

    # --- rounds -------------------------------------------------------------------------------------------------------

    def round(
        self, *, upto: int | None = None, max_changes: int | None = None, copy: bool = True, wait: bool = False
    ) -> Round:
        """Catch up with the publisher as it is now, or up to an LSN. If there is nothing to do, that costs little. If
        another worker holds the lease: `wait` until it has ended or has done the work, else an error."""

        is_whole = copy and upto is None and max_changes is None

        def work(done: Round) -> None:
            if not self._begins_two_phase(done):
                return
            self._apply(done, upto, max_changes)
            while copy and done.error is None and self._copy(done) and not done.stands:
                self._apply_copied(done)
            if is_whole:
                self._synchronize_sequences(done)
                self._follow_present(done)

        return self._run(work, wait=wait, whole=is_whole)

    def synchronize(
        self, relids: Collection[int] | None = None, *, wait: bool = False, again: Collection[int] = ()
    ) -> Round:
        """Copy the tables that wait for it, or some of them, and apply changes until they are ready. `again`: tables
        that are emptied first, and copied anew."""

        def work(done: Round) -> None:
            if again:
                despite_locks(self.context, partial(copy_again, self.context, again))
            while self._copy(done, relids) and done.error is None:
                self._apply_copied(done)
            if relids is None:
                self._synchronize_sequences(done)

        return self._run(work, wait=wait, must=bool(again))

    def _run(self, work: Callable[[Round], None], *, wait: bool, whole: bool = False, must: bool = False) -> Round:
        """`whole`: the round is not limited, so that few changes may be applied at once (at_once.py). `must`: there is
        something to do, whatever the publisher has."""
        done = Round()
        ended = False
        try:
            streamed = catch_up_at_once(self.context) if whole and not self.keeps_lease else None
            if streamed is None:
                ended = self._tried(done, work, wait=wait, must=must)
            else:
                self._count_applied(done, streamed)
        except PgError as error:  # of the catalog: locked, gone, full, or its limits
            self.context.check_stopped()
            done.error = done.error or error
            self.log.error(error)
            with suppress(PgError, SubscriptionChanged):
                store_error(self.context, lease.APPLY, error, counts=False)
        finally:
            if ended or not self.keeps_lease or done.error is not None:
                self._detach()
        if done.error is not None:
            self.context.connection.close()
        return done

    def _count_applied(self, done: Round, streamed: Streamed) -> None:
        applied = streamed.applied
        done.transactions += applied.transactions
        done.changes += applied.changes
        done.passed += applied.passed
        done.lsn = streamed.reached
        if applied.transactions:
            self._count(batches=1, transactions=applied.transactions, changes=applied.changes)

    def _count(self, **changes: int) -> None:
        statistics.count(self.session, statistics.SUBSCRIPTION, self._subid, **changes)

    def _tried(self, done: Round, work: Callable[[Round], None], *, wait: bool, must: bool) -> bool:
        """Do the work under the lease; whether the subscription has been altered or dropped meanwhile."""
        try:
            try:
                if self._begins(wait=wait, must=must):
                    self._forget_slots(done)
                    despite_locks(self.context, self._add_tables)
                    work(done)
                    if done.transactions or done.tables_copied:
                        self.session.link.flush()  # before the result is reported
            except WorkerFailed as failure:
                fails(self.context, done, failure)
        except SubscriptionChanged as changed:  # the next round reads it anew
            reason = (str(changed) or self.context.farewell()) if self.keeps_lease else ""
            if reason:
                self.log.log(reason)
                done.restarts = not self.context.farewell()
            return True
        except LeaseHeld as held:
            done.error = self._in_use(held.pid)
            self.log.error(done.error)
        return False

    def _begins(self, *, wait: bool, must: bool) -> bool:
        """Take the lease; false: there is nothing to do."""
        if not wait:
            check_free(self.context)
        missing: int | None = None
        while must or self.keeps_lease or (missing := self._missing_before(missing)) is not None:
            try:
                self._attach()
                return True
            except LeaseHeld:
                if not wait:
                    raise
            time.sleep(_POLL)
        return False

    def _missing_before(self, lsn: int | None) -> int | None:
        missing = missing_before(self.context, lsn)
        return (lsn or 1) if missing is None and self._sequences.has_news() else missing

    def _attach(self) -> None:
        if self.context.lease is None:
            held, publisher = attach(self.context)
            if self._watch is not None and publisher.slots is not None:
                look = self._watch.start if self.keeps_lease else self._watch.look
                look(publisher.slots, subscriptions.slot_of(held.subscription), held.subscription.subname)

    def _detach(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        detach(self.context)

    def _in_use(self, pid: int) -> PgError:
        with reading(self.session):
            subscription = self.context.subscription()
        name = "" if subscription is None else subscription.subslotname
        return not_started(PublisherError("55006", f'ERROR:  replication slot "{name}" is active for PID {pid}'))

    # --- the main stream ----------------------------------------------------------------------------------------------

    def _apply(
        self, done: Round, upto: int | None, max_changes: int | None, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        """Apply changes, batch by batch, until `is_over` at most."""
        left = max_changes
        start = 0
        asked_at, is_limited = statistics.now(), upto is not None
        while not is_over():
            self._observer.applying(self.context.name)
            try:
                streamed = despite_locks(self.context, partial(stream_batch, self.context, upto, left))
            except WorkerFailed as failure:
                fails(self.context, done, failure)
                return
            start = start or streamed.start
            applied = streamed.applied
            upto = streamed.upto
            self._count_applied(done, streamed)
            self._observer.applied(self.context.name, start, streamed)
            if applied.error is not None:
                fails(self.context, done, WorkerFailed(applied.error))
                return
            if left is not None:
                left -= applied.changes
            if streamed.finished or (left is not None and left <= 0):
                self._settles(done)
                if streamed.finished and not is_limited:
                    despite_locks(self.context, partial(note_caught_up, self.context, asked_at))
                return

    def _apply_copied(self, done: Round) -> None:
        """Apply changes up to where the last copy has ended, so that the tables are ready. A key that moved between two
        ranges may have to be copied again then."""
        with reading(self.session):
            states = state.table_states(self.session, self._subid).values()
        self._apply(done, max([lsn for current, lsn in states if current == subscriptions.SYNC_DONE], default=0), None)

    def _begins_two_phase(self, done: Round) -> bool:
        """Enable two_phase if it waits for nothing but that, as after ALTER SUBSCRIPTION; false: the round fails."""
        try:
            enable_two_phase(self.context)
        except WorkerFailed as failure:
            fails(self.context, done, failure)
            return False
        return True

    def _settles(self, done: Round) -> None:
        if self._begins_two_phase(done):
            succeeds(self.context, lease.APPLY)

    def _go_on(self, done: Round, over: Event) -> bool:
        """Apply what the main stream has, and wait for more, until `over` is set at most; whether it can go on."""
        self._apply(done, None, None, over.is_set)
        if not over.is_set() and not done.stands:
            self.context.connection.wait(done.lsn, _LOOK, over)
        return not done.stands

    def _synchronize_sequences(self, done: Round) -> None:
        """A follower's changes go on beside sequences that cannot be synchronized."""
        if done.stands:
            return
        error = self._sequences.synchronize(moved=done.transactions > 0, at_once=not self.keeps_lease)
        if not self.keeps_lease:
            done.error = done.error or error

    def _follow_present(self, done: Round) -> None:
        """Follow what the publisher's catalog has told, behind the changes before it."""

        def catch_up() -> bool:
            self._apply(done, None, None)
            return done.error is None and not done.stands

        if done.error is None and not done.stands:
            despite_locks(self.context, partial(self._definitions.follow, catch_up, at_once=not self.keeps_lease))

    # --- tables -------------------------------------------------------------------------------------------------------

    def _copy(self, done: Round, relids: Collection[int] | None = None) -> bool:
        """Copy the waiting tables, large ones while the main stream goes on; whether some have been copied. A table
        that fails does not end the others' copies."""
        session, unfinished = self.session, (subscriptions.INIT, subscriptions.DATASYNC, subscriptions.FINISHED_COPY)
        with reading(session):
            listed = [
                relid for relid in tables_in(session, self._subid, *unfinished) if relids is None or relid in relids
            ]
            streams = set(tables_in(session, self._subid, subscriptions.FINISHED_COPY))
            waiting = [relation(session, relid) for relid in listed]
        if not waiting:
            return False
        try:
            divided = despite_locks(
                self.context, partial(divide_tables, self.context, [relid for relid in listed if relid not in streams])
            )
        except WorkerFailed as failure:
            fails(self.context, done, failure)
            return False
        in_pieces = [table for table in waiting if table.oid in divided]
        whole = [table for table in waiting if table.oid not in divided]
        shared, workers = shared_out(self.context, whole)
        if shared:
            self._copy_together(done, shared, workers)
            if done.stands:
                return False
        for table in [table for table in whole if table not in shared]:
            try:
                self._copy_begins(table)
                self._copy_ends(done, table, copy_table(self.context, table.oid))
            except WorkerFailed as failure:
                fails(self.context, done, failure, table.oid)
        for table in in_pieces:
            self._copy_in_pieces(done, table)
        with reading(session):
            return not streams.isdisjoint(tables_in(session, self._subid, subscriptions.SYNC_DONE)) or bool(
                done.tables_copied
            )

    def _copy_in_pieces(self, done: Round, table: Relation) -> None:
        """Between its pieces the main stream goes on, for as long as the last pieces took: else a writer that is faster
        than that would have the next ones wait for ever longer."""
        since = time.monotonic()

        def goes_on() -> bool:
            nonlocal since
            until = 2 * time.monotonic() - since
            self._apply(done, None, None, lambda: time.monotonic() > until)
            since = time.monotonic()
            return not done.stands

        try:
            self._copy_begins(table)
            count = copy_table(self.context, table.oid, goes_on)
            if not done.stands:
                self._copy_ends(done, table, count)
        except WorkerFailed as failure:
            fails(self.context, done, failure, table.oid)

    def _copy_together(self, done: Round, waiting: list[Relation], workers: int) -> None:
        """Copy tables by several workers. Results are reported in the order of the tables."""
        named = {table.oid: table for table in waiting}
        outcomes: dict[int, int | None] = {}
        failed: dict[int, PgError] = {}
        before = done.error
        untold = deque(named)

        def ends(relid: int, count: int | None, failure: WorkerFailed | None) -> None:
            outcomes[relid] = None if failure is not None else count
            if failure is not None:
                failed[relid] = failure.error
                fails(self.context, done, failure, relid)
                if failure.error.sqlstate == CANCELLED:  # no further copy begins
                    raise failure
                with self.context.transaction():
                    pass  # raises SubscriptionChanged if the failure has disabled the subscription
            else:
                succeeds(self.context, relid)
                self.log.log(f"{self._sync_worker(named[relid])} has finished")
            while untold and untold[0] in outcomes:
                told = untold.popleft()
                self._tell_copied(done, named[told], outcomes[told])

        try:
            copy_together(
                self.context,
                list(named),
                workers,
                lambda relid: self._copy_begins(named[relid]),
                ends,
                partial(self._go_on, done),
            )
        except PgError as error:
            if error.sqlstate != CANCELLED:
                raise
            raise WorkerFailed(error) from error
        finally:
            for relid in untold:
                self._tell_copied(done, named[relid], outcomes.get(relid))
            done.error = before or next((failed[relid] for relid in named if relid in failed), done.error)

    def _sync_worker(self, table: Relation) -> str:
        name = self.context.name
        return f'logical replication table synchronization worker for subscription "{name}", table "{table.name}"'

    def _copy_begins(self, table: Relation) -> None:
        with self.context.transaction():
            pass  # raises SubscriptionChanged if the subscription was dropped or disabled
        self.log.log(f"{self._sync_worker(table)} has started")
        self._observer.copying(self.context.name, table.qualified_name)

    def _copy_ends(self, done: Round, table: Relation, count: int | None) -> None:
        self._tell_copied(done, table, count)
        succeeds(self.context, table.oid)
        self.log.log(f"{self._sync_worker(table)} has finished")

    def _tell_copied(self, done: Round, table: Relation, count: int | None) -> None:
        if count is not None:
            done.rows_copied += count
            done.tables_copied.append(table.name)
            self._count(tables_copied=1, rows_copied=count)
            self._observer.copied(self.context.name, table.qualified_name, count)

    def _forget_slots(self, done: Round) -> None:
        """Drop the slots of copies that were left at the publisher: by a killed worker, or as it did not answer."""
        with self.context.transaction():
            copied = tables_in(self.session, self._subid, subscriptions.SYNC_DONE)
        for relid in copied:
            try:
                forget_slot(self.context, relid)
                succeeds(self.context, relid)
            except WorkerFailed as failure:
                fails(self.context, done, failure, relid)

    def _add_tables(self) -> None:
        """Add tables that are newly published, if the subscription follows that."""
        with self.context.transaction() as subscription:
            if subscription.subschemachanges not in subscriptions.WITH_TABLES:
                return

            publisher = self.context.connection.publisher(subscription)
            with asking():
                end = publisher.stream.current_lsn()
            if end == self._asked_at:
                return
            subscribed = state.table_states(self.session, self._subid)
            follows_all = subscription.subschemachanges == subscriptions.ALL
            loosens = put_off = False
            with asking(), working():
                new_tables = follow.missing(self.session, subscription, publisher.catalog, subscribed)
                enums = follow.differing_enums(self.session, publisher.catalog, subscribed) if follows_all else []
                if follows_all and not (put_off := self._definitions.puts_off(at_once=not self.keeps_lease)):
                    loosens = self._definitions.ask(subscription, publisher, enums)
            enums = [enum for enum in enums if follow.has_more_labels(self.session, enum)]
            if new_tables or enums or loosens:
                self.context.lock(subscription, state.position(self.session, self._subid))
                with self.session.acting_as(subscription.subowner), working():
                    self._definitions.loosen(subscription, publisher)
                    follow.add_labels(self.session, subscription, enums, self.log)
                    follow.add(self.session, subscription, publisher.copies, new_tables, self.log)
        self._asked_at = -1 if put_off else end
        crash_point("schema.added")
