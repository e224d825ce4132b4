"""The messages of a batch as rows of a table's log (the subscription parameter history), by whole columns: all that
were carried out, in their order, also those that a later one undoes. Only LogsOfBatch asks a session."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.lake.table import lake_table
from pgrepl.lake.write.file_writer import DataFileWriter
from pgrepl.replication.subscriber.apply.columns.decide import Decided
from pgrepl.replication.subscriber.apply.columns.described import DescribedTable
from pgrepl.replication.subscriber.history import Log, settled_log
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE, BatchTransaction

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store import tables
    from pgrepl.lake.read.data_file import NewFile
    from pgrepl.lake.table import LakeTable
    from pgrepl.replication.wire.batch import RelationChanges

    Numbers = npt.NDArray[Any]

_PART = 250_000  # rows that are made at a time
_OPERATIONS = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}


@frozen
class SentTransactions:
    """The transactions of a batch, one of each column for each."""

    last_seq: Numbers
    first_seq: Numbers
    end_lsn: Sequence[int]
    committed_at: Sequence[int]
    xid: Sequence[int]

    @classmethod
    def of(cls, transactions: Sequence[BatchTransaction]) -> SentTransactions:
        found = list(transactions)
        return cls(
            np.array([each.last_seq for each in found], np.int64),
            np.array([each.first_seq for each in found], np.int64),
            tuple([each.end_lsn for each in found]),
            tuple([each.committed_at for each in found]),
            tuple([each.xid for each in found]),
        )


@frozen
class LoggedTable:
    """A log, and where the values of its columns come from: its own, the old key, or the new row, by the column's
    number in the table, or in the partition whose rows these are; 0: from nowhere."""

    log: LakeTable
    sources: tuple[tuple[str, str, int], ...]  # kind, name, number
    transactions: SentTransactions

    def write(
        self, described: DescribedTable, decided: Decided, since: int, folder: str | None = None
    ) -> list[NewFile]:
        """Write the messages from `since` on that found what they look for. `folder`: see DataFileWriter."""
        changes = decided.changes
        chosen = changes.seq >= since
        chosen[decided.folded.missed] = False
        at = np.flatnonzero(chosen)
        if not len(at):
            return []
        keys = described.keys.attnums
        if (changes.op[at] != INSERT).any() and {n for kind, _, n in self.sources if kind == "old"} != set(keys):
            raise Declined("a log with another key")
        writer = DataFileWriter(self.log, folder=folder, bounds_by_footer=True)
        for start in range(0, len(at), _PART):
            part = at[start : start + _PART]
            op = changes.op[part]
            for code in _OPERATIONS:  # `change` has their order
                same = part[op == code]
                if len(same):
                    writer.write_arrays(self._arrays(described, changes, same, code), None, len(same))
        return [writer.close()]

    def _arrays(self, described: DescribedTable, changes: RelationChanges, at: Numbers, code: int) -> list[pa.Array]:
        """Messages of one kind."""
        own = self._own(code, changes.seq[at])
        new: dict[int, pa.Array] = {}
        if code != DELETE:
            rows = described.new_rows(described.maker(), changes, at)
            new = dict(zip((column.attnum for column in described.table.columns), rows, strict=True))
        old = {} if code == INSERT else _old_keys(described, changes, at)
        arrays = []
        for column, (kind, name, number) in zip(self.log.columns, self.sources, strict=True):
            values = own[name] if kind == "own" else (new if kind == "new" else old).get(number)
            arrays.append(pa.nulls(len(at), column.form.to_array([]).type) if values is None else values)
        return arrays

    def _own(self, code: int, seq: Numbers) -> dict[str, pa.Array]:
        sent = self.transactions
        forms = {name: column.form for column, (kind, name, _) in zip(self.log.columns, self.sources, strict=True)
                 if kind == "own"}  # fmt: skip
        first, last = np.searchsorted(sent.last_seq, (seq[0], seq[-1]))  # messages are in order
        whose = np.searchsorted(sent.last_seq[first : last + 1], seq)
        numbers = pa.array(whose)
        found = {"operation": pa.repeat(_OPERATIONS[code], len(seq))}
        found["change"] = pa.array(seq - sent.first_seq[first : last + 1][whose] + 1)
        for name, values in (("lsn", sent.end_lsn), ("committed_at", sent.committed_at), ("xid", sent.xid)):
            each = forms[name].to_array(list(values[first : last + 1]))
            found[name] = pa.repeat(each[0], len(seq)) if first == last else each.take(numbers)
        return found


def _old_keys(described: DescribedTable, changes: RelationChanges, at: Numbers) -> dict[int, pa.Array]:
    """The key of each row that a message looks for: as it was sent, or as it is in the new row."""
    sent = changes.has_old[at]
    keys = described.keys.attnums
    sides = [
        described.key_values(changes, keys, at[which], old=old) if which.any() else None
        for which, old in ((sent, True), (~sent, False))
    ]
    if sides[0] is None or sides[1] is None:
        return dict(zip(keys, sides[0] or sides[1] or [], strict=True))
    order = pa.array(np.argsort(np.concatenate([np.flatnonzero(sent), np.flatnonzero(~sent)]), kind="stable"))
    joined = zip(*(side for side in sides if side is not None), strict=True)
    return {
        key: pa.concat_arrays([one, other.cast(one.type)]).take(order)
        for key, (one, other) in zip(keys, joined, strict=True)
    }


class LogsOfBatch:
    """The logs of the tables that a batch changes."""

    def __init__(
        self, session: Session, subscription: tables.pg_subscription, transactions: Sequence[BatchTransaction]
    ) -> None:
        self._session = session
        self._subscription = subscription
        self._transactions = transactions
        self._logs: dict[int, Log | None] = {}  # by OID of the target
        self._sent: SentTransactions | None = None

    def _log(self, target: Relation) -> Log | None:
        if target.oid not in self._logs:
            self._logs[target.oid] = settled_log(self._session, self._subscription, target)
        return self._logs[target.oid]

    def of(self, target: Relation, table: Relation) -> LoggedTable | None:
        """How the messages for a target, or for a leaf of it, are written into its log; None: its past is not kept."""
        log = self._log(target)
        if log is None:
            return None
        if self._sent is None:
            self._sent = SentTransactions.of(self._transactions)
        numbers = {column.name: column.num for column in table.columns}
        if not log.keeps_as(lake_table(self._session, table.oid), numbers):
            raise Declined("a history that keeps values in another way")
        sources = tuple([(kind, name, 0 if kind == "own" else numbers.get(name, 0)) for kind, name in log.sources])
        return LoggedTable(log.lake, sources, self._sent)

    def emptied(self, target: Relation, seq: int) -> Iterator[tuple[int, Sequence[Any]]]:
        """The row that says of a TRUNCATE, with the OID of the log."""
        log = self._log(target)
        if log is not None:
            whose = self._transactions[bisect_left(self._transactions, seq, key=lambda each: each.last_seq)]
            at = whose.end_lsn, whose.committed_at, whose.xid, seq - whose.first_seq + 1
            yield log.relation.oid, log.row("truncate", at, {}, {})
