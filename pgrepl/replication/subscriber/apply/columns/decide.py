"""The net effect of messages on a table: which rows they insert, update and delete, where the old rows stand, and new
rows as files. No session is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.lake.write.file_writer import DataFileWriter
from pgrepl.replication.subscriber.apply.columns import fold
from pgrepl.replication.subscriber.apply.columns.described import (
    MOST_BYTES,
    DescribedTable,
    steps_of,
    with_kept,
    with_unsent,
)
from pgrepl.replication.subscriber.apply.columns.fold import Folded, KeptKeys, NotClean, check_other_keys
from pgrepl.replication.subscriber.apply.columns.keys import NOT_THERE, Keys, Places
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE, RelationChanges

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.lake.read.data_file import NewFile
    from pgrepl.lake.read.extent import RowsWithin

    Numbers = npt.NDArray[Any]


@frozen
class LeafChanges:
    """The changes of a leaf, by its OID. `left`: which of them delete a row that goes to another leaf."""

    leaf: int
    changes: RelationChanges
    left: Numbers | None


@frozen
class Decided:
    """`changes`: with all values of the messages that are carried out, unsent ones too. `places` None: no rows were
    looked for."""

    changes: RelationChanges
    folded: Folded
    places: Places | None
    looked_up: Mapping[tuple[int, ...], int]  # number of keys looked up, by their columns
    touched: Numbers  # the messages that are the first to change a row of the table, where that was asked …
    touched_rows: Numbers  # … with the numbers of these rows


def decide(
    described: DescribedTable,
    changes: RelationChanges,
    within: RowsWithin,
    *,
    since: int,
    truncates: Sequence[int],
    kept: KeptKeys | None = None,
    left: Numbers | None = None,
    again: bool = True,
    looks: bool = False,
) -> Decided:
    """Messages with sequence numbers below `since` do not concern the table; `truncates`: the sequence numbers of its
    truncations, ascending. `kept`: where `changes` are one part of all, it takes the new rows' values of other unique
    indexes, to be checked later. `left`: which messages are DELETEs that must find a row. `looks`: tell `touched`.
    Raises NotClean with the sequence number of a message that cannot be carried out."""
    changes = with_unsent(described, changes)
    chosen = changes.seq >= since
    inserts, updates, deletes = ((changes.op == kind) & chosen for kind in (INSERT, UPDATE, DELETE))
    rounds = np.searchsorted(np.array(truncates, np.int64), changes.seq) if len(truncates) else None
    if not described.keys.attnums:
        nothing = np.empty(0, np.int64)
        last = np.ones(len(inserts), np.bool_) if rounds is None else rounds == len(truncates)
        kept_rows, rest = np.flatnonzero(inserts & last), np.flatnonzero(inserts & ~last)
        return Decided(changes, Folded(kept_rows, nothing, nothing, nothing, rest, nothing), None, {}, nothing, nothing)
    deciding = _Deciding(described, changes, within, kept, left, again, looks)
    try:
        done = deciding.run(inserts | updates, (updates | deletes) & changes.has_old, updates, rounds, len(truncates))
    except NotClean as obstacle:
        raise NotClean(int(changes.seq[obstacle.message])) from None
    if described.converted:
        _check_searched(described, changes, updates | deletes, done.folded)
    return done


def _check_searched(described: DescribedTable, changes: RelationChanges, searching: Numbers, folded: Folded) -> None:
    """Convert what rows are looked for by. PostgreSQL does so before it looks (slot_store_data), so that a value that
    does not convert is an error even if the value is not needed, or there is no such row."""
    described.check_searched(changes, np.flatnonzero(searching & changes.has_old), old=True)
    missed = searching & ~changes.has_old
    for done in (folded.inserted, folded.updated, folded.passing):
        missed[done] = False  # their new rows are made
    described.check_searched(changes, np.flatnonzero(missed), old=False)


@frozen
class _Deciding:
    """The parameters of `decide`."""

    described: DescribedTable
    changes: RelationChanges
    within: RowsWithin
    kept: KeptKeys | None
    left: Numbers | None
    again: bool
    looks: bool

    def run(self, new: Numbers, old: Numbers, updates: Numbers, rounds: Numbers | None, truncates: int) -> Decided:
        changes, described = self.changes, self.described
        attnums = described.keys.attnums
        at_new, at_old = np.flatnonzero(new), np.flatnonzero(old)
        sides = [described.key_values(changes, attnums, at, old=old) for at, old in ((at_new, False), (at_old, True))]
        columns = [list(parts) for parts in zip(*sides, strict=True)]
        changes.prepare(described.new_places, MOST_BYTES)
        for parts, at in ((0, at_new), (1, at_old)):
            missing = [at[column[parts].is_null().to_numpy(zero_copy_only=False)] for column in columns
                       if column[parts].null_count]  # fmt: skip
            if missing:
                raise NotClean(int(min(messages.min() for messages in missing)))
        keys = Keys(described.table, attnums, columns)
        code_new, code_old = (np.empty(changes.count, np.int64) for _ in range(2))
        code_new[at_new], code_old[at_old] = keys.codes
        moves = updates & old
        moves &= code_new != code_old
        stays = (new & ~moves) | (old & ~new)
        step = np.full(changes.count, fold.UPDATE, np.int8)
        step[changes.op == INSERT], step[changes.op == DELETE] = fold.INSERT, fold.DELETE
        if self.left is not None:
            step[self.left] = fold.TAKE
        message, code = np.flatnonzero(stays), np.where(new, code_new, code_old)
        if len(message) != changes.count:
            step, code = step[message], code[message]
        if moves.any():
            moving = np.flatnonzero(moves)
            message = np.concatenate([message, moving, moving])
            order = np.argsort(message, kind="stable")
            ends = [np.full(len(moving), way, np.int8) for way in (fold.LEAVE, fold.ENTER)]
            step = np.concatenate([step, *ends])[order]
            code = np.concatenate([code, code_old[moving], code_new[moving]])[order]
            message = message[order]
        order, first = keys.in_order(code)
        places = keys.find(self.within, again=self.again)
        looked_up = {attnums: len(keys.distinct)}
        row = places.number
        if described.keys.others:
            if truncates:
                raise Declined("several unique indexes of a table that is emptied")
            if moves.any():
                raise NotClean(int(np.flatnonzero(moves)[0]))
            number = np.empty(changes.count, np.int64)
            number[message[order]] = np.cumsum(first) - 1
            looked_up |= self._check_others(places, at_new, number[at_new])
        if not truncates:
            rounds = None
            folded = fold.fold_sorted(message, step, order, first, row)
        else:
            assert rounds is not None
            number = np.empty(len(order), np.int64)
            number[order] = np.cumsum(first) - 1
            rounds = rounds[message]
            folded = fold.named_by(fold.fold(message, number, step, places.exists, rounds, truncates + 1), row)
        touched = touched_rows = order[:0]
        if changes.unchanged or self.looks:
            steps = steps_of(message, step, order, first, row, rounds)
            begins = steps.begins & (steps.row != NOT_THERE) & (steps.step != fold.ENTER)
            touched, touched_rows = steps.message[begins], steps.row[begins]
        if changes.unchanged:
            changes = with_kept(described, self.within, changes, steps, places, folded)
        return Decided(changes, folded, places, looked_up, touched, touched_rows)

    def _check_others(self, places: Places, messages: Numbers, key: Numbers) -> dict[tuple[int, ...], int]:
        row = places.number[key]
        row_id = np.full(len(row), NOT_THERE, np.int64)
        row_id[row != NOT_THERE] = places.row_id[row[row != NOT_THERE]]
        looked_up = {}
        for attnums in self.described.keys.others:
            columns = self.described.key_values(self.changes, attnums, messages, old=False)
            if self.kept is None:
                looked_up[attnums] = check_other_keys(
                    self.described.table, self.within, attnums, columns, messages, key, row_id
                )
            else:
                self.kept.keep(attnums, columns, self.changes.seq[messages], key, row_id)
        return looked_up


def leaving(decided: Decided) -> tuple[list[tuple[int, Numbers]], list[int]]:
    """The rows that are deleted or replaced: positions by data file, ascending; and the row ids of inlined rows."""
    files: list[tuple[int, Numbers]] = []
    inlined: list[int] = []
    places = decided.places
    if places is None:
        return files, inlined
    gone = np.zeros(len(places.position), np.bool_)
    gone[decided.folded.deleted] = True
    gone[decided.folded.replaced] = True
    for file, start, end in places.files:
        here = gone[start:end]
        if file == NOT_THERE:
            inlined += places.row_id[start:end][here].tolist()
        elif here.any():
            files.append((file, np.sort(places.position[start:end][here])))
    return files, inlined


# --- rows to write ----------------------------------------------------------------------------------------------------


_PART = 1_000_000  # rows of a file at most


@frozen
class RowsToWrite:
    """The new rows of some messages; with `row_ids` they are new versions."""

    described: DescribedTable
    changes: RelationChanges
    messages: Numbers
    row_ids: Any

    def write(self, folder: str | None = None) -> list[NewFile]:
        """`folder`: an existing one inside the table's."""
        described, table = self.described, self.described.table
        arrays = described.new_rows(described.maker(), self.changes, self.messages)
        writer = DataFileWriter(table, row_ids=self.row_ids is not None, folder=folder)
        ids = None if self.row_ids is None else pa.array(self.row_ids)
        writer.write_arrays(arrays, ids, len(self.messages))
        return [writer.close()]


def rows_to_write(described: DescribedTable, decided: Decided) -> list[RowsToWrite]:
    """All new rows; those of which nothing is left are checked."""
    changes, folded = decided.changes, decided.folded
    if described.has_rules and len(folded.passing):
        maker = described.maker()
        for part in _parts_of(folded.passing):
            described.new_rows(maker, changes, part)
    to_write = [RowsToWrite(described, changes, part, None) for part in _parts_of(folded.inserted)]
    if len(folded.updated):
        assert decided.places is not None
        row_ids = decided.places.row_id[folded.replaced]
        for part, ids in zip(_parts_of(folded.updated), _parts_of(row_ids), strict=True):
            to_write.append(RowsToWrite(described, changes, part, ids))
    return to_write


def _parts_of(messages: Numbers) -> list[Numbers]:
    """The messages divided, in order, by file."""
    return [messages[start : start + _PART] for start in range(0, len(messages), _PART)]
