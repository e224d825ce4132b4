"""Row locks of INSERT, UPDATE, DELETE and SELECT FOR UPDATE, and locks of unique keys, held until the transaction ends.

A statement finds its rows as of its snapshot and locks them one after the other. Of a row that was waited for READ
COMMITTED checks the newer version again (EvalPlanQual); REPEATABLE READ and SERIALIZABLE fail (40001).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from pgrepl.catalog.facts.relation import relation, relation_or_none
from pgrepl.catalog.locks.lock_table import EXCLUSIVE, LockKind, LockRequest, RelationMode, RowMode
from pgrepl.catalog.locks.locks import Wait
from pgrepl.expr.catalog_trees import index_infos
from pgrepl.ground.errors import PgError
from pgrepl.lake.read.data_file import PROVISIONAL, RowPlace, own_rows
from pgrepl.lake.table import lake_table
from pgrepl.rows.changes import ModifiedRow, Row
from pgrepl.types.lake.forms import ctid

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.rows.unique import UniqueIndex


def key_lock(table: int, index: UniqueIndex, values: tuple[Any, ...]) -> LockRequest:
    """The lock of a key of a unique index; `values` as the index holds them."""
    digest = blake2b(repr((index.info.oid, index.key(values))).encode(), digest_size=8).digest()
    return LockRequest(LockKind.KEY, table, int.from_bytes(digest, "big") >> 1, EXCLUSIVE)


def change_lock(table: int, row_id: int) -> LockRequest:
    """The lock of a row with unique keys that is changed or deleted: a transaction that finds one of its keys taken
    waits for it."""
    return LockRequest(LockKind.CHANGE, table, row_id, EXCLUSIVE)


class Standing(NamedTuple):
    """A row of a table, at the place where the statement found it."""

    table: int
    place: RowPlace


class Newer(NamedTuple):
    """The newest version of a row, in the layout of its table."""

    place: RowPlace
    row: Row


# --- tables ---------------------------------------------------------------------------------------------------------


def others_hold_locks(session: Session) -> bool:
    """Whether a statement outside a block, with the catalog's write lock, must take locks as in a block, because other
    transactions hold some. The write lock is then released, and the statement begins again."""
    transaction = session.transaction
    if session.in_block or not transaction.can_keep_pending:
        return False
    if not transaction.locks.has_others():
        transaction.is_alone = True
        return False
    transaction.release_write()
    transaction.prefers_pending = True
    return True


def lock_tables(session: Session, tables: Iterable[int], mode: RelationMode) -> bool:
    """Lock the tables of a statement that is about to begin. True: another transaction has changed something since the
    analysis."""
    locks = session.transaction.locks
    fresh = [LockRequest(LockKind.RELATION, oid, 0, int(mode)) for oid in tables if not locks.has_relation(oid, mode)]
    if not fresh:
        return False
    locks.take(fresh)
    session.beside.wait_for_writers()
    _check_that_they_are_left(session, [lock.object for lock in fresh])
    return session.transaction.refresh()


def _check_that_they_are_left(session: Session, tables: Sequence[int]) -> None:
    """A transaction that keeps its snapshot cannot change a table that others have dropped since. (In PostgreSQL names
    are looked up in the catalog as it is now, so that it would go on with a new table of the name.)"""
    transaction = session.transaction
    if not transaction.keeps_snapshot or transaction.is_writing:  # who writes keeps others from it
        return
    with session.beside.newest() as now:
        if any(relation_or_none(now, oid) is None for oid in tables):
            raise PgError("40001", "could not serialize access due to concurrent update")


# --- rows -----------------------------------------------------------------------------------------------------------


def lock_rows(
    session: Session, rows: Sequence[Standing], modes: Sequence[RowMode], *, verb: str, blocked: Wait = Wait.BLOCK
) -> tuple[set[Standing], dict[Standing, Newer | None]]:
    """Lock rows in their order. Returns the rows skipped, and the rows that others have changed since the snapshot,
    with their newest version (None: deleted)."""
    transaction = session.transaction
    wanted = [
        LockRequest(LockKind.ROW, row.table, row.place.row, int(mode)) for row, mode in zip(rows, modes, strict=True)
    ]

    def context(lock: LockRequest) -> str:
        page, item = ctid(lock.item)
        return f'while {verb} tuple ({page},{item}) in relation "{relation(session, lock.object).name}"'

    skipped, _ = transaction.locks.take(
        [request for request in wanted if request.item < PROVISIONAL], context=context, blocked=blocked
    )
    left_out = set(skipped)
    missed = {row for row, lock in zip(rows, wanted, strict=True) if lock in left_out}
    changed = changed_since(session, [row for row in rows if row not in missed])
    if changed:
        weak = {row for row, mode in zip(rows, modes, strict=True) if mode is RowMode.KEY_SHARE}
        changed = {row: new for row, new in changed.items() if row not in weak or not _has_its_keys(session, row, new)}
    return missed, changed


def _has_its_keys(session: Session, row: Standing, newer: Newer | None) -> bool:
    """Whether a newer version has the keys of the row found: FOR KEY SHARE ignores changes of other columns
    (heap_lock_tuple)."""
    if newer is None:
        return False
    before = as_found(session, row)
    return before is not None and all(before.row[n - 1] == newer.row[n - 1] for n in key_columns(session, row.table))


def changed_since(session: Session, rows: Iterable[Standing]) -> dict[Standing, Newer | None]:
    """The rows that others have changed since the statement's snapshot; the caller holds locks on all of them."""
    from pgrepl.lake.read.local import begun_after, newest, standing

    transaction = session.transaction
    if transaction.is_writing:
        return {}
    session.beside.wait_for_writers()
    snapshot = transaction.numbering.committed_snapshot()
    by_table: dict[int, list[Standing]] = {}
    changed: dict[Standing, Newer | None] = {}
    with session.beside.newest() as now:
        if now.transaction.numbering.committed_snapshot() == snapshot:
            return {}
        for locked in rows:
            by_table.setdefault(locked.table, []).append(locked)
        for oid, here in by_table.items():
            table = lake_table(now, oid)
            mine = own_rows(session, table.table_id)
            asked = [locked for locked in here if locked.place.row < PROVISIONAL and locked.place.row not in mine]
            places = [locked.place for locked in asked]
            there = standing(now, table, places) - begun_after(now, table, places, snapshot)
            moved = {locked.place.row: locked for locked in asked if locked.place not in there}
            if not moved:
                continue
            width = len(relation(now, oid).attributes)
            rows_now = newest(now, table, [column.attnum for column in table.columns], moved)
            for row_id, locked in moved.items():
                row = rows_now.get(row_id)
                changed[locked] = None if row is None else Newer(row[-1], table.own_row(width, row[:-1]))
    return changed


def as_found(session: Session, standing: Standing) -> Newer | None:
    """The row as the statement's snapshot has it."""
    from pgrepl.lake.read.local import newest

    table = lake_table(session, standing.table)
    newest_rows = newest(session, table, [column.attnum for column in table.columns], [standing.place.row])
    row = newest_rows.get(standing.place.row)
    width = len(relation(session, standing.table).attributes)
    return None if row is None else Newer(row[-1], table.own_row(width, row[:-1]))


def refuse_changed(session: Session, changed: Mapping[Standing, Newer | None], *, locking: bool = False) -> None:
    """A transaction that keeps its snapshot fails for rows that others have changed since. `locking`: a statement that
    only locks them is told of an update in any case (ExecLockRows)."""
    if changed and session.transaction.keeps_snapshot:
        row, newer = next(iter(changed.items()))
        what = "delete" if newer is None and not locking and not _was_updated(session, row) else "update"
        raise PgError("40001", f"could not serialize access due to concurrent {what}")


def _was_updated(session: Session, row: Standing) -> bool:
    """Whether others have updated the row before it was deleted."""
    from pgrepl.lake.read.local import updated_after

    snapshot = session.transaction.numbering.committed_snapshot()
    with session.beside.newest() as now:
        return updated_after(now, lake_table(now, row.table), row.place.row, snapshot)


def lock_changes(session: Session, changes: Sequence[ModifiedRow], verb: str) -> dict[Standing, Newer | None]:
    """Lock the rows to change; those that another transaction has changed since."""
    rows = {Standing(change.table, change.place): change for change in changes if change.place is not None}
    modes = [mode_of(session, change) for change in rows.values()]
    _, changed = lock_rows(session, list(rows), modes, verb=verb)
    refuse_changed(session, changed)
    return changed


def mode_of(session: Session, change: ModifiedRow) -> RowMode:
    """The row lock of an UPDATE or DELETE: an UPDATE of no key column leaves room for FOR KEY SHARE
    (HeapDetermineColumnsInfo, INDEX_ATTR_BITMAP_KEY)."""
    if change.new is None or change.old is None or (change.to and change.to != change.table):
        return RowMode.UPDATE
    keys = key_columns(session, change.table)
    if any(change.old[n - 1] != change.new[n - 1] for n in keys):
        return RowMode.UPDATE
    return RowMode.NO_KEY_UPDATE


def key_columns(session: Session, oid: int) -> frozenset[int]:
    """The columns of a table that foreign keys could reference."""
    key = ("key_columns", oid)
    known: frozenset[int] | None = session.derived.get(key)
    if known is None:
        infos = index_infos(session, oid) if relation(session, oid).has_index else ()
        known = frozenset(
            number
            for info in infos
            if info.unique and not info.exprs and info.predicate is None
            for number in info.columns[: info.key_count]
        )
        session.derived[key] = known
    return known


# --- keys -----------------------------------------------------------------------------------------------------------


def lock_keys(session: Session, changes: Sequence[ModifiedRow], arbiters: Collection[int] | None = None) -> None:
    """Lock the unique keys of new rows, and the changes of rows that have unique keys. A transaction that wants to
    write one of them waits; afterwards the newest state decides about duplicates. With the `arbiters` of ON CONFLICT a
    row whose key exists is not inserted, and its keys are not locked."""
    from pgrepl.rows.unique import all_unique_indexes, unique_index

    indexes: dict[int, list[UniqueIndex]] = {}
    wanted: dict[LockRequest, None] = {}
    if arbiters is not None:
        session.transaction.refresh()
    for change in changes:
        for oid in {change.table, change.to or change.table} - indexes.keys():
            rel = relation(session, oid)
            indexes[oid] = [unique_index(session, rel, info) for info in all_unique_indexes(session, rel)]
        if change.place is not None and change.place.row < PROVISIONAL and indexes[change.table]:
            wanted[change_lock(change.table, change.place.row)] = None
        if change.new is None:
            continue
        to = change.to or change.table
        keys = [(index, values) for index in indexes[to] if (values := index.values(change.new)) is not None]
        if arbiters is not None:
            taken = {index.info.oid for index, values in keys if next(iter(index.find([values])), None) is not None}
            keys = (
                []
                if taken and (not arbiters or taken & set(arbiters))
                else [key for key in keys if key[0].info.oid not in taken]
            )
        for index, values in keys:
            if change.old is not None and to == change.table and _same(index, change):
                continue
            wanted[key_lock(to, index, values)] = None
    if wanted:
        session.transaction.locks.take(list(wanted))
        session.beside.wait_for_writers()
        session.transaction.refresh()


def lock_new_keys(session: Session, change: ModifiedRow) -> None:
    """Lock the keys that ON CONFLICT DO UPDATE gives to a row."""
    keys = key_columns(session, change.table)
    assert change.old is not None and change.new is not None
    if any(change.old[n - 1] != change.new[n - 1] for n in keys) or _has_other_keys(session, change.table):
        lock_keys(session, [change])


def _has_other_keys(session: Session, oid: int) -> bool:
    """Whether the table has unique indexes with expressions or a predicate."""
    rel = relation(session, oid)
    infos = index_infos(session, oid) if rel.has_index else ()
    return any(info.unique and (info.exprs or info.predicate is not None) for info in infos)


def _same(index: UniqueIndex, change: ModifiedRow) -> bool:
    assert change.old is not None and change.new is not None
    return index.of_row(change.old) == index.of_row(change.new)


def wait_for_changes(session: Session, table: int, places: Iterable[RowPlace]) -> bool:
    """Wait for transactions that change or delete these rows, which have the keys of new rows. True: there were any."""
    locks = session.transaction.locks
    if not locks.are_held_by_others(LockKind.CHANGE, [table], (EXCLUSIVE,)):
        return False
    waited = False
    for place in places:
        if locks.wait_for(change_lock(table, place.row)):
            waited = True
    if waited:
        session.beside.wait_for_writers()
        session.transaction.refresh()
    return waited


def lock_conflicting(session: Session, table: int, places: Iterable[RowPlace]) -> bool:
    """Lock the existing rows of ON CONFLICT DO UPDATE. True: others have changed any of them."""
    rows = [Standing(table, place) for place in places if place.row < PROVISIONAL]
    if not rows:
        return False
    _, changed = lock_rows(session, rows, [RowMode.NO_KEY_UPDATE] * len(rows), verb="locking")
    refuse_changed(session, changed)
    session.transaction.locks.take([LockRequest(LockKind.CHANGE, table, row.place.row, EXCLUSIVE) for row in rows])
    return bool(changed) and session.transaction.refresh()
