"""The net effect of one table's messages, key by key, and whether they could be carried out in order without an error.

Messages are steps on keys, in order. For each key it is known whether the table has a row with it. From there

    insert      wants the key free                 there is a row now
    update      of no row: nothing happens         the row has the new values
    delete      of no row: nothing happens         the row is gone
    take        wants a row                        the row is gone

A TRUNCATE begins a new round in which the table has no rows. An UPDATE that changes its key is clean only if no other
message touches either key. Of other unique indexes a new row is clean if nobody else has its values at any time in
the batch; any other is left to the exact way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.replication.subscriber.apply.columns.keys import NOT_THERE, Keys
from pgrepl.replication.wire.batch import INSERT as BATCH_INSERT
from pgrepl.replication.wire.batch import RelationChanges, comparable
from pgrepl.replication.wire.message_files import Decoded, MessageFile, MessageWriter
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.types import oids

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.lake.read.extent import RowsWithin
    from pgrepl.lake.table import LakeColumn, LakeTable

    Numbers = npt.NDArray[np.int64]
    Truths = npt.NDArray[np.bool_]
    Steps = npt.NDArray[np.signedinteger[Any]]
    AnyNumbers = npt.NDArray[Any]

INSERT, UPDATE, DELETE, TAKE, LEAVE, ENTER = range(
    6
)  # steps; an UPDATE that changes the key leaves one, enters another


@frozen
class Folded:
    """The net effect on the table, in numbers of messages and numbers of keys."""

    inserted: Numbers  # messages whose new row is inserted
    updated: Numbers  # messages whose new row replaces a row of the table …
    replaced: Numbers  # … with these keys, one each
    deleted: Numbers  # keys whose rows are deleted and not replaced
    passing: Numbers  # messages that are carried out, but whose new row does not last: it is only checked
    missed: Numbers  # messages that find no row


class NotClean(Exception):
    """A message cannot be carried out as it stands in the batch; `message` is the first such one."""

    def __init__(self, message: int) -> None:
        super().__init__(message)
        self.message = message


def fold_sorted(message: Numbers, step: Steps, order: Numbers, first: Truths, row: Numbers) -> Folded:
    """`message` and `step`: the steps, by ascending message; `order`: their order by key; `first`: which of them, in
    that order, begin another key; `row`: the table's row of each key, or -1. The answer has these rows in place of
    keys. Keys with one step, which is most, take a short cut."""
    if first.all() and not (step > TAKE).any():
        own = np.empty(len(order), np.int64)
        own[order] = row
        return _alone(message, step, own)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(first) - 1
    alone = np.empty(len(order), np.bool_)
    alone[order] = first & np.append(first[1:], True)
    alone &= step <= TAKE
    rest = np.flatnonzero(~alone)
    single = np.flatnonzero(alone)
    folded, obstacles = [], []
    try:
        folded.append(_alone(message[single], step[single], row[number[single]]))
    except NotClean as obstacle:
        obstacles.append(obstacle.message)
    try:
        several = fold(message[rest], number[rest], step[rest], row >= 0)
        folded.append(named_by(several, row))
    except NotClean as obstacle:
        obstacles.append(obstacle.message)
    if obstacles:
        raise NotClean(min(obstacles))
    return _joined(*folded)


def named_by(folded: Folded, row: Numbers) -> Folded:
    """The keys replaced by the numbers of their rows."""
    return replace(folded, replaced=row[folded.replaced], deleted=row[folded.deleted])


def _alone(message: Numbers, step: Steps, row: Numbers) -> Folded:
    """The effect of steps whose keys have no other step."""
    there = row >= 0
    inserts, takes = step == INSERT, step == TAKE
    dirty = (inserts & there) | (takes & ~there)
    if dirty.any():
        raise NotClean(int(message[dirty][0]))
    changed = np.flatnonzero((step == UPDATE) & there)
    return Folded(
        message[inserts],
        message[changed],
        row[changed],
        row[((step == DELETE) | takes) & there],
        message[:0],
        message[~there & ~inserts],
    )


def _joined(one: Folded, other: Folded) -> Folded:
    updated = np.concatenate([one.updated, other.updated])
    order = np.argsort(updated, kind="stable")
    replaced = np.concatenate([one.replaced, other.replaced])
    return Folded(
        np.sort(np.concatenate([one.inserted, other.inserted])),
        updated[order],
        replaced[order],
        np.concatenate([one.deleted, other.deleted]),
        np.sort(np.concatenate([one.passing, other.passing])),
        np.sort(np.concatenate([one.missed, other.missed])),
    )


def fold(
    message: Numbers, key: Numbers, step: Steps, exists: Truths, round_: Numbers | None = None, rounds: int = 1
) -> Folded:
    """`message`, `key` and `step`: the steps, by ascending message; `round_`: of each step, if there are several
    rounds."""
    keys = len(exists)
    slot = key if round_ is None else round_ * keys + key
    order = np.argsort(slot, kind="stable")
    slot, step, message = slot[order], step[order], message[order]
    if not len(slot):
        nothing = np.empty(0, np.int64)
        return Folded(nothing, nothing, nothing, nothing, nothing, nothing)
    first = np.ones(len(slot), np.bool_)
    first[1:] = slot[1:] != slot[:-1]
    starts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    ends = np.append(starts[1:], len(slot)) - 1
    there = exists[slot[starts] % keys] & (slot[starts] < keys)  # at the beginning

    # the last step before each that decides whether there is a row
    places = np.arange(len(slot))
    deletes = (step == DELETE) | (step == TAKE)
    says = (step == INSERT) | deletes
    last = np.maximum.accumulate(np.where(says, places, -1))
    before = np.empty_like(last)
    before[0], before[1:] = -1, last[:-1]
    known = before >= starts[group]
    state = np.where(known, step[np.maximum(before, 0)] == INSERT, there[group])

    alone = (ends - starts == 0)[group]
    moves = (step == LEAVE) | (step == ENTER)
    dirty = ((step == INSERT) & state) | ((step == TAKE) & ~state) | (moves & ~alone)
    # an UPDATE that finds no old row enters nothing, so that it meets no other row
    left = np.zeros(int(message.max()) + 1, np.bool_)
    left[message[(step == LEAVE) & state]] = True
    dirty |= (step == ENTER) & state & left[message]
    if dirty.any():
        raise NotClean(int(message[dirty].min()))

    done = np.where(step == INSERT, True, np.where(step == ENTER, left[message], state))
    after = np.where(step == INSERT, True, np.where(deletes, False, state))
    is_last_round = slot // keys == rounds - 1
    final = np.zeros(len(slot), np.bool_)
    final[ends] = True
    lives = final & after & is_last_round & ~moves & done
    renewed = last >= starts[group]  # the key has had an INSERT or a DELETE
    has_row = there[group]
    fresh = lives & (renewed | ~has_row)
    changed = lives & ~renewed & has_row & (step == UPDATE)
    moved = (step == ENTER) & done & is_last_round
    origin = np.full(int(message.max()) + 1, -1, np.int64)
    origin[message[step == LEAVE]] = slot[step == LEAVE] % keys
    goes = final & has_row & renewed & is_last_round  # the table's row is deleted, even if the key has a new row
    rows = ~deletes & (step != LEAVE) & done & ~fresh & ~changed & ~moved
    return Folded(
        np.sort(message[fresh]),
        *_together(message, slot % keys, changed, moved, origin),
        slot[goes] % keys,
        np.sort(message[rows]),
        np.sort(message[~state & ((step == UPDATE) | (step == DELETE) | (step == LEAVE))]),
    )


def _together(
    message: Numbers, key: Numbers, changed: Truths, moved: Truths, origin: Numbers
) -> tuple[Numbers, Numbers]:
    """The messages that make new versions, in order, and the keys of the old versions."""
    messages = np.concatenate([message[changed], message[moved]])
    keys = np.concatenate([key[changed], origin[message[moved]]])
    order = np.argsort(messages, kind="stable")
    return messages[order], keys[order]


# --- other keys -------------------------------------------------------------------------------------------------------


_KEYS = 32  # bits for the number of a key within its part


def check_other_keys(
    table: LakeTable,
    within: RowsWithin,
    attnums: Sequence[int],
    columns: Sequence[pa.Array],
    messages: AnyNumbers,
    key: AnyNumbers,
    row_id: AnyNumbers,
    *,
    again: bool = True,
) -> int:
    """Check the values `columns` of the new rows of `messages`. `key`: the number of the key that finds each one's row;
    `row_id`: that row's id (NOT_THERE: the table has none). Raises NotClean for the first message whose values another
    row has; otherwise the answer is the number of values looked up."""
    known = np.ones(len(messages), np.bool_)  # NULLs are not equal to each other
    for column in columns:
        if column.null_count:
            known &= column.is_valid().to_numpy(zero_copy_only=False)
    if not known.all():
        at = np.flatnonzero(known)
        messages, key, row_id = messages[at], key[at], row_id[at]
        columns = [column.take(pa.array(at)) for column in columns]
    if not len(messages):
        return 0
    keys = Keys(table, attnums, [[column] for column in columns])
    order, first = keys.in_order(keys.codes[0])
    places = keys.find(within, again=again)
    group = np.cumsum(first) - 1
    whose = key[order]
    meets = whose != whose[np.flatnonzero(first)][group]
    holder = places.number[group]
    held = np.flatnonzero(holder != NOT_THERE)
    meets[held] |= places.row_id[holder[held]] != row_id[order[held]]
    if meets.any():
        raise NotClean(int(messages[order[meets]].min()))
    return len(keys.distinct)


@frozen
class IndexValues:
    """The values of an index in the messages that are kept for it (`Keys` of parts.py)."""

    columns: tuple[LakeColumn, ...]

    def __call__(self, changes: RelationChanges, at: AnyNumbers, old: bool) -> list[pa.Array]:
        arrays = changes.pick(range(len(self.columns)), at, old=old)
        return [comparable(column, array) for column, array in zip(self.columns, arrays, strict=True)]


def index_relation(table: LakeTable, attnums: Sequence[int]) -> SentRelation:
    """The relation of messages that keep an index's values: its columns, the number of the row's key, the row id."""
    columns = [table.column(attnum) for attnum in attnums]
    sent = [SentColumn(column.name, column.typoid, column.typmod, is_key=False) for column in columns]
    numbers = [SentColumn(name, oids.INT8, -1, is_key=False) for name in ("key", "row id")]
    return SentRelation(table.oid, "", f"{attnums}", "n", (*sent, *numbers))


class KeptKeys:
    """Files with the values that the new rows of one part have in unique indexes besides the one that parts are divided
    by."""

    def __init__(self, table: LakeTable, path: str, part: int) -> None:
        """`path`: the prefix of the files' names."""
        self._table = table
        self._path = path
        self._part = part
        self._files: dict[tuple[int, ...], tuple[MessageFile, ...]] = {}

    def keep(
        self,
        attnums: tuple[int, ...],
        columns: Sequence[pa.Array],
        seq: AnyNumbers,
        key: AnyNumbers,
        row_id: AnyNumbers,
    ) -> None:
        """Write the values of one index. Parameters as in check_other_keys; `seq`: the messages' sequence numbers."""
        writer = MessageWriter(index_relation(self._table, attnums), f"{self._path}.{len(self._files)}", len(seq))
        own = pa.array(key + (self._part << _KEYS))
        nothing = np.zeros(len(seq), np.bool_)
        op = np.full(len(seq), BATCH_INSERT, np.uint8)
        writer.write(seq, Decoded(op, nothing, [*columns, own, pa.array(row_id)], {}, {}))
        self._files[attnums] = writer.close()

    @property
    def files(self) -> Mapping[tuple[int, ...], tuple[MessageFile, ...]]:
        """The files, by the columns of an index."""
        return self._files


def check_kept(table: LakeTable, attnums: Sequence[int], part: RelationChanges, within: RowsWithin) -> int:
    """Check one part of the kept messages, which has all messages with some values of the index. The number of values
    looked up; raises NotClean with a sequence number."""
    every = np.arange(part.count)
    *columns, key, row_id = part.pick(range(len(attnums) + 2), every)
    numbers = key.to_numpy(), row_id.to_numpy()
    try:
        return check_other_keys(table, within, attnums, columns, every, *numbers, again=False)
    except NotClean as obstacle:
        raise NotClean(int(part.seq[obstacle.message])) from None
