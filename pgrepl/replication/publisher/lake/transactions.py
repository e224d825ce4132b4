"""The transactions of a lake: the snapshots of each, the tables it changed, and where definitions change.

Both publisher and logical decoding read them, and decide what they show of the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.numbering import current_lsn
from pgrepl.catalog.store import one
from pgrepl.frozen import frozen
from pgrepl.lake import sql
from pgrepl.lake.changes import RowChange, changes
from pgrepl.lake.history import Snapshot, TwoPhase, snapshots

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

IsRead = Callable[[int, int], bool]  # by stretch and table: are its changes wanted?
Changed = dict[tuple[int, int], list[RowChange]]  # by snapshot and table


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
        found = snapshots(session, start - 1, last)
        if found and found[0].first < start:  # the beginning of a transaction that finishes here
            found = snapshots(session, found[0].first - 1, last)
        if not found or found[-1].is_last or last >= end - 1:
            return list(_transactions(found)), found[-1].id + 1 if found else end
        last = min(end - 1, last + (limit or 1))


def _transactions(found: Iterable[Snapshot]) -> Iterator[LakeTransaction]:
    """The transactions that are complete."""
    taken: list[Snapshot] = []
    for snapshot in found:
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
    if around and any(each.id < since and (each.tables or each.truncated) for each in around[0].snapshots):
        return around[0].last.id + 1
    return since


def wanted(found: Iterable[Snapshot], *, local_only: bool) -> list[Snapshot]:
    """The snapshots to send. `local_only`: only those without an origin (origin = none)."""
    return [snapshot for snapshot in found if not (local_only and snapshot.origin)]


def changed_tables(snapshot: Snapshot) -> tuple[int, ...]:
    """The tables with changes of single rows: not those that a TRUNCATE emptied."""
    return tuple([table for table in snapshot.tables if table not in snapshot.truncated])


def read_changes(
    session: Session, found: Sequence[Snapshot], is_read: IsRead, known: Sequence[Snapshot] | None = None
) -> Changed:
    """The changes of these snapshots. Every table is read once for each stretch without new definitions. `known`: the
    snapshots and all between them."""
    changed: Changed = {}
    for stretch in _stretches(found):
        for table in sorted({table for snapshot in stretch for table in changed_tables(snapshot)}):
            if not is_read(stretch[0].stretch, table):
                continue
            emptied = {snapshot.id for snapshot in stretch if table in snapshot.truncated}
            for change in changes(session, table, stretch[0].id - 1, stretch[-1].id, known):
                if change.snapshot not in emptied:
                    changed.setdefault((change.snapshot, table), []).append(change)
    return changed


def _stretches(found: Iterable[Snapshot]) -> Iterator[list[Snapshot]]:
    """Runs of snapshots with the same definitions."""
    stretch: list[Snapshot] = []
    for snapshot in found:
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
