"""What is recorded of a batch by whole columns.

Its conflicts: which messages find no row, and which change a row of another origin. They are taken from the steps of
the fold; of the first ones the messages are kept, to be told one by one.

Its messages as rows of a table's log (the subscription parameter history): all that were carried out, in their order,
also those that a later one undoes. Only LogsOfBatch asks a session.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.lake.read import local
from pgrepl.lake.table import lake_table
from pgrepl.lake.write.file_writer import DataFileWriter
from pgrepl.replication.subscriber.apply.columns.decide import Decided
from pgrepl.replication.subscriber.apply.columns.described import DescribedTable
from pgrepl.replication.subscriber.apply.columns.keys import NOT_THERE, Places
from pgrepl.replication.subscriber.apply.progress import Progress
from pgrepl.replication.subscriber.apply.target import TargetTable
from pgrepl.replication.subscriber.conflicts import (
    DELETE_DIFFERS,
    DELETE_MISSING,
    MOST,
    UPDATE_DIFFERS,
    UPDATE_MISSING,
    Conflict,
    Telling,
)
from pgrepl.replication.subscriber.history import Log, settled_log
from pgrepl.replication.wire import messages as wire
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE, BatchTransaction, RelationChanges, WireBatch
from pgrepl.replication.wire.messages import UNCHANGED, Message
from pgrepl.rows.checks_table import converter

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store import tables
    from pgrepl.lake.read.data_file import NewFile
    from pgrepl.lake.table import LakeTable
    from pgrepl.lake.write.statement import Write
    from pgrepl.replication.subscriber.conflicts import Foreign

    Numbers = npt.NDArray[Any]

_PART = 250_000  # rows that are made at a time
_OPERATIONS = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}


@frozen
class MissedMessages:
    """How many messages of each kind there are in one table, and the first of them: sequence number, kind, message."""

    kinds: Counter[str]
    first: tuple[tuple[int, str, Message], ...]


def missed_messages(decided: Decided, foreign: Foreign | None, left: Numbers | None) -> MissedMessages:
    """`foreign`: what of the table other origins have written; None: conflicts are only counted. `left`: which messages
    are the half of an UPDATE that deletes."""
    changes, missed = decided.changes, decided.folded.missed
    deletes = changes.op == DELETE
    if left is not None:
        deletes &= ~left
    kinds = Counter({UPDATE_MISSING: int((~deletes[missed]).sum()), DELETE_MISSING: int(deletes[missed].sum())})
    if foreign is None or decided.places is None:
        return MissedMessages(+kinds, ())
    theirs = decided.touched[_theirs(decided.places, foreign)[decided.touched_rows]]
    kinds += Counter({UPDATE_DIFFERS: int((~deletes[theirs]).sum()), DELETE_DIFFERS: int(deletes[theirs].sum())})
    at = np.concatenate([missed, theirs])
    differs = np.concatenate([np.zeros(len(missed), np.bool_), np.ones(len(theirs), np.bool_)])
    order = np.argsort(at, kind="stable")[:MOST]
    at, differs = at[order], differs[order]
    names = {(False, False): UPDATE_MISSING, (False, True): DELETE_MISSING,
             (True, False): UPDATE_DIFFERS, (True, True): DELETE_DIFFERS}  # fmt: skip
    told = [names[pair] for pair in zip(differs.tolist(), deletes[at].tolist(), strict=True)]
    return MissedMessages(+kinds, tuple(zip(changes.seq[at].tolist(), told, _messages(changes, at), strict=True)))


def _theirs(places: Places, foreign: Foreign) -> Numbers:
    """Which of the rows that were found another origin has written."""
    theirs = np.zeros(len(places.position), np.bool_)
    for file, start, end in places.files:
        if file == NOT_THERE:
            theirs[start:end] = np.isin(places.row_id[start:end], np.array(list(foreign.inlined), np.int64))
        else:
            theirs[start:end] = file in foreign.files
    return theirs


def _messages(changes: RelationChanges, at: Numbers) -> list[Message]:
    """Some messages one by one."""
    relation, width = changes.relation, range(len(changes.relation.columns))
    deletes, has_old = changes.op[at] == DELETE, changes.has_old[at]
    sides: list[dict[int, tuple[Any, ...]]] = []
    for which, old in ((np.flatnonzero(~deletes), False), (np.flatnonzero(has_old), True)):
        arrays = changes.pick(width, at[which], old=old)
        columns = [column.form.from_array(array) for column, array in zip(relation.columns, arrays, strict=True)]
        rows = list(zip(*columns, strict=True)) if columns else [()] * len(which)
        sides.append(dict(zip(which.tolist(), rows, strict=True)))
    for place, mask in changes.unchanged.items():
        for number in np.flatnonzero(mask[at]).tolist():
            row = list(sides[0][number])
            row[place] = UNCHANGED
            sides[0][number] = tuple(row)
    operations = [wire.DELETE if deleted else wire.UPDATE for deleted in deletes.tolist()]
    return [
        Message(operation, relation, sides[1].get(number), sides[0].get(number))
        for number, operation in enumerate(operations)
    ]


class ConflictsOfBatch:
    """The conflicts of all tables of a batch."""

    def __init__(self, session: Session, origin: str, batch: WireBatch) -> None:
        self.kinds: Counter[str] = Counter()
        self._session = session
        self._progress = Progress(origin)
        self._batch = batch
        self._told: list[tuple[int, Callable[[], Conflict]]] = []

    def take(self, root: Relation, leaf: Relation, write: Write, missed: MissedMessages, foreign: Foreign) -> None:
        self.kinds += missed.kinds
        self._told += [
            (seq, partial(self._tell, root, leaf, write, foreign, kind, message)) for seq, kind, message in missed.first
        ]

    def _tell(
        self, root: Relation, leaf: Relation, write: Write, foreign: Foreign, kind: str, message: Message
    ) -> Conflict:
        session = self._session
        self._progress.message(message.operation)
        self._progress.relation = message.relation
        target = TargetTable(session, message.relation, self._progress)
        from_root = converter(root, leaf)
        searched = from_root(tuple(target.store(message.old or message.new or ())))
        remote = None if message.new is None else from_root(tuple(target.store(message.new)))
        telling = Telling(session, target, leaf, message, self._progress)
        if kind in (UPDATE_MISSING, DELETE_MISSING):
            return telling.missing(searched, remote)
        everything = [column.num for column in leaf.kept]
        key = telling.key_columns or frozenset(everything)
        attnums = sorted(key)
        wanted = [tuple([searched[number - 1] for number in attnums])]
        ((_, values),) = local.lookup(session, write.table, attnums, wanted, everything, write.snapshot)
        row: list[Any] = [None] * len(leaf.attributes)
        for number, value in zip(everything, values, strict=False):
            row[number - 1] = value
        origin = foreign.of(values[-1])
        assert origin is not None, "it was told by the same snapshot"
        return telling.differs(row, origin, searched, remote)

    def told(self) -> list[Conflict]:
        """The first of them, in order; asked before the batch is written."""
        conflicts = []
        for seq, make in sorted(self._told, key=lambda maker: maker[0])[:MOST]:
            place = bisect_left(self._batch.transactions, seq, key=lambda sent: sent.last_seq)
            transaction = self._batch.transactions[place]
            self._progress.transaction(transaction.xid, transaction.finish_lsn)
            conflicts.append(make())
        return conflicts


def joined(parts_missed: Iterable[MissedMessages]) -> MissedMessages:
    """The conflicts of several parts of a table's messages."""
    parts = list(parts_missed)
    first = sorted((message for part in parts for message in part.first), key=lambda message: message[0])[:MOST]
    return MissedMessages(sum((part.kinds for part in parts), Counter()), tuple(first))


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
        listed = list(transactions)
        return cls(
            np.array([transaction.last_seq for transaction in listed], np.int64),
            np.array([transaction.first_seq for transaction in listed], np.int64),
            tuple([transaction.end_lsn for transaction in listed]),
            tuple([transaction.committed_at for transaction in listed]),
            tuple([transaction.xid for transaction in listed]),
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
        columns = {"operation": pa.repeat(_OPERATIONS[code], len(seq))}
        columns["change"] = pa.array(seq - sent.first_seq[first : last + 1][whose] + 1)
        for name, values in (("lsn", sent.end_lsn), ("committed_at", sent.committed_at), ("xid", sent.xid)):
            values_sent = forms[name].to_array(list(values[first : last + 1]))
            columns[name] = pa.repeat(values_sent[0], len(seq)) if first == last else values_sent.take(numbers)
        return columns


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
            whose = self._transactions[bisect_left(self._transactions, seq, key=lambda sent: sent.last_seq)]
            at = whose.end_lsn, whose.committed_at, whose.xid, seq - whose.first_seq + 1
            yield log.relation.oid, log.row("truncate", at, {}, {})
