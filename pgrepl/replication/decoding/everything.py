"""The transactions of a database with all of their changes, for who reads them without a publication.

It is `sending`'s stream under a plan that leaves nothing out: all tables, all columns, all operations. What is known of
an old row is what the replica identity says, as in PostgreSQL's log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.indexes import identity_key_columns
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.store import one
from pgrepl.frozen import frozen
from pgrepl.lake.changes import Change, Snapshot, changes, in_order, snapshots
from pgrepl.lake.history import COMMIT, PREPARE, LogicalMessage, TwoPhase
from pgrepl.replication.publisher.lake.two_phase import is_told, prepared_changes

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

Row = tuple[object, ...]


@frozen
class DecodedTable:
    """A table as it was at a change."""

    relation: Relation
    identity: frozenset[int]  # the columns that name an old row

    @property
    def whole_old_rows(self) -> bool:
        return self.relation.replident == "f"

    def known_of(self, old: Row) -> Row | None:
        """Of a row that went (ExtractReplicaIdentity); None: nothing."""
        if self.whole_old_rows:
            return old
        if not self.identity:
            return None
        return tuple([value if number in self.identity else None for number, value in enumerate(old, 1)])

    def known_of_updated(self, old: Row, new: Row) -> Row | None:
        """Of a row that was updated: only what the new row does not say."""
        changed = any(old[number - 1] != new[number - 1] for number in self.identity)
        return self.known_of(old) if changed or self.whole_old_rows else None


@frozen
class DecodedChange:
    """One change, or with `truncated` the emptying of tables, or a logical message."""

    lsn: int
    table: DecodedTable | None = None
    change: Change | None = None
    truncated: tuple[Relation, ...] = ()
    cascade: bool = False
    restart_identity: bool = False
    emitted: LogicalMessage | None = None


@frozen
class DecodedTransaction:
    xid: int
    first_lsn: int
    end_lsn: int
    committed_at: int
    changes: tuple[DecodedChange, ...]
    phase: TwoPhase | None = None  # None: it is committed


def decoded(
    session: Session, start: int, end: int, *, local_only: bool, two_phase_at: int | None = None
) -> Iterator[DecodedTransaction]:
    """The transactions that finish at `start` or later and before `end`, empty ones included."""
    found = snapshots(session, start - 1, end - 1)
    if found and found[0].first < start:  # the beginning of a transaction that finishes here
        found = snapshots(session, found[0].first - 1, end - 1)
    known = _Tables(session)
    changed = _changed(session, found, known)
    group: list[Snapshot] = []
    for snapshot in found:
        group.append(snapshot)
        if snapshot.is_last:
            said = snapshot.two_phase
            if local_only and snapshot.origin:
                pass
            elif said is not None and (said.kind != COMMIT or is_told(said, two_phase_at, filters=True)):
                if is_told(said, two_phase_at, filters=True):
                    yield from _told(session, group, said, two_phase_at or 0)
            elif known.any_here(group) and (said is None or said.statements):
                parts = [part for member in group for part in _of_snapshot(session, member, changed, known)]
                xid = snapshot.id if said is None else said.xid
                yield DecodedTransaction(xid, group[0].id, snapshot.id + 1, snapshot.time, tuple(parts))
            group = []


def _told(session: Session, group: list[Snapshot], said: TwoPhase, two_phase_at: int) -> Iterator[DecodedTransaction]:
    """What is told of a prepared transaction: with its changes that it was prepared, and how it ended."""
    if said.database != session.database.oid or not said.statements:
        return
    if said.kind == PREPARE or (said.kind == COMMIT and said.xid < two_phase_at):
        with prepared_changes(session, said, at_prepare=said.kind == PREPARE) as (there, found):
            known = _Tables(there)
            changed = _changed(there, found, known)
            parts = [part for member in found for part in _of_snapshot(there, member, changed, known)]
        parts = [replace(part, lsn=said.xid) for part in parts]
        phase = replace(said, kind=PREPARE)
        yield DecodedTransaction(said.xid, said.xid, said.xid + 1, said.prepared_at, tuple(parts), phase)
    if said.kind != PREPARE:
        last = group[-1]
        yield DecodedTransaction(said.xid, last.id, last.id + 1, last.time, (), said)


class _Tables:
    """The tables of the session's database, as they were."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[int, int], DecodedTable | None] = {}

    def at(self, stretch: int, oid: int) -> DecodedTable | None:
        key = (stretch, oid)
        if key not in self._known:
            past = self._session.at(stretch)
            row = one(past, tables.pg_class, oid=oid)
            here = row is not None and row.datid == self._session.database.oid and row.relpersistence == "p"
            table = relation(past, oid) if here else None
            self._known[key] = None if table is None else DecodedTable(table, identity_key_columns(past, table))
        return self._known[key]

    def any_here(self, group: Iterable[Snapshot]) -> bool:
        """A transaction that changed rows elsewhere only is none of this database."""
        touched = [(s.stretch, table) for s in group for table in (*s.tables, *s.truncated)]
        here = self._session.database.oid
        if any(message.database == here for s in group for message in s.emitted):
            return True
        if not touched:
            return not any(s.emitted for s in group)
        return any(self.at(stretch, table) is not None for stretch, table in touched)


def _changed(session: Session, found: Iterable[Snapshot], known: _Tables) -> dict[tuple[int, int], list[Change]]:
    """The changes by snapshot and table: each table is read once for each stretch without new definitions."""
    stretches: dict[int, list[Snapshot]] = {}
    for snapshot in found:
        stretches.setdefault(snapshot.stretch, []).append(snapshot)
    by_snapshot: dict[tuple[int, int], list[Change]] = {}
    for stretch, members in stretches.items():
        emptied = {(s.id, table) for s in members for table in s.truncated}
        for table in sorted({table for s in members for table in s.tables if table not in s.truncated}):
            if known.at(stretch, table) is None:
                continue
            for change in changes(session, table, members[0].id - 1, members[-1].id):
                if (change.snapshot, table) not in emptied:
                    by_snapshot.setdefault((change.snapshot, table), []).append(change)
    return by_snapshot


def _of_snapshot(
    session: Session, snapshot: Snapshot, changed: dict[tuple[int, int], list[Change]], known: _Tables
) -> Iterator[DecodedChange]:
    for message in snapshot.emitted:
        if message.database == session.database.oid:
            yield DecodedChange(snapshot.id, emitted=message)
    emptied = [known.at(snapshot.stretch, table) for table in snapshot.truncated]
    relations = tuple([table.relation for table in emptied if table is not None])
    if relations:
        yield DecodedChange(
            snapshot.id,
            truncated=relations,
            cascade=snapshot.cascade,
            restart_identity=snapshot.restart_identity,
        )
    here = {oid: changed.get((snapshot.id, oid), ()) for oid in snapshot.tables}
    for oid, change in in_order(snapshot, here):
        table = known.at(snapshot.stretch, oid)
        if table is not None:
            yield DecodedChange(snapshot.id, table, change)
