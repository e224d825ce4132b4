"""The changes that are sent of one table between two LSNs, in ranges of row ids that tasks read by themselves.

A stretch of transactions with the same definitions is one plan. It is read in ranges if its row filters need no
session. Otherwise it is read message by message (stream.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.replication.publisher.lake.range_part import decode
from pgrepl.replication.publisher.lake.stream_columns import Plans, numbered, table_changes, truncate_messages
from pgrepl.replication.publisher.lake.table_changes import LakeChanges, TableChanges
from pgrepl.replication.publisher.lake.transactions import LakeTransaction, changed_tables, read
from pgrepl.replication.publisher.plan import check_sendable
from pgrepl.replication.wire.batch import BatchTransaction

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session import Session
    from pgrepl.lake.changes_rows import RowIds
    from pgrepl.replication.wire.message_files import Decoded

    Numbers = npt.NDArray[Any]


@dataclass
class SentStretch:
    """Transactions with the same definitions. `ranges` is None if they must be read message by message; `truncates` are
    the transactions that empty the table, with the sequence numbers at which they do."""

    transactions: list[BatchTransaction]
    first: int  # the snapshot at which sequence numbers begin
    ranges: list[SentRange] | None
    truncates: list[tuple[int, BatchTransaction]]


@frozen
class SentRange:
    """Changes to read in a task. `refused` are the errors for operations that PostgreSQL would not have let happen."""

    source: TableChanges
    ids: RowIds
    refused: dict[str, PgError]

    def read(self) -> tuple[Numbers, Decoded]:
        """Sequence numbers, counted from the stretch's first snapshot, and the changes that are sent."""
        source = self.source.alone()
        changes = LakeChanges(source, self.ids)
        for operation in sorted(source.made):
            if operation in self.refused:
                raise self.refused[operation]
        return changes.seq, decode(changes)


def stretches(session: Session, publications: Sequence[str], table: int, start: int, end: int) -> Iterator[SentStretch]:
    """The transactions that finish at `start` or later and before `end`; `table` is the one that is sent."""
    found, _ = read(session, start, end)
    group: list[LakeTransaction] = []
    for transaction in found:
        if group and any(s.stretch != group[0].snapshots[0].stretch for s in transaction.snapshots):
            yield _stretch(session, publications, table, group)
            group = []
        group.append(transaction)
    if group:
        yield _stretch(session, publications, table, group)


def _stretch(
    session: Session, publications: Sequence[str], table: int, group: Sequence[LakeTransaction]
) -> SentStretch:
    base = group[0].first
    plans = Plans(session, publications, group[0].snapshots[0].stretch)
    transactions = [numbered(each, base) for each in group]
    snapshots = [snapshot for each in group for snapshot in each.snapshots]
    made = SentStretch(transactions, base, [], [])
    if len({s.stretch for s in snapshots}) > 1 or any(each.two_phase is not None for each in group):
        made.ranges = None
        return made
    changed = sorted({oid for s in snapshots for oid in changed_tables(s)})
    sent = [plan for oid in changed if (plan := plans.of(oid)) is not None and plan.sent_as.oid == table]
    for seq, message in truncate_messages(plans, snapshots, base):
        if any(relation.relid == table for relation in message.relations):
            made.truncates.append((seq, next(t for t in transactions if t.first_seq <= seq <= t.last_seq)))
    sources = table_changes(session, sent, snapshots, base) if sent else []
    made.ranges = []
    for source in sources:
        if not source.is_sure or not source.is_portable or source.relation != sources[0].relation:
            made.ranges = None
            return made
        refused = {}
        for operation in sorted(source.plan.operations & {"update", "delete"}):
            try:
                check_sendable(plans.past, source.plan, operation)
            except PgError as error:
                refused[operation] = error
        made.ranges += [SentRange(source, ids, refused) for ids in source.ranges()]
    return made
