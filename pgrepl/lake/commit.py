"""Row changes that a transaction keeps pending until it commits, and the commit of statements' writes into the catalog.

    statement    its changes are kept as `Write`s: nothing of them is in the catalog
    commit       `replay` writes them into the catalog, each statement at a snapshot of its own

Until then the transaction sees its changes as an overlay over the catalog's rows. New rows and files have ids from
PROVISIONAL on, which are replaced at the commit. Row locks keep others from the same rows; VACUUM may have moved
them, so their places are looked up again. The transaction's COMMIT makes all of its snapshots visible at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import relation_or_none
from pgrepl.catalog.locks.lock_table import EXCLUSIVE, LockKind, LockRequest, RelationMode, RowMode, conflicts
from pgrepl.catalog.session.transaction import LockNeeded
from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import np
from pgrepl.lake import sql
from pgrepl.lake.changes.history import ROW_CHANGES, changes_after
from pgrepl.lake.commit_rows import record
from pgrepl.lake.read.data_file import PROVISIONAL, DataFile, Overlays, RowPlace, TableOverlay
from pgrepl.lake.read.inlined import as_stored
from pgrepl.lake.storage import crash_point
from pgrepl.lake.table import lake_table
from pgrepl.lake.write.statement import Write

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.table import LakeTable


@dataclass
class PendingStatement:
    """The writes of one statement, and its commit_extra_info."""

    snapshot: int  # in the transaction's own numbers
    writes: list[Write]
    extra: dict[str, Any]
    first_ids: list[tuple[int, int]]  # of each write the first row id and the first file id


class RowChanges(Overlays):
    """The pending row changes of a transaction, in `transaction.pending` from its first one on."""

    def __init__(self, session: Session, first_snapshot: int) -> None:
        super().__init__(first_snapshot)
        self.statements: list[PendingStatement] = []
        self._session = session
        self._next_row = PROVISIONAL
        self._next_file = PROVISIONAL
        self._writes: list[Write] = []  # of the running statement
        self._first_ids: list[tuple[int, int]] = []

    # --- statements -------------------------------------------------------------------------------------------------

    @property
    def last_snapshot(self) -> int:
        return self.statements[-1].snapshot if self.statements else 0

    def add(self, write: Write, snapshot: int) -> None:
        """Add a write of the running statement to one table."""
        write.stage_pending()
        self._writes.append(write)
        self._first_ids.append((self._next_row, self._next_file))
        self._lay_over(write, snapshot)

    def end_statement(self, snapshot: int, extra: dict[str, Any]) -> None:
        self.statements.append(PendingStatement(snapshot, self._writes, extra, self._first_ids))
        self._writes, self._first_ids = [], []

    @property
    def mark(self) -> int:
        return len(self.statements)

    def back_to(self, mark: int) -> None:
        """Undo the statements behind a mark, when a savepoint is rolled back or a statement has failed."""
        self.replayed = False
        if len(self.statements) == mark and not self._writes:
            return
        del self.statements[mark:]
        self._writes, self._first_ids = [], []
        self._tables = {}
        for statement in self.statements:
            for write, (row, file) in zip(statement.writes, statement.first_ids, strict=True):
                self._next_row, self._next_file = row, file
                self._lay_over(write, statement.snapshot)

    def _lay_over(self, write: Write, snapshot: int) -> None:
        table = self._tables.setdefault(write.table.table_id, TableOverlay())
        for file_id, positions in write.deletes.items():
            table.dead_positions.setdefault(file_id, {}).update(dict.fromkeys(positions, snapshot))
        for row_id in write.inlined_deletes:
            if table.remove(row_id):
                table.replaced.add(row_id)
            else:
                table.dead_rows.add(row_id)
        table.row_ids.update(write.changed_row_ids)
        for file in write.files:
            path = write.table.location + file.name
            pending = DataFile(
                self._next_file, snapshot, None, path, file.record_count, file.file_size_bytes, self._next_row, None,
                None, (),
            )  # fmt: skip
            table.files.append(pending)
            write.note_places_in_file(file, self._next_file, self._next_row)
            self._next_file += 1
            self._next_row += file.record_count
        for known, row in write.in_order():
            row_id = self._next_row if known is None else known
            if known is None:
                self._next_row += 1
            table.put(row_id, row, snapshot)
            write.note_inlined_place(row_id, new=known is None)

    # --- tables -----------------------------------------------------------------------------------------------------

    @property
    def tables(self) -> list[int]:
        return list(self._tables)

    # --- the commit -------------------------------------------------------------------------------------------------

    def replay(self) -> None:
        """Write all changes into the catalog; the session has just taken the write lock."""
        session = self._session
        numbering = session.transaction.numbering
        self.replayed = True
        ids: dict[int, _Ids] = {}
        for statement in self.statements:
            numbering.snapshot()
            for write, (row, file) in zip(statement.writes, statement.first_ids, strict=True):
                known = ids.setdefault(write.table.table_id, _Ids())
                final = _final(session, write, known, self.first_snapshot)
                written = record(session, final)
                known.add(write, row, file, written)
            for key, value in statement.extra.items():
                numbering.note(key, _ordered(value, statement.writes, ids) if key == "order" else value)
            numbering.store_snapshot()


def _ordered(order: Sequence[Sequence[int]], writes: Sequence[Write], ids: dict[int, _Ids]) -> list[list[int]]:
    """The order of changes (catalog/session/numbering.py) with the final row ids."""
    known = {write.table.oid: ids[write.table.table_id] for write in writes}
    return [[oid, *(known[oid].row(row_id) for row_id in row_ids)] for oid, *row_ids in order]


class _Ids:
    """The final ids of a table's rows and files by their provisional ones."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int]] = []  # first, behind the last, what to add
        self.files: dict[int, int] = {}

    def add(self, write: Write, row: int, file: int, written: tuple[int, Sequence[int]]) -> None:
        first, files = written
        count = sum(file.record_count for file in write.files) + len(write.rows)
        if count:
            self.rows.append((row, row + count, first - row))
        self.files.update({file + n: file_id for n, file_id in enumerate(files)})

    def row(self, row_id: int) -> int:
        if row_id < PROVISIONAL:
            return row_id
        return next(row_id + shift for first, end, shift in self.rows if first <= row_id < end)

    def file(self, file_id: int) -> int:
        return file_id if file_id < PROVISIONAL else self.files[file_id]


def _final(session: Session, write: Write, ids: _Ids, since: int) -> Write:
    """The write with the catalog's ids, and the present places of rows."""
    final = copy(write)
    updates = dict(write.updates)
    if any(column.row is not None for column in write.table.columns):
        final.table = lake_table(session, write.table.oid)
        final.rows = _of_types_now(write.table, final.table, write.rows)
        rows = _of_types_now(write.table, final.table, updates.values())
        updates = dict(zip(updates, rows, strict=True))
    final.updates = {ids.row(row_id): row for row_id, row in updates.items()}
    final.order = {ids.row(row_id): place for row_id, place in write.order.items()}
    final.inlined_deletes = {ids.row(row_id): None for row_id in write.inlined_deletes}
    final.deletes = {ids.file(file_id): list(positions) for file_id, positions in write.deletes.items()}
    final.files = list(write.files)
    final.staged_deletes = []
    final.is_staged = False
    final.is_final = True
    if (write.deletes or write.inlined_deletes) and _may_have_moved(session, write.table.table_id, since):
        _find_again(session, final, {ids.row(row_id) for row_id in write.changed_row_ids})
    return final


def _of_types_now(then: LakeTable, now: LakeTable, rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    """Rows with the attributes that other sessions have given to composite types since."""
    other = [
        (place, old.form.to_inlined, as_stored(new, old).form.from_inlined)
        for place, (old, new) in enumerate(zip(then.columns, now.columns, strict=True))
        if (old.row, old.fields) != (new.row, new.fields)
    ]
    if not other:
        return list(rows)
    converted: list[Sequence[Any]] = []
    for row in rows:
        values = list(row)
        for place, write, read in other:
            values[place] = None if values[place] is None else read(write(values[place]))
        converted.append(values)
    return converted


def _may_have_moved(session: Session, table_id: int, since: int) -> bool:
    """Has another session done more to the table since than insert rows?"""
    insertions = ("inserted_into_table", "inlined_insert")
    return any(table == table_id and word not in insertions for word, table in changes_after(session, since))


def _find_again(session: Session, write: Write, row_ids: set[int]) -> None:
    """Look up the deleted rows anew, which VACUUM may have moved."""
    from pgrepl.lake.read.local import standing

    places = [RowPlace(None, None, row_id) for row_id in write.inlined_deletes]
    places += [RowPlace(file_id, position, -1) for file_id, listed in write.deletes.items() for position in listed]
    there = standing(session, write.table, places)
    if len(there) == len(places):
        return

    from pgrepl.lake.read.extent import locate

    extents = locate(session, write.table, np.array(sorted(row_ids), np.int64))
    if sum(map(len, extents.files.values())) + len(extents.inlined) < len(row_ids):
        raise PgError("40001", "could not serialize access due to concurrent delete")
    write.inlined_deletes = dict.fromkeys(extents.inlined.tolist())
    write.deletes = {file_id: positions.tolist() for file_id, positions in extents.files.items()}


def changes_of(session: Session) -> RowChanges:
    """The pending changes of the session's transaction, begun if need be."""
    transaction = session.transaction
    if transaction.pending is None:
        transaction.check_own_snapshot()
        transaction.pending = RowChanges(session, transaction.numbering.committed_snapshot())
    assert isinstance(transaction.pending, RowChanges)
    return transaction.pending


class Stale(Exception):
    """Another session has changed a table since the snapshot at which it was read: read and stage again."""


class LockedByOthers(Stale, LockNeeded):
    """Another transaction has locked a table, or rows of it: wait for it, and stage again."""


def check_unchanged(session: Session, table_ids: Sequence[int], snapshot: int) -> None:
    """Raise Stale if another session has changed a table since `snapshot`: its rows, definition, constraints, indexes
    or privileges. The caller holds the write lock."""
    wanted = set(table_ids)
    if any(table in wanted for _, table in changes_after(session, snapshot)):
        raise Stale
    _check_definitions(session, table_ids, snapshot)


def check_only_rows_changed(session: Session, table_id: int, snapshot: int) -> None:
    """Raise Stale if another session has changed more than rows of the table since the snapshot."""
    if any(table == table_id and word not in ROW_CHANGES for word, table in changes_after(session, snapshot)):
        raise Stale
    _check_definitions(session, [table_id], snapshot)


def _check_definitions(session: Session, table_ids: Sequence[int], snapshot: int) -> None:
    own = session.transaction.numbering.first_snapshot
    until = session.transaction.numbering.last_snapshot() + 1 if own is None else own
    for table_id in table_ids:
        if session.link.execute(sql.REDEFINED, (table_id, *(snapshot, until) * 3))[0][0]:
            raise Stale


def record_writes(session: Session, writes: Sequence[Write], extra: Mapping[str, Any] | None = None) -> None:
    """Record the writes at the running statement's snapshot, and stage what is not staged.

    `extra` goes into commit_extra_info as JSON (origin, truncation …); without an entry `truncate` there, truncated
    tables are noted under it. Raises Stale before anything is written if a Write's table has changed since its
    snapshot.

    A transaction with pending changes records them when it commits.
    """
    collects = session.transaction.collects
    if session.transaction.keeps_pending and (collects or not any(_needs_catalog(write) for write in writes)):
        _keep_pending(session, writes, extra or {})
        return
    session.transaction.require_write()
    for write in writes:
        if write.snapshot is not None:
            check_unchanged(session, [write.table.table_id], write.snapshot)
    _respect_locks(session, writes)
    session.snapshot()
    for write in writes:
        write.stage()
        crash_point("commit.begin")
        record(session, write)
        if write.table.oid in session.emptied_at_commit and not write.truncates:
            _empty_at_commit(session, write.table.oid)
    numbering = session.transaction.numbering
    for key, value in (extra or {}).items():
        numbering.note(key, value)
    truncated = [write.table.oid for write in writes if write.truncates]
    if truncated and "truncate" not in (extra or {}):
        numbering.note("truncate", {"tables": truncated, "cascade": False, "restart_identity": False})
    crash_point("commit.end")


def _respect_locks(session: Session, writes: Sequence[Write]) -> None:
    """Raise LockedByOthers if another transaction has locked tables, keys or rows that are about to be written. For
    writes without locks of their own (workers, Spark), under the catalog's write lock."""
    transaction = session.transaction
    if transaction.is_alone or transaction.locks_rows or not transaction.locks.has_others():
        return
    locks = transaction.locks
    for write in writes:
        oid = write.table.oid
        whole = write.truncates or write.has_positions
        mode = RelationMode.EXCLUSIVE if whole else RelationMode.ROW_EXCLUSIVE
        if locks.are_held_by_others(LockKind.RELATION, [oid], conflicts(LockKind.RELATION, mode)):
            raise LockedByOthers(LockRequest(LockKind.RELATION, oid, 0, mode))
        brings = write.rows or write.files or write.updates
        if brings and not write.has_free_keys and locks.are_held_by_others(LockKind.KEY, [oid], (EXCLUSIVE,)):
            raise LockedByOthers(LockRequest(LockKind.RELATION, oid, 0, RelationMode.SHARE_ROW_EXCLUSIVE))
        row = locks.first_locked(oid, write.changed_row_ids)
        if row is not None:
            raise LockedByOthers(LockRequest(LockKind.ROW, oid, row, RowMode.UPDATE))


def _needs_catalog(write: Write) -> bool:
    """Does the write concern more than rows: TRUNCATE, and files whose columns are found by name?"""
    return write.truncates or write.snapshot is not None or any(file.mapping for file in write.files)


def _keep_pending(session: Session, writes: Sequence[Write], extra: Mapping[str, Any]) -> None:
    pending = changes_of(session)
    snapshot = session.transaction.numbering.pending_snapshot()
    for write in writes:
        pending.add(write, snapshot)
        if write.table.oid in session.emptied_at_commit:
            _empty_at_commit(session, write.table.oid)
    for key, value in extra.items():
        session.transaction.numbering.note(key, value)


def _empty_at_commit(session: Session, oid: int) -> None:
    """Empty a temporary table ON COMMIT DELETE ROWS before the commit."""

    def empty() -> None:
        if relation_or_none(session, oid) is not None:
            write = Write(session, lake_table(session, oid))
            write.truncate()
            record_writes(session, [write])

    session.transaction.before_commit.append(empty)
