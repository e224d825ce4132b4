"""Writes applied changes to the lake; and prepared transactions of a publisher, under the GID
`pg_gid_<subscription>_<xid>`.

If no slot decodes this database: one write for each table with the net effect, one snapshot for the batch. If one
does: each transaction of the publisher by itself, with all changes; when a row is changed again, the next snapshot
begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.locks.lock_table import EXCLUSIVE, LockKind, LockRequest, RelationMode, RowMode
from pgrepl.catalog.store import store, tables
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.lake import commit, prepared
from pgrepl.lake.changes.history import COMMIT, PREPARE
from pgrepl.lake.commit import LockedByOthers, RowChanges
from pgrepl.lake.storage import crash_point
from pgrepl.lake.table import lake_table
from pgrepl.lake.write.statement import Write
from pgrepl.replication.publisher.slots import is_decoded
from pgrepl.replication.subscriber.apply.play import Player
from pgrepl.replication.subscriber.apply.progress import Changed, Emptied, Entry, LiveRow
from pgrepl.replication.subscriber.history import commit_prepared
from pgrepl.rows.locking import change_lock, key_lock
from pgrepl.rows.unique import all_unique_indexes, unique_index

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.subscriber.apply.overlay import Overlay
    from pgrepl.replication.wire.messages import Phase, WireTransaction


def write(session: Session, player: Player, origin: str, *, continued: bool = False) -> None:
    """Write the applied changes. `continued`: they begin in the middle of a transaction."""
    _wait_for_keys(session, player)
    player.logs.begin(player.journal)
    if is_decoded(session):
        _write_each(session, player, origin, continued=continued)
    else:
        _write_net(session, player, origin)


def _wait_for_keys(session: Session, player: Player) -> None:
    """Raise LockedByOthers if another transaction writes one of the keys; prepared ones hold them for long."""
    locks = session.transaction.locks
    oids = [overlay.relation.oid for overlay in player.overlays.values()]
    if not locks.are_held_by_others(LockKind.KEY, oids, (EXCLUSIVE,)):
        return
    for overlay in player.overlays.values():
        held = locks.first_key(overlay.relation.oid, keys_of(session, overlay))
        if held is not None:
            raise LockedByOthers(held)


def keys_of(session: Session, overlay: Overlay) -> Iterator[LockRequest]:
    """The locks of the unique keys of the new versions of rows."""
    relation = overlay.relation
    indexes = [unique_index(session, relation, info) for info in all_unique_indexes(session, relation)]
    for step in overlay.steps() if indexes else ():
        for index in indexes:
            values = None if step.row is None else index.values(step.row)
            if values is not None:
                yield key_lock(overlay.relation.oid, index, values)


# --- the net effect ---------------------------------------------------------------------------------------------------


def _write_net(session: Session, player: Player, origin: str) -> None:
    """Write the snapshot that empties tables, and the one with the results for rows."""
    if player.truncated:
        emptied = [oid for oid, overlay in player.overlays.items() if overlay.truncated]
        _empty(session, emptied, player.truncated, {"origin": origin}, restart_identity=player.restarts)
    _change(session, player, origin)
    session.transaction.numbering.store_snapshot()


def _empty(
    session: Session, emptied: Iterable[int], oids: Sequence[int], extra: dict[str, Any], *, restart_identity: bool
) -> None:
    writes = []
    for oid in emptied:
        writes.append(Write(session, lake_table(session, oid)))
        writes[-1].truncate()
    truncate = {"tables": list(oids), "cascade": False, "restart_identity": restart_identity}
    commit.record_writes(session, writes, {**extra, "truncate": truncate})
    session.transaction.numbering.store_snapshot()


def _change(session: Session, player: Player, origin: str) -> None:
    logged: dict[int, Write] = {}
    for transaction, entries in player.journal.transactions:
        player.logs.enter(logged, transaction, entries)
    writes = list(logged.values())
    for overlay in player.overlays.values():
        steps = list(overlay.steps())
        if not steps:
            continue
        change = Write(session, lake_table(session, overlay.relation.oid))
        change.has_free_keys = True
        for step in steps:
            row = None if step.row is None else change.table.lake_row(step.row)
            if row is None:
                assert step.place is not None
                change.delete([step.place])
            elif step.place is None:
                change.insert([row])
            else:
                change.update(step.place, row)
        writes.append(change)
    if writes:
        commit.record_writes(session, writes, {"origin": origin})


# --- every change -----------------------------------------------------------------------------------------------------


def _write_each(session: Session, player: Player, origin: str, *, continued: bool) -> None:
    for transaction, entries in player.journal.transactions:
        if not continued:
            session.transaction.numbering.begin_group()
        continued = False
        run = _Run(session, said(origin, transaction))
        for entry in entries:
            run.add(entry)
        run.end()
        logged: dict[int, Write] = {}
        player.logs.enter(logged, transaction, entries)
        run.log(list(logged.values()))


def said(origin: str, transaction: WireTransaction | None) -> dict[str, Any]:
    """The origin, end and commit time of the received transaction, for commit_extra_info: they are sent on to further
    subscribers."""
    if transaction is None:
        return {"origin": origin}
    return {"origin": origin, "origin_lsn": transaction.end_lsn, "committed_at": transaction.committed_at}


class _Run:
    """Changes that one snapshot can show: none of them is of a row that another has changed."""

    def __init__(self, session: Session, extra: dict[str, Any]) -> None:
        self._session = session
        self._extra = extra
        self._changes: list[Changed] = []
        self._touched: set[LiveRow] = set()

    def add(self, entry: Entry) -> None:
        if isinstance(entry, Emptied):
            self.end()
            restart = entry.restart_identity
            _empty(self._session, entry.tables, entry.oids, self._extra, restart_identity=restart)
            return
        if entry.live in self._touched:
            self.end()
        self._touched.add(entry.live)
        self._changes.append(entry)

    def end(self) -> None:
        """Commit the snapshot."""
        if not self._changes:
            return
        session = self._session
        writes: dict[int, Write] = {}
        for change in self._changes:
            oid = change.table.oid
            table_write = writes.get(oid)
            if table_write is None:
                table_write = writes[oid] = Write(session, lake_table(session, oid))
                table_write.keeps_places = table_write.has_free_keys = True
            _add(table_write, change)
        is_found_so = len(writes) == 1 and _is_found_so(self._changes)
        commit.record_writes(session, list(writes.values()), self._extra)
        row_ids = self._arrive(writes)
        if not is_found_so:
            session.transaction.numbering.note("order", _order(self._changes, row_ids))
        session.transaction.numbering.store_snapshot()
        self._changes, self._touched = [], set()

    def log(self, writes: list[Write]) -> None:
        """Commit what the transaction has written into the logs of tables, which is the last of its snapshots."""
        if writes:
            commit.record_writes(self._session, writes, self._extra)
            self._session.transaction.numbering.store_snapshot()

    def _arrive(self, writes: dict[int, Write]) -> list[int]:
        """Note the new places of the rows, for later changes; returns the rows' ids."""
        inserted = {oid: iter(write.inserted) for oid, write in writes.items()}
        row_ids = []
        for change in self._changes:
            live = change.live
            if change.is_new:
                live.place = next(inserted[change.table.oid])
            assert live.place is not None
            row_ids.append(live.place.row)
            live.place = writes[change.table.oid].moved.get(live.place.row, live.place)
        return row_ids


def _add(write: Write, change: Changed) -> None:
    place = change.live.place
    if change.is_new:
        assert change.row is not None
        write.insert([write.table.lake_row(change.row)])
        return
    assert place is not None
    if change.row is None:
        write.delete([place])
    else:
        write.update(place, write.table.lake_row(change.row))


def _is_found_so(changes: Sequence[Changed]) -> bool:
    """Whether changes of one table are in the order in which lake.changes reads them: deleted rows as they stand in
    files, then new rows, then new versions."""
    before = (0, 0, 0)
    for change in changes:
        if change.row is not None:
            place = (1 if change.is_new else 2, 0, 0)
        else:
            where = change.live.place
            assert where is not None
            if where.file is None or where.pos is None:
                return len(changes) == 1
            place = (0, where.file, where.pos)
        if place < before:
            return False
        before = place
    return True


def _order(changes: Sequence[Changed], row_ids: Sequence[int]) -> list[list[int]]:
    """The order of changes for commit_extra_info: tables, each with the ids of its rows."""
    order: list[list[int]] = []
    for change, row_id in zip(changes, row_ids, strict=True):
        table = change.table.oid
        if not order or order[-1][0] != table:
            order.append([table])
        order[-1].append(row_id)
    return order


# --- two phase --------------------------------------------------------------------------------------------------------


_MESSAGES = {PREPARE: "PREPARE", COMMIT: "COMMIT PREPARED"}


def message_type(phase: Phase) -> str:
    return _MESSAGES.get(phase.kind, "ROLLBACK PREPARED")


def prepare(
    session: Session, subscription: tables.pg_subscription, transaction: WireTransaction, player: Player | None
) -> None:
    """Prepare the applied transaction; `player` None: the transaction is skipped, and prepared without changes."""
    phase = transaction.phase
    assert phase is not None
    gid = gid_of(subscription, transaction)
    before = prepared.found(session, gid)
    if before is not None and before.origin_lsn == phase.prepare_end_lsn:
        return  # it was sent before
    prepared.check_enabled(session)
    if not session.transaction.locks.possible:
        raise unsupported("PREPARE TRANSACTION in a catalog on a PostgreSQL server")
    origin = subscriptions.origin_name(subscription.oid)
    numbering = session.transaction.numbering
    numbering.store_snapshot()
    if player is not None:
        player.logs.begin(player.journal)
    changes = RowChanges(session, numbering.last_snapshot())
    if player is not None:
        _lock(session, list(_wanted(session, player)))
        with session.transaction.collecting(changes):
            write(session, player, origin)
            numbering.store_snapshot()
    crash_point("apply.prepared")
    numbering.begin_group()
    prepared.record(session, gid, changes, phase.prepare_end_lsn, phase.prepared_at)
    _note(session, said(origin, transaction))


def end(session: Session, subscription: tables.pg_subscription, transaction: WireTransaction) -> None:
    """Carry out COMMIT PREPARED or ROLLBACK PREPARED."""
    phase = transaction.phase
    assert phase is not None
    gid = gid_of(subscription, transaction)
    waiting = prepared.found(session, gid)
    if phase.kind == COMMIT:
        if waiting is None:
            if not prepared.was_prepared(session, gid):
                return  # it was empty: of such a one a server of 16 tells the end alone
            raise PgError("42704", f'prepared transaction with identifier "{gid}" does not exist')
    elif waiting is None or (waiting.origin_lsn, waiting.origin_at) != (phase.prepare_end_lsn, phase.prepared_at):
        return  # it has not been received (LookupGXact)
    session.transaction.numbering.begin_group()
    prepared.finish(session, waiting, commit=phase.kind == COMMIT)
    if phase.kind == COMMIT:
        commit_prepared(session, subscription, transaction)
    _note(session, said(subscriptions.origin_name(subscription.oid), transaction))


def gid_of(subscription: tables.pg_subscription, transaction: WireTransaction) -> str:
    """The GID of a publisher's transaction (TwoPhaseTransactionGid)."""
    return f"pg_gid_{subscription.oid}_{transaction.xid}"


def prepared_of(session: Session, subscription: tables.pg_subscription) -> list[str]:
    """The prepared transactions of a subscription."""
    waiting = store.rows(session, tables.pgrepl_prepared, datid=subscription.subdbid)
    return [row.gid for row in waiting if row.gid.startswith(f"pg_gid_{subscription.oid}_")]


def roll_back_prepared(session: Session, subscription: tables.pg_subscription) -> None:
    """Roll back the prepared transactions of a subscription, whose ends no slot will send."""
    for gid in prepared_of(session, subscription):
        waiting = prepared.found(session, gid)
        assert waiting is not None
        session.transaction.numbering.begin_group()
        prepared.finish(session, waiting, commit=False)
        session.transaction.numbering.store_snapshot()


def _note(session: Session, what: dict[str, Any]) -> None:
    """Note the origin of the snapshot just begun."""
    for key, value in what.items():
        session.transaction.numbering.note(key, value)
    session.transaction.numbering.store_snapshot()


# --- locks ------------------------------------------------------------------------------------------------------------


def _lock(session: Session, wanted: list[LockRequest]) -> None:
    """Take all locks without waiting: the session holds the catalog's write lock."""
    locks = session.transaction.locks
    locks.table.remove_dead_holders(locks.entered.id)
    blocked = locks.table.take(locks.entered.id, wanted, locks.level)
    if blocked is not None:
        raise LockedByOthers(blocked)


def _wanted(session: Session, player: Player) -> Iterator[LockRequest]:
    for oid in player.truncated:
        yield LockRequest(LockKind.RELATION, oid, 0, RelationMode.ACCESS_EXCLUSIVE)
    for overlay in player.overlays.values():
        yield LockRequest(LockKind.RELATION, overlay.relation.oid, 0, RelationMode.ROW_EXCLUSIVE)
        yield from _of_rows(session, overlay)


def _of_rows(session: Session, overlay: Overlay) -> Iterator[LockRequest]:
    oid = overlay.relation.oid
    has_keys = bool(all_unique_indexes(session, overlay.relation))
    for step in overlay.steps():
        if step.place is not None:
            yield LockRequest(LockKind.ROW, oid, step.place.row, RowMode.UPDATE)
            if has_keys:
                yield change_lock(oid, step.place.row)
    yield from keys_of(session, overlay)
