"""Messages in files as RelationChanges: all messages of a relation in a batch, or a part of them.

Memory holds only the messages' heads and the numbers of their rows; rows are read when they are picked. Picked rows
that follow each other in a file, as those of a transaction do, are sliced in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.lake.changes.side import stretches
from pgrepl.replication.wire.batch import DELETE, FIRST_STORED, UPDATE, Kept, RelationChanges
from pgrepl.replication.wire.message_files import MessageFile, read_numbers
from pgrepl.replication.wire.messages import SentRelation
from pgrepl.types.lake.arrays import plain_array

Numbers = npt.NDArray[Any]


@frozen
class MessageSlice:
    """Some of the first `count` messages of a file. Their numbers, ascending, are those that the file `order` has from
    `first` to before `behind`; without `order` they are the numbers from `first` to before `behind` themselves."""

    file: MessageFile
    count: int
    order: str | None
    first: int
    behind: int

    def numbers(self) -> Numbers:
        if self.order is None:
            return np.arange(self.first, self.behind)
        return read_numbers(self.order, np.int32, self.first, self.behind - self.first)


class FileChanges:
    """Some messages of a relation, in order."""

    def __init__(
        self,
        relation: SentRelation,
        files: Sequence[MessageFile],
        chosen: Sequence[Numbers | None],
        counts: Sequence[int],
    ) -> None:
        """`chosen`: by file, the numbers of its messages, ascending; None: its first ones, as many as `counts` says."""
        self.relation = relation
        self._files = files
        self._kept: Mapping[int, Kept] = {}
        self._new_starts = np.cumsum([0, *[file.news for file in files]])
        self._old_starts = np.cumsum([0, *[file.olds for file in files]])
        parts = []
        for n, (file, numbers, count) in enumerate(zip(files, chosen, counts, strict=True)):
            heads = file.heads(count)
            own = [heads.seq, heads.op, heads.has_old, heads.new + self._new_starts[n], heads.old + self._old_starts[n]]
            parts.append(own if numbers is None else [column[numbers] for column in own])
        columns = [pieces[0] if len(parts) == 1 else np.concatenate(pieces) for pieces in zip(*parts, strict=True)]
        if not bool((columns[0][1:] > columns[0][:-1]).all()):
            order = np.argsort(columns[0], kind="stable")
            columns = [column[order] for column in columns]
        self.seq, self.op, self.has_old, self._new, self._old = columns
        self.unchanged: Mapping[int, Numbers] = self._all_unchanged()

    def _all_unchanged(self) -> dict[int, Numbers]:
        unchanged = {}
        for place in sorted({place for file in self._files for place in file.unchanged}):
            flags = np.zeros(int(self._new_starts[-1]), np.bool_)
            for file, start in zip(self._files, self._new_starts, strict=False):
                if place in file.unchanged:
                    flags[start + file.rows_unchanged(place)] = True
            own = flags[np.maximum(self._new, 0)] & (self.op == UPDATE)
            if own.any():
                unchanged[place] = own
        return unchanged

    @property
    def count(self) -> int:
        return len(self.seq)

    def _with(self, **changed: Any) -> FileChanges:
        changes = FileChanges.__new__(FileChanges)
        changes.__dict__.update(self.__dict__, **changed)
        return changes

    def with_kept(self, kept: Mapping[int, Kept]) -> RelationChanges:
        return self._with(_kept=kept, unchanged={})

    # --- rows ---------------------------------------------------------------------------------------------------------

    def pick(self, places: Sequence[int], messages: Numbers, *, old: bool = False) -> list[pa.Array]:
        if old or not self._kept:
            return self._sent(places, messages, old=old)
        as_sent = iter(self._sent([place for place in places if place not in self._kept], messages, old=False))
        return [self._value(place, messages) if place in self._kept else next(as_sent) for place in places]

    def _value(self, place: int, messages: Numbers) -> pa.Array:
        """The values of a column of which some were not sent."""
        kept = self._kept[place]
        source = kept.source[messages]
        stored = np.flatnonzero(source < 0)
        (sent,) = self._sent([place], np.where(source < 0, messages, source), old=False)
        if not len(stored):
            return sent
        at = np.arange(len(messages))
        at[stored] = len(messages) + FIRST_STORED - source[stored]
        return pa.concat_arrays([sent, kept.stored]).take(pa.array(at))

    def _sent(self, places: Sequence[int], messages: Numbers, *, old: bool) -> list[pa.Array]:
        own = [place for place in places if not old or self.relation.columns[place].is_key]
        arrays = dict(zip(own, self._read(own, messages, old=old), strict=True)) if len(messages) else {}
        kinds = self._files[0].kinds
        return [arrays[place] if place in arrays else pa.nulls(len(messages), kinds[place]) for place in places]

    def _read(self, places: Sequence[int], messages: Numbers, *, old: bool) -> list[pa.Array]:
        starts = (self._old_starts if old else self._new_starts).tolist()
        numbers = (self._old if old else self._new)[messages]
        names = [str(place) for place in places]
        pieces = stretches(numbers, starts)
        if pieces is not None:
            tables = {n: self._files[n].rows(old=old).select(names) for n in {n for n, _, _ in pieces}}
            cut = [tables[n].slice(first, count) for n, first, count in pieces]
            return [plain_array(column) for column in pa.concat_tables(cut).columns]
        whose = np.searchsorted(starts, numbers, side="right") - 1
        files = np.flatnonzero(np.bincount(whose, minlength=len(self._files))).tolist()
        parts, order = [], []
        for n in files:
            here = np.flatnonzero(whose == n)
            local = numbers[here] - starts[n]
            low = int(local.min())
            table = self._files[n].rows(old=old).select(names).slice(low, int(local.max()) + 1 - low)
            at = pa.array(local - low)
            parts.append([plain_array(column).take(at) for column in table.columns])
            order.append(here)
        if len(parts) == 1:
            return parts[0]
        back = np.empty(len(messages), np.int64)
        back[np.concatenate(order)] = np.arange(len(messages))
        places_of = pa.array(back)
        return [pa.concat_arrays(column).take(places_of) for column in zip(*parts, strict=True)]

    def prepare(self, places: Sequence[int], most: int) -> None:
        """Nothing to prepare: the files are mapped into memory."""

    def fits(self, places: Sequence[int], most: int) -> bool:
        rows = int(np.count_nonzero(self.op != DELETE))
        size = sum(file.size for file in self._files) * rows // max(int(self._new_starts[-1]), 1)
        return size + sum(self._kept[place].size for place in places if place in self._kept) <= most


@frozen
class MessageFiles:
    """All messages of one relation in a batch. Messages are in order within each file, but not from file to file."""

    relation: SentRelation
    files: tuple[MessageFile, ...]
    counts: tuple[int, ...] | None = None  # how many of the first messages of each file; None: all

    @property
    def taken(self) -> list[tuple[MessageFile, int]]:
        """The files, each with the number of its messages."""
        counts = [file.count for file in self.files] if self.counts is None else self.counts
        return list(zip(self.files, counts, strict=True))

    @property
    def count(self) -> int:
        return sum(count for _, count in self.taken)

    @property
    def operations(self) -> frozenset[int]:
        return frozenset(op for file in self.files for op in file.ops)

    @property
    def searches(self) -> bool:
        """Whether there are messages that look for a row: more than INSERTs."""
        return bool(self.operations & {UPDATE, DELETE})

    @property
    def size(self) -> int:
        """The bytes of the new rows."""
        return sum(file.size * count // max(file.count, 1) for file, count in self.taken)

    def until(self, seq: int) -> MessageFiles:
        """The messages before a sequence number."""
        counts = [int(file.seq(count).searchsorted(seq)) for file, count in self.taken]
        return replace(self, counts=tuple(counts))

    def whole(self) -> FileChanges:
        files, counts = zip(*self.taken, strict=True)
        return FileChanges(self.relation, files, [None] * len(files), counts)

    def some(self, pieces: Sequence[tuple[int, Numbers]]) -> FileChanges:
        """The messages with these numbers, from some of the files: (number of the file, numbers of messages)."""
        taken = [self.taken[n] for n, _ in pieces]
        files, counts = [file for file, _ in taken], [count for _, count in taken]
        return FileChanges(self.relation, files, [numbers for _, numbers in pieces], counts)

    def stand_in(self, folder: str) -> bool:
        return all(file.path.startswith(folder) for file in self.files)

    def copied(self, path: str) -> MessageFiles:
        """Copies of the files from which messages are taken; their names begin with `path`."""
        files = [file.copied(f"{path}.{n}") for n, (file, count) in enumerate(self.taken) if count]
        return replace(self, files=tuple(files), counts=tuple([count for _, count in self.taken if count]))

    def in_order(self, most: int) -> Iterator[FileChanges]:
        """All messages in order, about `most` at a time."""
        step = max(1, most // (8 * len(self.files)))
        sample = np.sort(np.concatenate([file.seq(count)[::step] for file, count in self.taken]))
        bounds = np.append(sample[:: max(1, most // step)][1:], np.iinfo(np.int64).max)
        ends = np.array([np.searchsorted(file.seq(count), bounds) for file, count in self.taken])
        begins = np.zeros(len(self.files), np.int64)
        for until in ends.T:
            pieces = [(n, np.arange(begins[n], until[n])) for n in np.flatnonzero(until > begins).tolist()]
            begins = until
            if pieces:
                yield self.some(pieces)


def of_slices(relation: SentRelation, slices: Sequence[MessageSlice]) -> FileChanges:
    files, counts = [part.file for part in slices], [part.count for part in slices]
    return FileChanges(relation, files, [part.numbers() for part in slices], counts)


def of_numbers(relation: SentRelation, file: MessageFile, numbers: Numbers) -> FileChanges:
    """Messages of one file."""
    return FileChanges(relation, [file], [numbers], [file.count])
