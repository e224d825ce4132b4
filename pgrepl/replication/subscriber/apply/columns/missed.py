"""Conflicts of a batch by whole columns: which messages find no row, and which change a row of another origin. They are
taken from the steps of the fold; of the first ones the messages are kept, to be told one by one."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np
from pgrepl.lake.read import local
from pgrepl.replication.subscriber.apply.columns.decide import Decided
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
from pgrepl.replication.wire import messages as wire
from pgrepl.replication.wire.batch import DELETE, RelationChanges, WireBatch
from pgrepl.replication.wire.messages import UNCHANGED, Message
from pgrepl.rows.checks_table import converter

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.write.statement import Write
    from pgrepl.replication.subscriber.row_origins import Foreign

    Numbers = npt.NDArray[Any]


@frozen
class MissedMessages:
    """How many messages of each kind there are in one table, and the first of them: sequence number, kind, message."""

    kinds: Counter[str]
    first: tuple[tuple[int, str, Message], ...]


def missed_messages(decided: Decided, foreign: Foreign | None, left: Numbers | None) -> MissedMessages:
    """`foreign`: what of the table other origins have written; None: conflicts are only counted. `left`: which messages
    are the half of an UPDATE that deletes."""
    changes, found = decided.changes, decided.folded.missed
    deletes = changes.op == DELETE
    if left is not None:
        deletes &= ~left
    kinds = Counter({UPDATE_MISSING: int((~deletes[found]).sum()), DELETE_MISSING: int(deletes[found].sum())})
    if foreign is None or decided.places is None:
        return MissedMessages(+kinds, ())
    theirs = decided.touched[_theirs(decided.places, foreign)[decided.touched_rows]]
    kinds += Counter({UPDATE_DIFFERS: int((~deletes[theirs]).sum()), DELETE_DIFFERS: int(deletes[theirs].sum())})
    at = np.concatenate([found, theirs])
    differs = np.concatenate([np.zeros(len(found), np.bool_), np.ones(len(theirs), np.bool_)])
    order = np.argsort(at, kind="stable")[:MOST]
    at, differs = at[order], differs[order]
    names = {(False, False): UPDATE_MISSING, (False, True): DELETE_MISSING,
             (True, False): UPDATE_DIFFERS, (True, True): DELETE_DIFFERS}  # fmt: skip
    told = [names[pair] for pair in zip(differs.tolist(), deletes[at].tolist(), strict=True)]
    return MissedMessages(+kinds, tuple(zip(changes.seq[at].tolist(), told, _messages(changes, at), strict=True)))


def _theirs(places: Places, foreign: Foreign) -> Numbers:
    """Which of the rows that were found another origin has written."""
    found = np.zeros(len(places.position), np.bool_)
    for file, start, end in places.files:
        if file == NOT_THERE:
            found[start:end] = np.isin(places.row_id[start:end], np.array(list(foreign.inlined), np.int64))
        else:
            found[start:end] = file in foreign.files
    return found


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
    operations = [wire.DELETE if each else wire.UPDATE for each in deletes.tolist()]
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

    def take(self, root: Relation, leaf: Relation, write: Write, found: MissedMessages, foreign: Foreign) -> None:
        self.kinds += found.kinds
        self._told += [
            (seq, partial(self._tell, root, leaf, write, foreign, kind, message)) for seq, kind, message in found.first
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
        found = []
        for seq, make in sorted(self._told, key=lambda each: each[0])[:MOST]:
            place = bisect_left(self._batch.transactions, seq, key=lambda each: each.last_seq)
            transaction = self._batch.transactions[place]
            self._progress.transaction(transaction.xid, transaction.finish_lsn)
            found.append(make())
        return found


def joined(found: Iterable[MissedMessages]) -> MissedMessages:
    """The conflicts of several parts of a table's messages."""
    parts = list(found)
    first = sorted((each for part in parts for each in part.first), key=lambda each: each[0])[:MOST]
    return MissedMessages(sum((part.kinds for part in parts), Counter()), tuple(first))
