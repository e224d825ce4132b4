"""A lake's transactions as a batch of whole columns, for many changes.

A batch ends before changes under other definitions, and when it is large enough; what needs more than
logical_decoding_work_mem is read by ranges of row ids, by tasks where the row filter needs no session. What columns
cannot decide is sent message by message (stream.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from pgrepl.engine import spark
from pgrepl.engine.choice import choose_parts, has_cluster, is_warm
from pgrepl.engine.run_kernels import run_parts_apart
from pgrepl.engine.task import NoWatch
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np
from pgrepl.lake.changes.history import Snapshot
from pgrepl.replication.publisher.lake.table_changes import (
    RANK_BITS,
    LakeChanges,
    RangeToRead,
    TableChanges,
    decode,
    read_range,
)
from pgrepl.replication.publisher.lake.transactions import (
    LakeTransaction,
    changed_tables,
    class_row,
    read,
    rows_by_snapshot,
    wanted,
)
from pgrepl.replication.publisher.plan import SendPlan, check_sendable, send_plan, truncated
from pgrepl.replication.publisher.protocol import is_met_again
from pgrepl.replication.wire.batch import BatchTransaction, RelationMessages, WireBatch
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.replication.wire.message_files import MessageFile, MessageFolder
from pgrepl.replication.wire.messages import SentRelation, TruncateMessage

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.changes_frame import RowIds
    from pgrepl.replication.wire.message_files import Decoded

    Numbers = npt.NDArray[Any]

MOST = 8_000_000  # changed rows of a batch, about
_IN_CATALOG = 64  # rows that a snapshot with inlined changes counts for


def lake_batch(
    session: Session, names: Sequence[str], start: int, end: int, *, local_only: bool, two_phase: bool
) -> tuple[WireBatch, int] | None:
    """The batch of the transactions from `start` on, and the LSN before which it ends; None: they are sent message by
    message. `two_phase`: so are prepared transactions."""
    batches = lake_batches(session, names, start, end, local_only=local_only, two_phase=two_phase)
    batch, behind = next(batches, (None, start))
    return None if batch is None else (batch, behind)


def lake_batches(
    session: Session,
    names: Sequence[str],
    start: int,
    end: int,
    *,
    local_only: bool,
    two_phase: bool,
    most: int = MOST,
    is_worth: Callable[[int], bool] = bool,
) -> Iterator[tuple[WireBatch | None, int]]:
    """All transactions from `start` on, as batches of about `most` changed rows, each with the LSN before which it
    ends; None: the transactions up to there are sent message by message, as they are if so many rows are not worth a
    batch. `two_phase`: so are prepared transactions."""
    transactions, _ = read(session, start, end)
    rows = rows_by_snapshot(session, start, end)
    at = 0
    left: int | None = None  # before this LSN transactions are left to be sent message by message
    while at < len(transactions):
        portion = _portion(transactions, at, rows, most, two_phase=two_phase)
        at += len(portion.transactions) or 1
        behind = transactions[at - 1].last.id + 1
        if not portion.transactions or not is_worth(portion.rows):
            left = behind
            continue
        if left is not None:
            yield None, left
            left = None
        yield _batch(session, names, portion, start, local_only=local_only), behind
    if left is not None:
        yield None, left


def _batch(
    session: Session, names: Sequence[str], portion: _Portion, start: int, *, local_only: bool
) -> WireBatch | None:
    base = portion.transactions[0].first
    snapshots = [snapshot for one in portion.transactions for snapshot in one.snapshots if _has_rows(snapshot)]
    here = wanted(snapshots, local_only=local_only)
    plans = Plans(session, names, start if portion.stretch is None else portion.stretch)
    transactions = [numbered(transaction, base) for transaction in portion.transactions]
    with ExitStack() as stack:
        changes = _Found(session, transactions, stack)
        try:
            if not changes.read(plans, here, base):
                return None
            truncates = list(truncate_messages(plans, here, base))
        except PgError as error:
            if is_met_again(error):
                return None  # messages before the error must be sent: message by message
            raise
        for seq, _ in truncates:
            changes.note([seq])
        forget = stack.pop_all().close
    sent = [transaction for transaction, sends in zip(transactions, changes.sends, strict=True) if sends]
    return WireBatch(tuple(sent), tuple(changes.messages), tuple(truncates), forget)


@frozen
class _Portion:
    """Transactions that follow one another; all rows were changed under the definitions of one stretch. None, if the
    first transaction is to be sent message by message."""

    transactions: Sequence[LakeTransaction]
    stretch: int | None
    rows: int  # changed, about


def _portion(
    transactions: Sequence[LakeTransaction], at: int, rows: Mapping[int, int], most: int, *, two_phase: bool
) -> _Portion:
    """The transactions from number `at` on, up to the size of a batch."""
    size = changed = 0
    stretch: int | None = None
    behind = at
    while behind < len(transactions) and size <= most:
        transaction = transactions[behind]
        stretches = {snapshot.stretch for snapshot in transaction.snapshots if _has_rows(snapshot)}
        if stretch is not None:
            stretches.add(stretch)
        if len(stretches) > 1:
            break
        if two_phase and transaction.two_phase is not None:
            break
        stretch = next(iter(stretches), None)
        for snapshot in transaction.snapshots:
            size += rows.get(snapshot.id, _IN_CATALOG)
            changed += rows.get(snapshot.id, 0) + 1
        behind += 1
    return _Portion(transactions[at:behind], stretch, changed)


def _has_rows(snapshot: Snapshot) -> bool:
    """Did it change rows? Others may define something."""
    return bool(snapshot.tables or snapshot.truncated)


class Plans:
    """The plans of tables, with the definitions of a stretch of snapshots."""

    def __init__(self, session: Session, names: Sequence[str], stretch: int) -> None:
        self._names = names
        self._release = session.settings.release
        self.past = session.at(stretch)
        self._known: dict[int, SendPlan | None] = {}

    def of(self, table: int) -> SendPlan | None:
        if table not in self._known:
            here = class_row(self.past, table) is not None
            self._known[table] = send_plan(self.past, self._names, table, self._release) if here else None
        return self._known[table]


class _Found:
    """The messages of each table, and the transactions that have any."""

    def __init__(self, session: Session, transactions: Sequence[BatchTransaction], stack: ExitStack) -> None:
        """`stack` removes the message files at the end."""
        self.messages: list[RelationMessages] = []
        self._session = session
        self._folder = MessageFolder(session.catalog.data_path)
        stack.callback(self._folder.close)
        self._last_seqs = np.array([transaction.last_seq for transaction in transactions], np.int64)
        self.sends = np.zeros(len(transactions), np.bool_)

    def note(self, seq: Numbers | Sequence[int]) -> None:
        """Note messages with these sequence numbers, which ascend."""
        ends = np.searchsorted(seq, self._last_seqs, side="right")
        self.sends |= np.diff(ends, prepend=0) > 0

    def read(self, plans: Plans, snapshots: Sequence[Snapshot], base: int) -> bool:
        """Read the changes of all tables; False: they cannot be sent by columns."""
        for together in self._sources(plans, snapshots, base):
            if any(source.relation != together[0].relation for source in together):
                return False  # rows that partitions keep in other ways
            joinable = []
            for source in together:
                messages = self._of_table(source, alone=len(together) == 1)
                if messages is None:
                    return False
                for operation in sorted(source.made & source.plan.operations):
                    check_sendable(plans.past, source.plan, operation)
                if messages.count:
                    joinable.append(messages)
            self.messages += _joined(joinable)
        return True

    def _sources(self, plans: Plans, snapshots: Sequence[Snapshot], base: int) -> Iterator[list[TableChanges]]:
        """The changed tables; those that are sent as the same table are together."""
        by_table: dict[int, list[SendPlan]] = {}
        for table in sorted({table for s in snapshots for table in changed_tables(s)}):
            plan = plans.of(table)
            if plan is not None:
                by_table.setdefault(plan.sent_as.oid, []).append(plan)
        for together in by_table.values():
            yield table_changes(self._session, together, snapshots, base)

    def _of_table(self, source: TableChanges, *, alone: bool) -> RelationMessages | None:
        """`alone`: no other table is sent as the same; otherwise the messages are in files, and so can be joined."""
        if not source.is_sure or source.rows.table.has_dimensions:
            return None
        ranges = source.ranges()
        if alone and len(ranges) == 1:
            changes = LakeChanges(source, ranges[0])
            self.note(changes.seq)
            return changes if source.is_sure else None
        return self._in_files(source, ranges)

    def _in_files(self, source: TableChanges, ranges: Sequence[RowIds]) -> MessageFiles | None:
        """Read the ranges in threads of this process or in tasks of Spark; in this thread, if row filters ask the
        session or Spark SQL. Threads read while Spark starts on this machine: their rows are applied by its tasks."""
        relation = source.relation
        on_spark = len(ranges) > 1 and source.is_portable and choose_parts(self._session, source.count).on_spark
        if on_spark and not is_warm() and not has_cluster():
            spark.start_in_background()
            on_spark = False
        path = self._folder.path(relation, shared=on_spark)
        tasks = [RangeToRead(source, ids, f"{path}.{n}", self._last_seqs) for n, ids in enumerate(ranges)]
        if on_spark or source.is_columnar:
            with spark.described(f"changes of {relation.qualified_name}: read"):
                parts = run_parts_apart(self._session, tasks, read_range, on_spark=on_spark, check=lambda: None)
        else:
            parts = [read_range(task, NoWatch()) for task in tasks]
        for part in parts:
            if not part.is_sure:
                return None
            source.made |= part.made
            self.sends[part.sends] = True
        return MessageFiles(relation, tuple([file for part in parts for file in part.files]))


def table_changes(
    session: Session, plans: Sequence[SendPlan], snapshots: Sequence[Snapshot], base: int
) -> list[TableChanges]:
    """The changes of tables that are sent as the same table, in one order."""
    tables = []
    for plan in plans:
        table = plan.table.oid
        chosen = [s.id for s in snapshots if table in changed_tables(s)]
        orders = {s.id: _ranks(s, table) for s in snapshots if s.order}
        tables.append(TableChanges(session, plan, chosen, base, snapshots[-1].id, orders))
    if len(tables) > 1:
        _follow_one_another(tables, snapshots)
    return tables


def _ranks(snapshot: Snapshot, table: int) -> dict[int, int]:
    """The places of a table's rows in the snapshot's order of changes."""
    ranks: dict[int, int] = {}
    place = 0
    for oid, *row_ids in snapshot.order:
        if oid == table:
            ranks.update(zip(row_ids, count(place)))
        place += len(row_ids)
    return ranks


def _follow_one_another(sources: Sequence[TableChanges], snapshots: Sequence[Snapshot]) -> None:
    """Give the changes of several tables one order, as `in_order` of lake/changes/changes.py does."""
    by_table = {source.plan.table.oid: source for source in sources}
    begins: dict[int, dict[int, tuple[int, int]]] = {table: {} for table in by_table}
    of_all = sum(source.rows.behind for source in sources)
    for snapshot in snapshots:
        before = 0
        for table in snapshot.tables if not snapshot.order else ():
            if table in by_table:
                own = by_table[table].rows.behind
                begins[table][snapshot.id] = before, of_all - own + before
                before += own
    for table, source in by_table.items():
        source.begins = begins[table]
        source.is_sure &= 2 * of_all < 1 << (RANK_BITS - 1)


def _joined(parts: Sequence[RelationMessages]) -> Iterator[RelationMessages]:
    """Messages in files of equal relations as those of one relation."""
    files: dict[SentRelation, list[MessageFile]] = {}
    for messages in parts:
        if isinstance(messages, MessageFiles):
            files.setdefault(messages.relation, []).extend(messages.files)
        else:
            yield messages
    for relation, own in files.items():
        yield MessageFiles(relation, tuple(own))


def truncate_messages(plans: Plans, snapshots: Sequence[Snapshot], base: int) -> Iterator[tuple[int, TruncateMessage]]:
    for snapshot in snapshots:
        if snapshot.truncated:
            message = truncated(
                [plans.of(table) for table in snapshot.truncated],
                cascade=snapshot.cascade,
                restart_identity=snapshot.restart_identity,
            )
            if message is not None:
                yield (snapshot.id - base) << RANK_BITS, message


def numbered(transaction: LakeTransaction, base: int) -> BatchTransaction:
    last = transaction.last
    first_seq, last_seq = (transaction.first - base) << RANK_BITS, ((last.id - base + 1) << RANK_BITS) - 1
    return BatchTransaction(last.id, last.id, last.id + 1, last.time, last.origin, first_seq, last_seq, last.origin_lsn)


# --- stream ranges ----------------------------------------------------------------------------------------------------


@dataclass
class SentStretch:
    """Transactions with the same definitions. `ranges` is None if they must be read message by message; `truncates` are
    the transactions that empty the table, with the sequence numbers at which they do."""

    transactions: list[BatchTransaction]
    first: int  # the snapshot at which sequence numbers begin
    ranges: list[SentRange] | None
    truncates: list[tuple[int, BatchTransaction]]


@frozen
class SentRange:
    """Changes to read in a task. `refused` are the errors for operations that PostgreSQL would not have let happen."""

    source: TableChanges
    ids: RowIds
    refused: dict[str, PgError]

    def read(self) -> tuple[Numbers, Decoded]:
        """Sequence numbers, counted from the stretch's first snapshot, and the changes that are sent."""
        source = self.source.alone()
        changes = LakeChanges(source, self.ids)
        for operation in sorted(source.made):
            if operation in self.refused:
                raise self.refused[operation]
        return changes.seq, decode(changes)


def stretches(session: Session, publications: Sequence[str], table: int, start: int, end: int) -> Iterator[SentStretch]:
    """The transactions that finish at `start` or later and before `end`; `table` is the one that is sent."""
    transactions, _ = read(session, start, end)
    group: list[LakeTransaction] = []
    for transaction in transactions:
        if group and any(s.stretch != group[0].snapshots[0].stretch for s in transaction.snapshots):
            yield _stretch(session, publications, table, group)
            group = []
        group.append(transaction)
    if group:
        yield _stretch(session, publications, table, group)


def _stretch(
    session: Session, publications: Sequence[str], table: int, group: Sequence[LakeTransaction]
) -> SentStretch:
    base = group[0].first
    plans = Plans(session, publications, group[0].snapshots[0].stretch)
    transactions = [numbered(transaction, base) for transaction in group]
    snapshots = [snapshot for transaction in group for snapshot in transaction.snapshots]
    stretch = SentStretch(transactions, base, [], [])
    if len({s.stretch for s in snapshots}) > 1 or any(transaction.two_phase is not None for transaction in group):
        stretch.ranges = None
        return stretch
    changed = sorted({oid for s in snapshots for oid in changed_tables(s)})
    sent = [plan for oid in changed if (plan := plans.of(oid)) is not None and plan.sent_as.oid == table]
    for seq, message in truncate_messages(plans, snapshots, base):
        if any(relation.relid == table for relation in message.relations):
            stretch.truncates.append((seq, next(t for t in transactions if t.first_seq <= seq <= t.last_seq)))
    sources = table_changes(session, sent, snapshots, base) if sent else []
    stretch.ranges = []
    for source in sources:
        if not source.is_sure or not source.is_portable or source.relation != sources[0].relation:
            stretch.ranges = None
            return stretch
        refused = {}
        for operation in sorted(source.plan.operations & {"update", "delete"}):
            try:
                check_sendable(plans.past, source.plan, operation)
            except PgError as error:
                refused[operation] = error
        stretch.ranges += [SentRange(source, ids, refused) for ids in source.ranges()]
    return stretch
