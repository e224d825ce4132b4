"""The backlog: how many changes there are to send between two LSNs.

A small backlog is counted exactly. For a large one the catalog tells how many rows were inserted and deleted in the
published tables, without filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.publication import publication_or_none, published_tables
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.relation_parts import inheritors
from pgrepl.lake.changes.history import snapshots
from pgrepl.replication.publisher.lake.transactions import rows_in_files, wanted
from pgrepl.replication.publisher.protocol import Backlog

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

COUNTED = 20_000  # rows in files


def backlog(session: Session, names: Sequence[str], start: int, end: int, *, local_only: bool) -> Backlog:
    if start >= end:
        return Backlog(0, 0, None)
    there = [name for name in names if publication_or_none(session, name) is not None]
    oids = _published(session, there)
    sent = wanted(snapshots(session, start - 1, end - 1), local_only=local_only)
    sent = [s for s in sent if oids.intersection((*s.tables, *s.truncated))]
    if not sent:
        return Backlog(0, 0, None)
    rows = rows_in_files(session, oids, start, end)
    if rows <= COUNTED and len(sent) <= COUNTED:
        counted = _counted(session, names, start, end, local_only)
        if counted is not None:
            return counted
    return Backlog(len({s.first for s in sent}), max(rows, len(sent)), sent[0].time, exact=False)


def _published(session: Session, names: Sequence[str]) -> set[int]:
    """The tables whose rows are published."""
    oids: set[int] = set()
    for table in published_tables(session, names):
        oids.update(inheritors(session, table.relid) if relation(session, table.relid).kind == "p" else [table.relid])
    return {oid for oid in oids if relation(session, oid).kind == "r"}


def _counted(session: Session, names: Sequence[str], start: int, end: int, local_only: bool) -> Backlog | None:
    from pgrepl.replication.publisher.lake.stream import ChangeError, MessageStream

    count = changes = 0
    since = None
    try:
        for transaction in MessageStream(session, names, local_only=local_only).transactions(start, end):
            count += 1
            changes += transaction.size
            since = transaction.committed_at if since is None else since
    except ChangeError:  # it will be the subscription's error
        return None
    return Backlog(count, changes, since)
