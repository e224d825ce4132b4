"""All changes of a database's transactions, decoded without a publication.

All tables, all columns, all operations are shown. Of an old row the replica identity is known, as in PostgreSQL's
WAL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation, relation
from pgrepl.frozen import frozen
from pgrepl.lake.changes import RowChange, Snapshot, in_order
from pgrepl.lake.history import PREPARE, LogicalMessage, TwoPhase
from pgrepl.replication.publisher.identity import ReplicaIdentity
from pgrepl.replication.publisher.lake.transactions import Changed, LakeTransaction, class_row, read, read_changes
from pgrepl.replication.publisher.lake.two_phase import is_plain, phases, prepared_changes

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

Row = tuple[object, ...]


@frozen
class DecodedTable:
    """A table as of a change."""

    relation: Relation
    identity: ReplicaIdentity


@frozen
class DecodedChange:
    """One change, or with `truncated` a TRUNCATE of tables, or a logical message."""

    lsn: int
    table: DecodedTable | None = None
    change: RowChange | None = None
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
    found, _ = read(session, start, end)
    known = _Tables(session)
    changed = read_changes(session, [s for transaction in found for s in transaction.snapshots], known.has)
    for transaction in found:
        last, said = transaction.last, transaction.two_phase
        if local_only and last.origin:
            continue
        if not is_plain(transaction, two_phase_at, filters=True):
            yield from _in_phases(session, transaction, two_phase_at)
        elif transaction.is_of(session.database_oid, known.has) and (said is None or said.statements):
            parts = [part for each in transaction.snapshots for part in _of_snapshot(session, each, changed, known)]
            yield DecodedTransaction(transaction.xid, transaction.first, last.id + 1, last.time, tuple(parts))


def _in_phases(
    session: Session, transaction: LakeTransaction, two_phase_at: int | None
) -> Iterator[DecodedTransaction]:
    """The phases of a prepared transaction: PREPARE with its changes, and how it ended."""
    last, said = transaction.last, transaction.two_phase
    assert said is not None
    for kind in phases(session, transaction, two_phase_at, filters=True):
        phase = replace(said, kind=kind)
        if kind != PREPARE:
            yield DecodedTransaction(said.xid, last.id, last.id + 1, last.time, (), phase)
            continue
        with prepared_changes(session, said, at_prepare=said.kind == PREPARE) as (there, found):
            known = _Tables(there)
            changed = read_changes(there, found, known.has)
            parts = [part for member in found for part in _of_snapshot(there, member, changed, known)]
        parts = [replace(part, lsn=said.xid) for part in parts]
        yield DecodedTransaction(said.xid, said.xid, said.xid + 1, said.prepared_at, tuple(parts), phase)


class _Tables:
    """The tables of the session's database, as of each change."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[int, int], DecodedTable | None] = {}

    def at(self, stretch: int, oid: int) -> DecodedTable | None:
        key = (stretch, oid)
        if key not in self._known:
            past = self._session.at(stretch)
            row = class_row(past, oid)
            table = relation(past, oid) if row is not None and row.relpersistence == "p" else None
            self._known[key] = None if table is None else DecodedTable(table, ReplicaIdentity.of(past, table))
        return self._known[key]

    def has(self, stretch: int, oid: int) -> bool:
        return self.at(stretch, oid) is not None


def _of_snapshot(session: Session, snapshot: Snapshot, changed: Changed, known: _Tables) -> Iterator[DecodedChange]:
    for message in snapshot.emitted:
        if message.database == session.database_oid:
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
