"""The transactions of a lake: their snapshots, the tables they changed, where definitions change, and how many rows,
without reading files.

A prepared transaction's changes reach the lake when it is committed; while it is prepared they are replayed, read and
undone under the write lock. One that was rolled back is sent without changes, as in PostgreSQL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.ground.frozen import frozen
from pgrepl.lake import prepared, sql
from pgrepl.lake.changes.history import COMMIT, PREPARE, Snapshot, TwoPhase, committed_since, snapshots
from pgrepl.lake.table import lake_table
from pgrepl.replication.publisher.senders import Retained

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.changes.changes import RowChange

IsRead = Callable[[int, int], bool]  # by stretch and table: are its changes wanted?
Changed = dict[tuple[int, int], "list[RowChange]"]  # by snapshot and table


@frozen
class LakeTransaction:
    """Snapshots that were committed as one transaction."""

    snapshots: tuple[Snapshot, ...]

    @property
    def first(self) -> int:
        return self.snapshots[0].id

    @property
    def last(self) -> Snapshot:
        """The last snapshot, at which it finished."""
        return self.snapshots[-1]

    @property
    def two_phase(self) -> TwoPhase | None:
        return self.last.two_phase

    @property
    def xid(self) -> int:
        return self.last.id if self.two_phase is None else self.two_phase.xid

    def touched(self) -> set[tuple[int, int]]:
        """Stretches and tables whose rows it changed, by TRUNCATE too."""
        return {(s.stretch, table) for s in self.snapshots for table in (*s.tables, *s.truncated)}

    def is_of(self, database: int, has: IsRead) -> bool:
        """Whether a slot of this database decodes it: not if it changed rows of other databases only. `has`: whether
        the database has that table."""
        emitted = [message.database for s in self.snapshots for message in s.emitted]
        if database in emitted:
            return True
        touched = self.touched()
        return any(has(stretch, table) for stretch, table in touched) if touched else not emitted


def read(session: Session, start: int, end: int, limit: int | None = None) -> tuple[list[LakeTransaction], int]:
    """The transactions that finish at `start` or later and before `end`, and the LSN before which none is missing.
    `limit`: read about so many snapshots."""
    last = end - 1 if limit is None else min(end - 1, start + limit - 1)
    while True:
        listed = snapshots(session, start - 1, last)
        if listed and listed[0].first < start:  # the beginning of a transaction that finishes here
            listed = snapshots(session, listed[0].first - 1, last)
        if not listed or listed[-1].is_last or last >= end - 1:
            return list(_transactions(listed)), listed[-1].id + 1 if listed else end
        last = min(end - 1, last + (limit or 1))


def _transactions(portion: Iterable[Snapshot]) -> Iterator[LakeTransaction]:
    """The transactions that are complete."""
    taken: list[Snapshot] = []
    for snapshot in portion:
        taken.append(snapshot)
        if snapshot.is_last:
            yield LakeTransaction(tuple(taken))
            taken = []


def published_since(session: Session, name: str) -> int:
    """The LSN from which on all changes can be sent by a publication, which has been there under this name since then:
    its own, or the end of its transaction if that had changed rows before."""
    since = 0
    for begin, end in session.link.execute(sql.PUBLICATION_VERSIONS, (session.database_oid, name)):
        if end is not None and end != since:
            break  # that was another one, or had another name afterwards
        since = begin
    around, _ = read(session, since, current_lsn(session), limit=1)
    if around and any(s.id < since and (s.tables or s.truncated) for s in around[0].snapshots):
        return around[0].last.id + 1
    return since


def wanted(candidates: Iterable[Snapshot], *, local_only: bool) -> list[Snapshot]:
    """The snapshots to send. `local_only`: only those without an origin (origin = none)."""
    return [snapshot for snapshot in candidates if not (local_only and snapshot.origin)]


def changed_tables(snapshot: Snapshot) -> tuple[int, ...]:
    """The tables with changes of single rows: not those that a TRUNCATE emptied."""
    return tuple([table for table in snapshot.tables if table not in snapshot.truncated])


def read_changes(
    session: Session, chosen: Sequence[Snapshot], is_read: IsRead, known: Sequence[Snapshot] | None = None
) -> Changed:
    """The changes of these snapshots. Every table is read once for each stretch without new definitions. `known`: the
    snapshots and all between them."""
    from pgrepl.lake.changes.changes import changes

    changed: Changed = {}
    for stretch in _stretches(chosen):
        for table in sorted({table for snapshot in stretch for table in changed_tables(snapshot)}):
            if not is_read(stretch[0].stretch, table):
                continue
            emptied = {snapshot.id for snapshot in stretch if table in snapshot.truncated}
            for change in changes(session, table, stretch[0].id - 1, stretch[-1].id, known):
                if change.snapshot not in emptied:
                    changed.setdefault((change.snapshot, table), []).append(change)
    return changed


def _stretches(chosen: Iterable[Snapshot]) -> Iterator[list[Snapshot]]:
    """Runs of snapshots with the same definitions."""
    stretch: list[Snapshot] = []
    for snapshot in chosen:
        if stretch and stretch[0].stretch != snapshot.stretch:
            yield stretch
            stretch = []
        stretch.append(snapshot)
    if stretch:
        yield stretch


def class_row(past: Session, table: int) -> tables.pg_class | None:
    """A table of the session's database as of then; None: it is another database's, or did not exist."""
    row = one(past, tables.pg_class, oid=table)
    return row if row is not None and row.datid == past.database_oid else None


# --- two phase --------------------------------------------------------------------------------------------------------


_NEVER_TOLD = "_nodecode"  # test_decoding sends transactions with such a GID at their commit (pg_decode_filter)


def is_plain(transaction: LakeTransaction, two_phase_at: int | None, *, filters: bool = False) -> bool:
    """Whether a slot sends a transaction as a committed one, all at once. `two_phase_at`: see slots.two_phase_at;
    `filters`: test_decoding's filter is asked."""
    said = transaction.two_phase
    return said is None or (said.kind == COMMIT and not _is_told(said, two_phase_at, filters=filters))


def phases(
    session: Session, transaction: LakeTransaction, two_phase_at: int | None, start: int = 0, *, filters: bool = False
) -> list[str]:
    """The phases of any other transaction: PREPARE with its changes, unless that was sent before `start`, and COMMIT or
    ROLLBACK."""
    said = transaction.two_phase
    assert said is not None
    if not _is_told(said, two_phase_at, filters=filters) or not said.statements:
        return []
    if said.database != session.database_oid:
        return []
    if said.kind == PREPARE:
        return [PREPARE]
    assert two_phase_at is not None
    is_new = said.kind == COMMIT and said.xid < two_phase_at and start <= transaction.first
    return [PREPARE, said.kind] if is_new else [said.kind]


def _is_told(said: TwoPhase, two_phase_at: int | None, *, filters: bool) -> bool:
    return two_phase_at is not None and not (filters and _NEVER_TOLD in said.gid)


@contextmanager
def prepared_changes(session: Session, said: TwoPhase, *, at_prepare: bool) -> Iterator[tuple[Session, list[Snapshot]]]:
    """The session that can read the changes, and their snapshots. `at_prepare`: by the publications as of PREPARE."""
    committed = _committed(session, said)
    waits = any(row.xid == said.xid for row in prepared.every(session))
    if committed or not waits:
        yield session, _as_of(committed, said, at_prepare=at_prepare)
        return
    apart = session.elsewhere(session.database_oid, session.role, apart=True)
    try:
        apart.transaction.begin_statement(writes=True)
        transaction = next((row for row in prepared.every(apart) if row.xid == said.xid), None)
        if transaction is None:  # it has come to its end meanwhile
            changes = _committed(apart, said)
        else:
            before = apart.transaction.numbering.last_snapshot()
            prepared.load(apart, transaction).replay()
            changes = snapshots(apart, before, apart.transaction.numbering.last_snapshot())
        yield apart, _as_of(changes, said, at_prepare=at_prepare)
    finally:
        apart.transaction.fail_statement()
        apart.close()


def _as_of(changes: list[Snapshot], said: TwoPhase, *, at_prepare: bool) -> list[Snapshot]:
    return [replace(snapshot, stretch=said.xid) for snapshot in changes] if at_prepare else changes


def _committed(session: Session, said: TwoPhase) -> list[Snapshot]:
    """The transaction's snapshots, if it is committed."""
    rows = session.link.execute(sql.COMMITS_OF_PREPARED_AFTER, (said.xid,))
    for last, extra in rows:
        known = json.loads(extra)
        if known["two_phase"][2] == said.xid:
            return snapshots(session, known.get("transaction", last) - 1, last)
    return []


# --- size -------------------------------------------------------------------------------------------------------------


def changed_rows(session: Session, start: int, end: int) -> int:
    """About how many rows were inserted or deleted from LSN `start` on and before `end`. Inlined rows are few: each
    snapshot counts as one."""
    link = session.link
    rows = link.execute(sql.ROWS_CHANGED_BETWEEN, (start, end, start, end))
    return max(end - start, 0) + sum(int(count) for (count,) in rows)


def waiting(session: Session, start: int, end: int) -> tuple[int, datetime | None]:
    """About how many rows were changed from LSN `start` on and before `end`, and when the first of them was; None: the
    log ends there."""
    if start >= end:
        return 0, None
    return changed_rows(session, start, end), committed_since(session, start)


def rows_by_snapshot(session: Session, start: int, end: int) -> dict[int, int]:
    """About how many rows were inserted in files or deleted by delete files from LSN `start` on and before `end`, by
    snapshot."""
    counts: dict[int, int] = {}
    for snapshot, count in session.link.execute(sql.ROWS_CHANGED_BY_SNAPSHOT, (start, end, start, end)):
        counts[snapshot] = counts.get(snapshot, 0) + int(count)
    return counts


def rows_in_files(session: Session, oids: Iterable[int], start: int, end: int) -> int:
    """The number of rows of these tables that were inserted in files, or deleted by delete files, from LSN `start` on
    and before `end`."""
    link = session.link
    count = 0
    for oid in oids:
        table = lake_table(session, oid).table_id
        for asked in sql.ROWS_OF_TABLE_CHANGED_BETWEEN:
            count += int(link.execute(asked, (start, end, table))[0][0])
    return count


def retained(session: Session, slot: tables.pg_replication_slot) -> Retained:
    """What the lake keeps for a slot (lake/expire.py): the snapshots from its restart point on but the last,
    and the bytes of files that these have and the last one has not."""
    start, end = int(slot.restart_lsn or 0), current_lsn(session)
    if not start or slot.invalidation_reason:
        return Retained(0, status=slot.wal_status, invalid=slot.invalidation_reason, snapshots=0)
    size = sum(int(session.link.execute(asked, (start,))[0][0]) for asked in sql.BYTES_ENDED_SINCE)
    since = waiting(session, start, end)[1]
    others = [int(row.restart_lsn or 0) for row in rows(session, tables.pg_replication_slot) if _keeps(row)]
    return Retained(
        size,
        0.0 if since is None else max(0.0, (datetime.now(timezone.utc) - since).total_seconds()),
        status=slot.wal_status or "reserved",
        snapshots=max(0, end - start),
        is_oldest=start <= min(others, default=start),
    )


def _keeps(row: tables.pg_replication_slot) -> bool:
    return row.slot_type == "logical" and bool(row.restart_lsn) and not row.invalidation_reason
