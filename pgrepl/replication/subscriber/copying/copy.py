"""The initial copy of one table of a subscription (tablesync.c).

A table goes from i to d while a copy is under way, and with the commit that brings its rows to s, caught up to the
copy's LSN; the main stream makes it r. If that has passed the LSN it goes to f, and from there to s by a stream of
its own. Each attempt has its own slot. Rows are received and checked without a lock, as COPY's are: constraints yes,
foreign keys only if their triggers are enabled for replicas. A table with such triggers is copied under the lock
(triggers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import inheritors, partition_root
from pgrepl.catalog.facts.subscription import sync_slot_name
from pgrepl.catalog.store import tables
from pgrepl.engine import spark
from pgrepl.ground.errors import PgError
from pgrepl.lake.changes.history import snapshots
from pgrepl.lake.commit import Stale, check_unchanged
from pgrepl.lake.read.files import estimate, last_snapshot
from pgrepl.lake.storage import crash_point
from pgrepl.lake.table import lake_table
from pgrepl.replication.origins import create_origin, drop_origin, origin_or_none
from pgrepl.replication.publisher.protocol import (
    KeyRanges,
    Publisher,
    PublisherCatalog,
    PublisherError,
    TableCopies,
    not_copied,
    not_created,
    not_received,
)
from pgrepl.replication.publisher.tables import (
    CountRows,
    KeyRange,
    RemoteDefinition,
    TableCopy,
    Undivided,
    WantedRanges,
    definition_of,
)
from pgrepl.replication.subscriber import history, lease, state
from pgrepl.replication.subscriber.apply import triggers
from pgrepl.replication.subscriber.apply.overlay import Overlay
from pgrepl.replication.subscriber.apply.play import Player
from pgrepl.replication.subscriber.apply.progress import Progress
from pgrepl.replication.subscriber.apply.target import TargetTable, differing_types
from pgrepl.replication.subscriber.apply.triggers import (
    Lines,
    acting_for,
    check_target_privilege,
    fire_in_pieces,
    has_triggers,
)
from pgrepl.replication.subscriber.apply.write import write
from pgrepl.replication.subscriber.context import WorkerContext, despite_locks
from pgrepl.replication.subscriber.copying import ranges
from pgrepl.replication.subscriber.copying.columns import StagedCopy, stage_copy
from pgrepl.replication.subscriber.copying.ranges import CopyRanges
from pgrepl.replication.subscriber.lease import SubscriptionChanged, WorkerFailed, asking, working
from pgrepl.replication.subscriber.schema_changes.columns import added, copied, define, described, remember
from pgrepl.replication.wire.messages import Row, SentColumn
from pgrepl.replication.wire.values import WIRE_STYLE
from pgrepl.rows.checks_table import Router
from pgrepl.rows.triggers import inserts_one_by_one
from pgrepl.types.text import writer
from pgrepl.writing.copy.reader import BATCH_BYTES, BATCH_ROWS

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


PORTION = 5000  # rows looked up together
_ATTEMPTS = 3  # without the lock
_NULL = 2  # characters: \\N
_LOCKED = 16  # the part of a range's size that is copied together while the write lock is held


def copy_table(
    context: WorkerContext,
    relid: int,
    between: Callable[[], bool] | None = None,
    alone: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> int | None:
    """Bring a table from i or d to s or f; returns the number of rows. None: it needs no copy any more. `between`: for
    a table that is copied in pieces; it is called after each round of ranges, and tells whether to go on. `alone`: lets
    the main stream wait, if it goes on meanwhile."""
    pieces = between is not None
    slot = _begin(context, relid, in_pieces=pieces)
    if slot is None:
        return None
    count = 0
    while True:
        copied, attempts = None, 0
        while copied is None:
            finish = partial(_finish, context, relid, alone, locked=attempts >= _ATTEMPTS, pieces=pieces)
            copied = despite_locks(context, finish)
            attempts += 1
        count += copied.rows
        if copied.is_whole or between is None:
            break
        if not between():
            return count
    context.copies.ended(relid)
    return count


class _Copied(NamedTuple):
    """The number of rows that a round has copied, and whether no ranges are left."""

    rows: int
    is_whole: bool
    is_behind: bool = False  # the main stream has gone on since


def _begin(context: WorkerContext, relid: int, *, in_pieces: bool) -> str | None:
    """Set the table's state to d, then create the slot of this attempt. None: the table needs no copy any more. A table
    that is copied in pieces needs no slot."""
    session = context.session
    with context.transaction() as subscription:
        publisher = context.connection.publisher(subscription)
        current = state.table_state(session, subscription.oid, relid)
        if current not in (subscriptions.INIT, subscriptions.DATASYNC):
            return None
        definition = _definition(session, subscription, relid, publisher.catalog)
        context.lock(subscription)
        if definition is not None:
            _add_columns(context, subscription, relid, definition)
        origin = subscriptions.origin_name(subscription.oid, relid)
        if current == subscriptions.INIT:
            state.set_table_state(session, subscription.oid, relid, subscriptions.DATASYNC, None)
        if origin_or_none(session, origin) is None:
            create_origin(session, origin)
        lease.begin(session, subscription.oid, relid, context.token)
        slot = sync_slot_name(session, subscription.oid, relid)
    session.link.flush()  # after a power cut the next attempt must know that there may be a slot
    crash_point("copy.begun")
    slots = publisher.slots
    if in_pieces or slots is None:
        return ""
    if current == subscriptions.DATASYNC:  # an attempt before this one
        with suppress(PublisherError):
            slots.drop(slot)
    try:
        slots.create(slot, two_phase=False, failover=bool(subscription.subfailover))
    except PublisherError as error:
        raise WorkerFailed(not_created(slot, error)) from None
    crash_point("copy.slot")
    return slot


def copy_again(context: WorkerContext, relids: Collection[int]) -> None:
    """Empty tables, and have them copied anew. The main stream leaves them alone until they are."""
    session = context.session
    with context.transaction() as subscription:
        context.lock(subscription, state.position(session, subscription.oid))
        origin = subscriptions.origin_name(subscription.oid)
        for relid in sorted(relids):
            if not state.table_state(session, subscription.oid, relid):
                raise SubscriptionChanged
            table = relation(session, relid)
            player = Player(session, subscription, Progress(origin), lambda relid, lsn: True)
            player.journal.begin(None)
            with context.session.acting_as(subscription.subowner), acting_for(session, subscription, table), working():
                player.truncate([table], restart_identity=False)
                write(session, player, origin)
            ranges.forget(session, subscription.oid, relid)
            was_ready = state.table_state(session, subscription.oid, relid) in (subscriptions.INIT, subscriptions.READY)
            again = subscriptions.INIT if was_ready else subscriptions.DATASYNC  # there may be a slot
            state.set_table_state(session, subscription.oid, relid, again, None)
        crash_point("again.emptied")


def divide_tables(context: WorkerContext, relids: Sequence[int]) -> set[int]:
    """Divide the large ones of these tables, so that they are copied in pieces; those are returned. The log is told
    which of them cannot be divided: their interrupted copies begin again."""
    session = context.session
    with context.transaction() as subscription:
        publisher = context.connection.publisher(subscription)
        known = ranges.copy_ranges(session, subscription.oid)
        key_ranges = None if publisher.copies is None else publisher.copies.ranges
        answers = {relid: _divided(session, subscription, relid, key_ranges) for relid in relids if relid not in known}
        divided = {relid: answer for relid, answer in answers.items() if isinstance(answer, CopyRanges)}
        if divided:
            context.lock(subscription, state.position(session, subscription.oid))
            for relid, copied_ranges in divided.items():
                ranges.store(session, subscription.oid, relid, copied_ranges)
        whole = [
            (relation(session, relid).qualified_name, answer.reason)
            for relid, answer in answers.items()
            if isinstance(answer, Undivided)
        ]
    for name, reason in whole:
        text = f'subscription "{subscription.subname}": table {name} is copied as a whole, because {reason}'
        context.log.log(text, detail="If the copy is interrupted, it begins again.")
    return {relid for relid in relids if relid in known or relid in divided}


def _divided(
    session: Session, subscription: tables.pg_subscription, relid: int, key_ranges: KeyRanges | None
) -> CopyRanges | Undivided | None:
    """The ranges of a large table's key; None: it is smaller."""
    table = relation(session, relid)
    size = int(session.settings.value("pgrepl.copy_range_size")) * 1024
    if key_ranges is None or not size:
        return None
    fires_by_row = fire_in_pieces(session, relid)
    if fires_by_row and has_triggers(session, relid):
        size = max(size // _LOCKED, 1)
    try:
        with asking():
            answer = key_ranges.divide(table.schema, table.name, subscription.subpublications, size)
    except PgError:
        return None  # of this table at the publisher: its copy meets it, in state d, and others are copied
    if answer is None or isinstance(answer, Undivided):
        return answer
    if table.kind != "r":
        return Undivided("it is partitioned here")
    if not fires_by_row:
        return Undivided("it has triggers of statements or constraints here")
    if estimate(session, lake_table(session, relid)):
        return Undivided("it has rows here")
    if len(answer[1]) < 2:
        return Undivided("a sample of its rows does not tell where to divide it")
    copied_ranges = CopyRanges(*answer)
    copied_ranges.since = last_snapshot(session)
    return copied_ranges


def _finish(
    context: WorkerContext,
    relid: int,
    alone: Callable[[], AbstractContextManager[object]],
    *,
    locked: bool,
    pieces: bool,
) -> _Copied | None:
    """Commit the rows, or those of the next ranges, and drop the slot before the main stream makes the table ready.
    None: another session has written to the table meanwhile."""
    with ExitStack() as lonely:
        copied = _commit(context, relid, lambda: lonely.enter_context(alone()), locked=locked, pieces=pieces)
        if copied is not None:
            crash_point("copy.committed")
            if not pieces and not copied.is_behind:
                forget_slot(context, relid)
    return copied


def _commit(
    context: WorkerContext, relid: int, wait_alone: Callable[[], object], *, locked: bool, pieces: bool
) -> _Copied | None:
    """Copy the rows, or those of the next ranges, and set the state in one transaction, which holds the write lock only
    to write, unless it is `locked`."""
    session = context.session
    with context.transaction() as subscription:
        position = state.position(session, subscription.oid) if pieces else None
        locked = locked or has_triggers(session, relid)
        if locked:
            wait_alone()
            context.lock(subscription, position)
        publisher = context.connection.publisher(subscription)
        at, tree = last_snapshot(session), _tree(session, relid)
        with context.session.acting_as(subscription.subowner):
            received = _receive(context, publisher, subscription, relid, locked=locked, pieces=pieces)
        crash_point("copy.received")
        if not locked:
            wait_alone()
            context.lock(subscription, position)
        if state.table_state(session, subscription.oid, relid) != subscriptions.DATASYNC:
            raise SubscriptionChanged
        rows = received.rows
        if not locked and (_is_stale(session, rows, at) or _tree(session, relid) != tree):
            if isinstance(rows, StagedCopy):
                rows.discard()
            return None
        origin = subscriptions.origin_name(subscription.oid, relid)
        with context.session.acting_as(subscription.subowner), working():
            if isinstance(rows, StagedCopy):
                rows.write(origin)
            else:
                write(session, rows, origin)
        if not _finishes_ranges(context, subscription, relid, received):
            crash_point("range.written")
            return _Copied(received.number, False)
        is_behind = not pieces and state.position(session, subscription.oid) > received.lsn
        _set_copied(context, subscription, relid, received, is_behind=is_behind)
        crash_point("copy.written")
    return _Copied(received.number, True, is_behind)


class _Received(NamedTuple):
    """The rows of a table or of its next ranges, received and checked, and the LSN that they bring the table to."""

    rows: Player | StagedCopy
    source: TableCopy
    number: int
    lsn: int
    definition: RemoteDefinition | None
    divided: CopyRanges | None
    wanted: tuple[KeyRange, ...] | None


def _receive(
    context: WorkerContext,
    publisher: Publisher,
    subscription: tables.pg_subscription,
    relid: int,
    *,
    locked: bool,
    pieces: bool,
) -> _Received:
    session = context.session
    key_ranges = None if publisher.copies is None else publisher.copies.ranges
    definition = _definition(session, subscription, relid, publisher.catalog)
    divided = ranges.copy_ranges(session, subscription.oid)[relid] if pieces else None
    wanted = None
    if divided is not None and key_ranges is not None:
        wanted = divided.next(1 if locked else key_ranges.readers)
    with working():
        rows, source, count = _received_rows(context, subscription, relid, publisher.copies, divided, wanted)
    lsn = source.lsn
    if key_ranges is not None and divided is not None and wanted == tuple(divided.unfinished):
        with asking():  # it may take seconds, and only the last ranges bring the table to an LSN
            lsn = key_ranges.settled(lsn)
    return _Received(rows, source, count, lsn, definition, divided, wanted)


def _finishes_ranges(
    context: WorkerContext, subscription: tables.pg_subscription, relid: int, received: _Received
) -> bool:
    """Store that the round's ranges are copied; whether no ranges are left. A table that is copied whole has none."""
    divided, wanted, snapshot = received.divided, received.wanted, received.source.snapshot
    if divided is None or wanted is None or snapshot is None:
        return True
    divided.finish(wanted, snapshot)
    ranges.store(context.session, subscription.oid, relid, divided)
    context.copies.pieces_copied(relid, *divided.progress)
    return not divided.unfinished


def _set_copied(
    context: WorkerContext, subscription: tables.pg_subscription, relid: int, received: _Received, *, is_behind: bool
) -> None:
    """Set the state of a table whose rows are all written: f if the main stream has passed its LSN, else s."""
    session, lsn = context.session, received.lsn
    with working():
        history.write_copied(session, subscription, relid, lsn)
    reached = subscriptions.FINISHED_COPY if is_behind else subscriptions.SYNC_DONE
    state.set_table_state(session, subscription.oid, relid, reached, lsn)
    if subscription.subschemachanges != subscriptions.NO_SCHEMA:
        remember(session, subscription.oid, relid, copied(received.source.relation, received.definition))
    if is_behind:
        state.move(session, subscription.oid, lsn, relid)
    else:
        drop_origin(session, subscriptions.origin_name(subscription.oid, relid), missing_ok=True)
        lease.end(session, subscription.oid, relid, context.token)


def _definition(
    session: Session, subscription: tables.pg_subscription, relid: int, publisher: PublisherCatalog
) -> RemoteDefinition | None:
    """The publisher's definition of a table, if the subscription follows it, and the table is published."""
    if subscription.subschemachanges == subscriptions.NO_SCHEMA:
        return None
    table = relation(session, relid)
    with asking(), working():
        definitions = described(subscription, publisher, table.schema, table.name)
    return definition_of(definitions, table.schema, table.name)


def _add_columns(
    context: WorkerContext, subscription: tables.pg_subscription, relid: int, definition: RemoteDefinition
) -> None:
    """Add the columns that the publisher has had for longer than the table here."""
    session = context.session
    table = relation(session, relid)
    altered = partition_root(session, table)
    with context.session.acting_as(subscription.subowner), acting_for(session, subscription, altered), working():
        define(session, subscription, added(session, table, altered, definition), context.log)


def _tree(session: Session, relid: int) -> list[Relation]:
    """A partitioned table with its partitions: a change of any of them makes the copy stale. For other tables, whose
    own changes are noticed by their table id, nothing."""
    table = relation(session, relid)
    return [relation(session, oid) for oid in inheritors(session, relid)] if table.kind == "p" else []


def _is_stale(session: Session, received: Player | StagedCopy, snapshot: int) -> bool:
    relids = received.relids if isinstance(received, StagedCopy) else list(received.overlays)
    tables = [lake_table(session, relid).table_id for relid in relids]
    try:
        check_unchanged(session, tables, snapshot)
    except Stale:
        return True
    return False


def forget_slot(context: WorkerContext, relid: int) -> None:
    """Drop the slot of a copied table, after the commit. If that fails the table stays in s until a later round has
    dropped the slot, which would hold the publisher's WAL."""
    context.unforgotten.add(relid)
    with context.transaction() as subscription:
        publisher = context.connection.publisher(subscription)
        slot = sync_slot_name(context.session, subscription.oid, relid)
    try:
        if publisher.slots is not None:
            publisher.slots.drop(slot)
    except PublisherError as error:
        if error.sqlstate != "42704":
            text = f'could not drop replication slot "{slot}" on publisher: {error}'
            raise WorkerFailed(PgError("08006", text)) from None
    context.unforgotten.discard(relid)


def _received_rows(
    context: WorkerContext,
    subscription: tables.pg_subscription,
    relid: int,
    copies: TableCopies | None,
    divided: CopyRanges | None = None,
    wanted: tuple[KeyRange, ...] | None = None,
) -> tuple[Player | StagedCopy, TableCopy, int]:
    """The rows to be written, where they come from, and the number of rows. A large table is copied by columns or by
    Spark, unless a row is wrong: the copy row by row finds out which."""
    session = context.session
    table = relation(session, relid)
    if divided is None or wanted is None:
        source = _source(table, subscription, copies)
    else:
        source = _source(table, subscription, copies, WantedRanges(wanted, frozenset(context.passed)))
        if _others_write(session, subscription.oid, relid, divided.since):
            source = replace(source, spark=None, direct=None)
    player = Player(
        session, subscription, Progress(subscriptions.origin_name(subscription.oid)), lambda relid, lsn: True
    )
    progress = None if divided is None else divided.progress
    begins = partial(context.copies.begins, subscription.subname, table, source.count, progress)
    with acting_for(session, subscription, table):
        check_target_privilege(session, table, "INSERT")
        sent = replace(source.relation, schema=table.schema, name=table.name)
        try:
            if has_triggers(session, relid):
                lines = Lines(table.name, source.relation, binary=bool(subscription.subbinary) and source.may_be_binary)
                count = _load_with_triggers(context, subscription, table, source, lines, begins())
                return StagedCopy(session), source, count
            binary = bool(subscription.subbinary) and source.may_be_binary
            converted = binary and differing_types(session, table, sent)
            staged = None
            if not converted:
                with spark.described(f'subscription "{subscription.subname}": copy of {table.qualified_name}'):
                    staged = stage_copy(session, table, source, sent, begins, context.check_stopped)
            if staged is not None:
                return staged, source, staged.count
            lines = Lines(table.name, source.relation, binary=binary)
            return player, source, _load(session, player, table, source, lines, begins(), context.check_stopped)
        except PublisherError as error:
            raise not_received(error) from None


def _others_write(session: Session, subid: int, relid: int, since: int) -> bool:
    """Whether somebody else has written to a table that was empty when its copy began: their rows may have its keys."""
    ours = subscriptions.origin_name(subid), subscriptions.origin_name(subid, relid)
    written = snapshots(session, since, last_snapshot(session))
    return any(relid in snapshot.tables and snapshot.origin not in ours for snapshot in written)


def _source(
    table: Relation,
    subscription: tables.pg_subscription,
    copies: TableCopies | None,
    wanted: WantedRanges | None = None,
) -> TableCopy:
    if copies is None:
        text = f'ERROR:  files of changes have no copy of table "{table.schema}.{table.name}"'
        raise not_copied(table.qualified_name, PublisherError("0A000", text))
    named = table.schema, table.name, subscription.subpublications
    try:
        return copies.copy(*named) if wanted is None or copies.ranges is None else copies.ranges.copy(*named, wanted)
    except PublisherError as error:
        raise not_copied(table.qualified_name, error) from None


def _load(
    session: Session,
    player: Player,
    table: Relation,
    source: TableCopy,
    lines: Lines,
    count_rows: CountRows,
    check: Callable[[], None],
) -> int:
    """Insert the rows one by one, in the order of the source; returns their number."""
    progress = Progress("")
    sent = replace(source.relation, schema=table.schema, name=table.name)
    target = TargetTable(session, sent, progress, binary=lines.binary)
    router = Router(session, table) if table.kind == "p" else None
    measure = _measure(source.relation.columns)
    player.journal.begin(None)
    number = 0

    def placed(line: int, row: Row) -> _Placed:
        try:
            stored = target.complete(target.store(row))
        except PgError as error:
            raise lines.of_column(error, line, progress.column, row) from None
        try:
            leaf, there = (table, stored) if router is None else router.route(stored)
            overlay = player.overlay(leaf)
            return _Placed(line, row, overlay, overlay.checked(there))
        except PgError as error:
            raise lines.of_row(error, line, row) from None

    alone = inserts_one_by_one(session, table)
    for portion in _portions(_batches(_rows(source, lines), measure, 1 if alone else min(BATCH_ROWS, PORTION))):
        checked: list[list[_Placed]] = []
        failure: PgError | None = None
        for batch in portion:
            try:
                rows = [placed(line, row) for line, row in enumerate(batch.rows, number + 1)]
                if batch.failure is not None:
                    raise batch.failure
            except PgError as error:  # the keys of the batches before it come first
                failure = error
                break
            checked.append(rows)
            number += len(batch.rows)
        _insert([row for rows in checked for row in rows], lines, alone=alone)
        if failure is not None:
            raise failure
        count_rows(sum(len(batch.rows) for batch in portion), sum(batch.size for batch in portion))
        check()
    return number


def _rows(source: TableCopy, lines: Lines) -> Iterator[Row]:
    """The rows as they are received."""
    count = 0
    try:
        for row in source.rows:
            count += 1
            yield row
    except PublisherError as error:
        raise lines.of_number(not_received(error), count + 1) from None


class _Placed(NamedTuple):
    """A row that may be inserted, unless its keys are taken."""

    line: int
    sent: Row
    overlay: Overlay
    row: Row


class _Batch(NamedTuple):
    """Rows that PostgreSQL writes together, and their length. `failure` is that of the publisher behind them, which
    keeps them from being written."""

    rows: list[Row]
    size: int
    failure: PgError | None = None


def _batches(rows: Iterable[Row], measure: Callable[[Row], int], most: int) -> Iterator[_Batch]:
    """A batch gets its keys when all its rows have been checked."""
    rows_of_batch: list[Row] = []
    size = 0
    failure: PgError | None = None
    try:
        for row in rows:
            rows_of_batch.append(row)
            size += measure(row)
            if len(rows_of_batch) >= most or size >= BATCH_BYTES:
                yield _Batch(rows_of_batch, size)
                rows_of_batch, size = [], 0
    except PgError as error:
        failure = error
    if rows_of_batch or failure is not None:
        yield _Batch(rows_of_batch, size, failure)


def _portions(batches: Iterable[_Batch]) -> Iterator[list[_Batch]]:
    """The batches whose keys are looked up together."""
    portion: list[_Batch] = []
    count = 0
    for batch in batches:
        portion.append(batch)
        count += len(batch.rows)
        if count >= PORTION or batch.failure is not None:
            yield portion
            portion, count = [], 0
    if portion:
        yield portion


def _load_with_triggers(
    context: WorkerContext,
    subscription: tables.pg_subscription,
    table: Relation,
    source: TableCopy,
    lines: Lines,
    count_rows: CountRows,
) -> int:
    sent = replace(source.relation, schema=table.schema, name=table.name)
    origin = subscriptions.origin_name(subscription.oid)
    measure = _measure(source.relation.columns)

    def portion_read(rows: list[Row]) -> None:
        count_rows(len(rows), sum(map(measure, rows)))
        context.check_stopped()

    session = context.session
    return triggers.load(session, table, _rows(source, lines), sent, lines, origin, portion_read, PORTION)


def _measure(columns: Sequence[SentColumn]) -> Callable[[Row], int]:
    """A function for the length of a row in COPY's text format, which PostgreSQL's worker would receive."""
    writers = [writer(column.type) for column in columns]

    def measure(row: Row) -> int:
        written = [_NULL if v is None else len(w(v, WIRE_STYLE)) for v, w in zip(row, writers, strict=True)]
        return sum(written) + len(written)  # a tab or a line feed after each

    return measure


def _insert(placed: list[_Placed], lines: Lines, *, alone: bool) -> None:
    by_overlay: dict[Overlay, list[Row]] = {}
    for row in placed:
        by_overlay.setdefault(row.overlay, []).append(row.row)
    for overlay, rows in by_overlay.items():
        overlay.prefetch_keys(rows)
    for row in placed:
        try:
            row.overlay.enter(row.row)
        except PgError as error:
            if alone:
                raise lines.of_row(error, row.line, row.sent) from None
            raise lines.of_number(error, row.line) from None  # the line's text is not known any more


def tables_in(session: Session, subid: int, *states: str) -> list[int]:
    """The tables in one of these states."""
    return sorted(relid for relid, (current, _) in state.table_states(session, subid).items() if current in states)
