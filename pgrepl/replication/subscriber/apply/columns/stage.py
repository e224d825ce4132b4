"""Apply of a batch by whole columns: files are staged without a lock, and committed together with the origin.

    receive         receive a batch from the publisher, if there are many changes
    stage_batch     fold, find places, write files; the batch ends before the first transaction that is not clean
    commit_batch    commit all tables and the origin

Transactions that cannot be applied this way, or that have an error in some row, are left to the exact way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.sequences import restart_sequences
from pgrepl.catalog.store import tables
from pgrepl.engine import choice, spark
from pgrepl.engine.choice import Engine, check_utf8
from pgrepl.ground.errors import Declined, PgError
from pgrepl.lake import commit
from pgrepl.lake.commit import Stale
from pgrepl.lake.storage import crash_point
from pgrepl.lake.table import lake_table
from pgrepl.lake.write.statement import Write
from pgrepl.replication.log import LogOf, ServerLog
from pgrepl.replication.publisher.protocol import ChangeStream, PublisherError, StreamRequest, is_met_again
from pgrepl.replication.publisher.slots import is_decoded
from pgrepl.replication.subscriber import conflicts, state
from pgrepl.replication.subscriber.apply.columns.decide import LeafChanges
from pgrepl.replication.subscriber.apply.columns.described import DescribedTable
from pgrepl.replication.subscriber.apply.columns.fold import NotClean
from pgrepl.replication.subscriber.apply.columns.large import LargeApply, LargeTarget, player
from pgrepl.replication.subscriber.apply.columns.partitions import (
    PartitionTree,
    by_leaf,
    check_identity,
    partition_tree,
)
from pgrepl.replication.subscriber.apply.columns.recorded import ConflictsOfBatch, LogsOfBatch, MissedMessages
from pgrepl.replication.subscriber.apply.columns.table import TableApply, check_rights, described_leaves
from pgrepl.replication.subscriber.apply.conflicts_met import DeletedRows
from pgrepl.replication.subscriber.apply.target import (
    differing_types,
    find_target,
    match_columns,
    row_errors,
    target_or_none,
)
from pgrepl.replication.subscriber.apply.triggers import acting_for, emptied_by
from pgrepl.replication.subscriber.conflicts import NOBODYS, UPDATE_MISSING, Conflict, Decisions, Foreign, foreign_rows
from pgrepl.replication.subscriber.copying import ranges
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE, RelationChanges, WireBatch
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.replication.wire.message_files import MessageFolder, most_held
from pgrepl.rows.triggers import TriggerEvent, refuse_triggers

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import NewFile
    from pgrepl.replication.wire.messages import SentRelation

    _Job = tuple[Write, Callable[[], list[NewFile]]]

_AT_A_TIME = 2  # files written at a time
_PAUSE = 0.2  # seconds
_ATTEMPTS = 3
_WORK = "apply"  # the name in pgrepl_stat_engine


class StagedBatch:
    """Files for all tables of a batch; the catalog does not refer to them before `write`."""

    def __init__(
        self,
        session: Session,
        subscription: tables.pg_subscription,
        batch: WireBatch,
        check: Callable[[], None],
        only: int,
    ) -> None:
        """`check` raises what ends the work. `only`: the table whose changes are applied; 0: all are."""
        self.batch = batch
        self._check = check
        self._only = only
        self._writes: dict[int, Write] = {}  # by oid of the table or leaf
        self._sources: dict[int, SentRelation] = {}  # by oid, the sent relation that changes the table
        self._session = session
        self._subscription = subscription
        self._snapshot = session.transaction.numbering.last_snapshot()  # at which tables are read
        self._states = state.states_for(session, subscription.oid, only)
        self._in_pieces = ranges.ranges_of_unready(session, subscription.oid, self._states)
        self._foreigns: dict[int, Foreign] = {}
        self._emptied: dict[int, list[int]] = {}  # sequence numbers of truncations by table
        self._truncated: list[int] = []
        self._restarted: list[int] = []
        self.by_spark = False  # Spark has done the work for some table
        self._deleted = DeletedRows(session, subscription)
        self.conflicts = ConflictsOfBatch(session, subscriptions.origin_name(subscription.oid), batch)
        self.told: list[Conflict] = []
        self._logs = LogsOfBatch(session, subscription, batch.transactions)
        self.passed = 0  # changes that are not applied: the table's copy has them already, or is still to come

    def stage(self) -> None:
        """Small relations are all decided before any file of them is written; large ones are applied part by part."""
        check_utf8(self._session)
        for seq, message in self.batch.truncates:
            self._truncate(seq, message.relations, restart=message.restart_identity)
        with FileJobs() as files:
            small: list[TableApply] = []
            for messages in self.batch.changes:
                target = self._target(messages.relation)
                since = None if target is None else self._since(target)
                if target is None or since is None:
                    self.passed += messages.count
                    continue
                refuse_triggers(
                    self._session, target.oid, TriggerEvent.INSERT, TriggerEvent.UPDATE, TriggerEvent.DELETE
                )
                if since > self.batch.transactions[0].first_seq:
                    self.passed += messages.until(since).count
                if self._subscription.subbinary and differing_types(self._session, target, messages.relation):
                    raise Declined("values in binary form for columns of other types")
                if not isinstance(messages, MessageFiles) or not self._stage_large(target, messages, since):
                    small += self._decided(target, messages.whole(), since)
            files.begin(self._jobs(small))
            files.settle()
        for write in self._writes.values():
            write.stage()
        self.told = self.conflicts.told()

    def _stage_large(self, target: Relation, messages: MessageFiles, since: int) -> bool:
        """Apply the messages in parts, if they are more than memory is to hold. False: they are few."""
        session = self._session
        most = choice.changes_held(session, most_held(session, messages.size // max(messages.count, 1)))
        if messages.count <= most:
            return False
        with acting_for(session, self._subscription, target):
            leaves = described_leaves(session, target, messages)
        if len({tuple([leaf.table.column(n).name for n in leaf.keys.attnums]) for leaf in leaves.values()}) != 1:
            raise Declined("partitions that are found by different keys")
        on_spark = choice.choose_parts(session, messages.count).on_spark
        what = f'subscription "{self._subscription.subname}", changes of {target.qualified_name}'
        play = player(session, what, on_spark=on_spark, check=self._check)
        # on this machine a job of Spark takes longer than threads take for keys and positions
        number = play if choice.has_cluster() else player(session, what, on_spark=False, check=self._check)
        with acting_for(session, self._subscription, target):
            tree = partition_tree(session, target, messages.relation) if target.kind == "p" else None
            targets = {oid: self._large_target(target, oid, leaf, tree, messages) for oid, leaf in leaves.items()}
            if tree is None:  # of leaves those are checked that get messages
                self._check_gets(target.oid, messages.operations, messages.relation)
        large = LargeApply(session, targets, tree, play, number, most)
        with closing(MessageFolder(session.catalog.data_path)) as folder:
            spill = folder.path(messages.relation, shared=on_spark)
            if on_spark and choice.has_cluster() and not messages.stand_in(session.catalog.data_path):
                messages = messages.copied(spill)
            done = large.stage(messages, since, spill)
        with acting_for(session, self._subscription, target):
            for oid, kinds in done.items():
                self._check_gets(oid, kinds, messages.relation)
                self._take(target, relation(session, oid), large.missed[oid])
        self.by_spark |= on_spark
        return True

    def _check_gets(self, oid: int, kinds: Collection[int], sent: SentRelation) -> None:
        """Check that the table may get messages of these kinds."""
        self._come_from(oid, sent)
        check_rights(self._session, relation(self._session, oid), INSERT in kinds, UPDATE in kinds, DELETE in kinds)

    def _large_target(
        self, root: Relation, oid: int, described: DescribedTable, tree: PartitionTree | None, messages: MessageFiles
    ) -> LargeTarget:
        is_told = True
        if tree is not None and messages.searches:
            try:
                check_identity(self._session, root, tree, oid, messages.relation)
            except Declined:
                is_told = False
        logged = self._logs.of(root, relation(self._session, oid))
        return LargeTarget(
            self._write(oid),
            described,
            tuple(sorted(self._emptied.get(oid, ()))),
            is_told,
            self._foreign(oid),
            None if logged is None else (self._write(logged.log.oid), logged),
        )

    def _decided(self, target: Relation, changes: RelationChanges, since: int) -> list[TableApply]:
        """Decide what the changes do to their table, or to each leaf."""
        session = self._session
        applies = []
        for leaf_changes in self._leaves(target, changes, since):
            leaf = relation(session, leaf_changes.leaf)
            self._come_from(leaf.oid, changes.relation)
            with acting_for(session, self._subscription, target):
                emptied = self._emptied.get(leaf.oid, [])
                table = TableApply(
                    session,
                    target,
                    leaf,
                    leaf_changes.changes,
                    since,
                    emptied,
                    self._write(leaf.oid),
                    left=leaf_changes.left,
                    foreign=self._foreign(leaf.oid),
                    logged=self._logs.of(target, leaf),
                )
                table.decide()
                self._take(target, leaf, table.missed)
            applies.append(table)
        return applies

    def _foreign(self, oid: int) -> Foreign | None:
        """What of a table other origins have written; None: conflicts are not kept."""
        if not self._subscription.subconflictlog:
            return None
        foreign = self._foreigns.get(oid)
        if foreign is None:
            own = subscriptions.origin_name(self._subscription.oid)
            foreign = foreign_rows(self._session, self._write(oid).table, own, self._snapshot)
            self._foreigns[oid] = foreign
        return foreign

    def _take(self, target: Relation, leaf: Relation, missed: MissedMessages) -> None:
        if self._subscription.subretaindeadtuples and missed.kinds[UPDATE_MISSING] and self._deleted.any_in(leaf):
            raise Declined("an update of a row that may have been deleted here")
        self.conflicts.take(target, leaf, self._write(leaf.oid), missed, self._foreigns.get(leaf.oid, NOBODYS))

    def _leaves(self, target: Relation, changes: RelationChanges, since: int) -> list[LeafChanges]:
        session = self._session
        if target.kind != "p":
            return [LeafChanges(target.oid, changes, None)]
        tree = partition_tree(session, target, changes.relation)
        return by_leaf(tree, changes, since, lambda leaf: check_identity(session, target, tree, leaf, changes.relation))

    def _come_from(self, oid: int, relation: SentRelation) -> None:
        if self._sources.setdefault(oid, relation) is not relation:
            raise Declined("several relations for one table")

    def _write(self, oid: int) -> Write:
        write = self._writes.get(oid)
        if write is None:
            write = self._writes[oid] = Write(self._session, lake_table(self._session, oid), self._snapshot)
        return write

    def _jobs(self, decided: Sequence[TableApply]) -> list[_Job]:
        """The work that is left for these tables: old rows go, and files are to be written."""
        jobs: list[_Job] = []
        for table in decided:
            table.leave()
            jobs += [(table.write, columns.write) for columns in table.columns()]
            if table.logged is not None:
                jobs.append((self._write(table.logged.log.oid), table.log))
        return jobs

    def _target(self, sent: SentRelation) -> Relation | None:
        """The table of the relation's name. It must have the relation's columns, even if no change is applied to it
        (logicalrep_rel_open); with schema_changes only then, and it may be still to come (None)."""
        follows = self._subscription.subschemachanges
        if follows in subscriptions.WITH_TABLES and target_or_none(self._session, sent) is None:
            return None
        table = find_target(self._session, sent)
        if follows == subscriptions.NO_SCHEMA or self._since(table) is not None:
            match_columns(self._session, table, sent)
        return table

    def _since(self, target: Relation) -> int | None:
        """The first sequence number that concerns the table; None: none does."""
        if target.oid in self._in_pieces:
            raise Declined("a table that is being copied in pieces")
        since = state.applies_from(self._states, target.oid)
        if not since:
            return since
        return next((t.first_seq for t in self.batch.transactions if t.finish_lsn >= since), None)

    def _truncate(self, seq: int, relations: Sequence[SentRelation], *, restart: bool) -> None:
        named = (self._target(sent) for sent in relations)
        targets = [table for table in named if table is not None and self._concerns(table, seq)]
        emptied = emptied_by(self._session, targets, restart_identity=restart)
        self.passed += not emptied
        for table in targets:
            for log, row in self._logs.emptied(table, seq):
                self._write(log).insert([row])
        for table in emptied:
            refuse_triggers(self._session, table.oid, TriggerEvent.TRUNCATE)
            if table.kind == "r":
                self._emptied.setdefault(table.oid, []).append(seq)
        self._truncated += [table.oid for table in emptied if table.oid not in self._truncated]
        self._restarted += [table.oid for table in emptied] if restart else []

    def _concerns(self, target: Relation, seq: int) -> bool:
        since = self._since(target)
        return since is not None and since <= seq

    # --- the end ------------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Holding the write lock; Stale if a table has changed since it was read."""
        session = self._session
        origin = subscriptions.origin_name(self._subscription.oid)
        writes = list(self._writes.values())
        for oid in self._emptied:
            if oid not in self._writes:  # nothing but the truncation is in the batch
                emptied = Write(session, lake_table(session, oid))
                emptied.truncate()
                writes.append(emptied)
        writes = [
            w for w in writes if w.truncates or w.rows or w.files or w.deletes or w.inlined_deletes or w.staged_deletes
        ]
        extra: dict[str, Any] = {"origin": origin}
        if self._truncated:
            extra["truncate"] = {"tables": self._truncated, "cascade": False, "restart_identity": bool(self._restarted)}
        if writes:
            commit.record_writes(session, writes, extra)
        restart_sequences(session, self._restarted)
        session.transaction.numbering.store_snapshot()

    def tell(self, log: ServerLog) -> None:
        """Count, log and keep the conflicts, once the batch has been written."""
        kinds, subid = self.conflicts.kinds, self._subscription.oid
        conflicts.count(self._session, subid, kinds)
        if self._subscription.subconflictlog:
            conflicts.log_all(log, self.told, kinds.total())
            conflicts.keep(self._session, subid, self.told, conflicts.NOTED)
        if self._subscription.subconflictlog and not self._only:
            conflicts.settle(self._session, subid, self.batch.transactions[-1].finish_lsn)

    def discard(self) -> None:
        for write in self._writes.values():
            write.discard()


class FileJobs:
    """Files that threads write. After an interrupt, whenever it comes, the jobs that have begun are waited for, so that
    their files are known to the writes, which discard them."""

    def __init__(self) -> None:
        self._threads = spark.threads(_AT_A_TIME)
        self._numbers = itertools.count()
        self._running: list[Future[None]] = []
        self._written: dict[int, tuple[Write, list[NewFile]]] = {}  # by the job's number

    def begin(self, jobs: Sequence[_Job]) -> None:
        self._running += [self._threads.submit(self._play, next(self._numbers), *job) for job in jobs]

    def _play(self, number: int, write: Write, job: Callable[[], list[NewFile]]) -> None:
        self._written[number] = write, job()

    def settle(self) -> None:
        """Wait for the jobs that have begun, and enter their files into the writes."""
        running, self._running = self._running, []
        waiting: Collection[Future[None]] = running
        while waiting:  # an interrupt just before a wait does not end it, but is seen between two
            waiting = wait(waiting, _PAUSE).not_done
        self._enter()
        for done in running:
            done.result()

    def __enter__(self) -> FileJobs:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._enter()

    def _enter(self) -> None:
        for number in sorted(self._written):
            write, files = self._written.pop(number)
            write.insert_files(files)


def stage_batch(
    session: Session, subscription: tables.pg_subscription, batch: WireBatch, check: Callable[[], None], only: int
) -> StagedBatch:
    """Stage the batch, or as many of its first transactions as are clean. Raises Declined if the exact way must apply
    it."""
    while batch.transactions:
        staged = StagedBatch(session, subscription, batch, check, only)
        try:
            staged.stage()
            return staged
        except NotClean as obstacle:
            staged.discard()
            batch = batch.until(obstacle.message)
        except PgError as error:
            staged.discard()
            if not row_errors(error):
                raise
            if len(batch.transactions) == 1:
                raise Declined("an error in some row") from error
            batch = batch.until(batch.transactions[len(batch.transactions) // 2].first_seq)
        except BaseException:
            staged.discard()
            raise
        if choice.choose_batch(session, batch.count).engine is Engine.LOCAL:
            break
    raise Declined("changes that are not clean")


def commit_batch(
    session: Session,
    subscription: tables.pg_subscription,
    batch: WireBatch,
    lock: Callable[[], None],
    check: Callable[[], None],
    only: int,
    log: ServerLog,
) -> StagedBatch | None:
    """Stage and commit: the batch as far as it was applied. None: nothing was applied, and the write lock is not held.
    `check`, `only`: see StagedBatch."""
    for _ in range(_ATTEMPTS):
        try:
            staged = stage_batch(session, subscription, batch, check, only)
        except Declined as reason:
            choice.declined(session, _WORK, reason, "changes are not applied by columns")
            return None
        crash_point("columns.staged")
        lock()
        if is_decoded(session):  # a logical slot has been created meanwhile
            staged.discard()
            session.transaction.release_write()
            break
        try:
            staged.write()
        except Stale:
            staged.discard()
            session.transaction.release_write()
            continue
        except BaseException:
            staged.discard()
            raise
        staged.tell(log)
        choice.done(session, _WORK, Engine.SPARK if staged.by_spark else Engine.COLUMNS)
        return staged
    choice.declined(session, _WORK, "others write to the tables", "changes are not applied by columns")
    return None


def receive(
    session: Session, subscription: tables.pg_subscription, stream: ChangeStream, wanted: StreamRequest, log: LogOf
) -> tuple[WireBatch, int] | None:
    """A large batch, and the LSN where it ends. None if transactions must be applied one by one: ALTER SUBSCRIPTION …
    SKIP is pending, or what was decided about a conflict; a logical slot decodes this database, or the log reports each
    row that is not found."""
    least = choice.least_changes(session)
    if subscription.subskiplsn or is_decoded(session) or log.hears("DEBUG1") or Decisions(session, subscription):
        return None
    try:
        batch_and_end = stream.batch(wanted, least)
    except Declined as reason:
        choice.declined(session, _WORK, reason, "changes are not received by columns")
        return None
    except PublisherError as error:
        if is_met_again(error):
            return None
        raise
    if batch_and_end is not None and batch_and_end[0].count:
        batch = batch_and_end[0]
        if not choice.is_worth_columns(session, batch.count, len(batch.changes)):
            batch.discard()
            return None
    return batch_and_end
