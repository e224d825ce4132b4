"""The changes of prepared transactions, at PREPARE TRANSACTION (ReorderBufferPrepare).

The changes of a prepared transaction reach the lake when it is committed. If it is committed by now, they are read
there. If it is still prepared they are replayed, read, and undone, which holds the catalog's write lock meanwhile. A
transaction that was rolled back is sent without changes, as in PostgreSQL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.lake import prepared, sql
from pgrepl.lake.history import COMMIT, PREPARE, Snapshot, TwoPhase, snapshots
from pgrepl.replication.publisher.lake.transactions import LakeTransaction

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

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
    waits = any(each.xid == said.xid for each in prepared.every(session))
    if committed or not waits:
        yield session, _as_of(committed, said, at_prepare=at_prepare)
        return
    apart = session.elsewhere(session.database_oid, session.role, apart=True)
    try:
        apart.transaction.begin_statement(writes=True)
        found = next((each for each in prepared.every(apart) if each.xid == said.xid), None)
        if found is None:  # it has come to its end meanwhile
            changes = _committed(apart, said)
        else:
            before = apart.transaction.numbering.last_snapshot()
            prepared.load(apart, found).replay()
            changes = snapshots(apart, before, apart.transaction.numbering.last_snapshot())
        yield apart, _as_of(changes, said, at_prepare=at_prepare)
    finally:
        apart.transaction.fail_statement()
        apart.close()


def _as_of(changes: list[Snapshot], said: TwoPhase, *, at_prepare: bool) -> list[Snapshot]:
    return [replace(each, stretch=said.xid) for each in changes] if at_prepare else changes


def _committed(session: Session, said: TwoPhase) -> list[Snapshot]:
    """The transaction's snapshots, if it is committed."""
    rows = session.link.execute(sql.COMMITS_OF_PREPARED_AFTER, (said.xid,))
    for last, extra in rows:
        known = json.loads(extra)
        if known["two_phase"][2] == said.xid:
            return snapshots(session, known.get("transaction", last) - 1, last)
    return []
