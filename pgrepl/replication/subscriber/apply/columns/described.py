"""A target table of one sent relation, as plain data: kernels decide by it without a session, in tasks of Spark too.

Values that were not sent are found for it: unchanged TOAST values of an UPDATE, from an earlier message for the row or
the table's row; and columns that are not sent at all, as if they were: an INSERT sends the default, an UPDATE leaves
the value unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.engine.copy_rows import RowMaker
from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.lake.read import footers
from pgrepl.lake.read.file_scan import constant, locate, with_fields
from pgrepl.lake.read.part import repeated
from pgrepl.replication.subscriber.apply.columns.fold import ENTER, LEAVE, UPDATE, Folded
from pgrepl.replication.subscriber.apply.columns.keys import NOT_THERE, Places
from pgrepl.replication.wire.batch import FIRST_STORED, Kept, RelationChanges
from pgrepl.replication.wire.batch import UPDATE as BATCH_UPDATE
from pgrepl.types import oids
from pgrepl.types.lake.arrays import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.engine.copy_rows import KernelColumn, KernelCondition
    from pgrepl.lake.read.data_file import DataFile
    from pgrepl.lake.read.extent import RowsWithin, TableRows
    from pgrepl.lake.read.footers import FileColumn
    from pgrepl.lake.table import LakeColumn, LakeTable
    from pgrepl.replication.wire.messages import SentColumn

    Numbers = npt.NDArray[Any]


MOST_BYTES = 1 << 30  # of columns that are held in memory; larger ones are left to the exact way
_MOST = MOST_BYTES >> 1
_PORTION = 4096  # rows whose values are read at a time


@frozen
class TableKeys:
    """`attnums`: the columns of the key that rows are found by; without columns rows are not looked for. `others`: the
    columns of each other unique index."""

    attnums: tuple[int, ...]
    others: tuple[tuple[int, ...], ...] = ()


@frozen
class DescribedTable:
    """`places`: for each column by number the place among those that are sent; columns that are not sent have places
    behind these, generated ones -1. `same`: the numbers of the columns that hold what is sent as it is. `defaults`:
    what INSERTs put into columns that are not sent, by place, an array of one each."""

    table: LakeTable
    keys: TableKeys
    places: tuple[int, ...]
    same: frozenset[int]
    sent: tuple[SentColumn, ...]  # the places that are sent
    columns: tuple[KernelColumn, ...]  # made of what is at a place, whose attribute number is the place + 1
    check: KernelCondition | None
    defaults: Mapping[int, pa.Array]

    @property
    def new_places(self) -> list[int]:
        """The places that new rows are made of."""
        return [attnum - 1 for attnum in sorted({attnum for column in self.columns for attnum in column.read})]

    @property
    def has_rules(self) -> bool:
        """Whether there may be something wrong about a new row."""
        plain = all(c.source and c.attnum in self.same and not c.not_null for c in self.columns)
        return not plain or self.check is not None

    @property
    def converted(self) -> list[KernelColumn]:
        """The columns that are not kept as they were sent."""
        return [column for column in self.columns if column.attnum not in self.same and not column.generated]

    def column(self, attnum: int) -> SentColumn | LakeColumn:
        """The column at a place, as a source of a RowMaker."""
        if attnum <= len(self.sent):
            return self.sent[attnum - 1]
        return self.table.column(self.places.index(attnum - 1) + 1)

    def maker(self) -> RowMaker:
        return RowMaker(self, self.table, self.columns, self.check)

    def new_rows(self, maker: RowMaker, changes: RelationChanges, messages: Numbers) -> list[pa.Array]:
        """The table's columns in their order. PgError: something is wrong about a row."""
        arrays = maker.made(_picked(changes, self.new_places, messages), len(messages))
        return [arrays[column.attnum] for column in self.table.columns]

    def check_searched(self, changes: RelationChanges, messages: Numbers, *, old: bool) -> None:
        """Convert the values that these messages look for a row by. PgError: one is not a value of its column."""
        columns = [replace(column, not_null=False) for column in self.converted]
        if old:
            columns = [c for c in columns if all(changes.relation.columns[n - 1].is_key for n in c.read)]
        if columns and len(messages):
            places = sorted({attnum - 1 for column in columns for attnum in column.read})
            maker = RowMaker(self, self.table, columns, None)
            maker.made(_picked(changes, places, messages, old=old), len(messages))

    def key_values(self, changes: RelationChanges, attnums: Sequence[int], at: Numbers, *, old: bool) -> list[pa.Array]:
        """Columns of the new or the old rows of some messages, in the table's types."""
        return [self._values(changes, attnum, at, old=old) for attnum in attnums]

    def _values(self, changes: RelationChanges, attnum: int, at: Numbers, *, old: bool) -> pa.Array:
        place = self.places[attnum - 1]
        (values,) = changes.pick([place], at, old=old)
        unchanged = None if old else changes.unchanged.get(place)
        if unchanged is not None:
            values = _with_old(changes, values, place, at, unchanged[at])
        if attnum in self.same:
            return values
        return _read_as(values, changes.relation.columns[place].type, self.table.column(attnum).typoid)


def _picked(
    changes: RelationChanges, places: Sequence[int], messages: Numbers, *, old: bool = False
) -> dict[int, pa.Array]:
    """The arrays at the places, as sources of a RowMaker."""
    return {place + 1: array for place, array in zip(places, changes.pick(places, messages, old=old), strict=True)}


def _with_old(changes: RelationChanges, values: pa.Array, place: int, at: Numbers, unchanged: Numbers) -> pa.Array:
    """A key column with unsent values taken from the old row, which has them."""
    which = np.flatnonzero(unchanged)
    if not changes.has_old[at[which]].all():
        raise Declined("a key that was not sent")
    (olds,) = changes.pick([place], at[which], old=True)
    numbers = np.arange(len(values))
    numbers[which] = len(values) + np.arange(len(which))
    return pa.concat_arrays([values, olds]).take(pa.array(numbers))


def _read_as(values: pa.Array, source: int, target: int) -> pa.Array:
    """Key values converted to the table's type. Declined for types whose conversion is not simple."""
    if source in (*oids.INTEGERS, oids.TEXT) and target in oids.INTEGERS:
        width = {oids.INT2: pa.int16(), oids.INT4: pa.int32(), oids.INT8: pa.int64()}[target]
        try:
            return pc.cast(values, width)
        except pa.ArrowInvalid:
            raise Declined("a key that does not convert") from None
    if {source, target} <= {oids.TEXT, oids.VARCHAR} or (source in oids.INTEGERS and target == oids.TEXT):
        return plain_array(pc.cast(values, pa.string()))
    raise Declined("the type of a key")


@frozen
class Steps:
    """The steps of a batch that was folded, by key and in order."""

    message: Numbers
    step: Numbers
    begins: Numbers  # whether it is the first step of its key and round
    row: Numbers  # the table's row of the key, or NOT_THERE


def steps_of(
    message: Numbers, step: Numbers, order: Numbers, first: Numbers, row: Numbers, rounds: Numbers | None
) -> Steps:
    """Parameters as in fold_sorted; `rounds`: of each step, if the batch has truncations of the table."""
    own = row[np.cumsum(first) - 1] if len(order) else row[:0]
    message, step, begins = message[order], step[order], first.copy()
    if rounds is not None:
        rounds = rounds[order]
        begins[1:] |= rounds[1:] != rounds[:-1]
        own = np.where(rounds == 0, own, NOT_THERE)
    moving = step == LEAVE
    if moving.any():  # the row that leaves a key is the one that enters the other
        left = np.full(int(message.max()) + 1, NOT_THERE, np.int64)
        left[message[moving]] = own[moving]
        own = np.where(step == ENTER, left[message], own)
    return Steps(message, step, begins, own)


def with_kept(
    described: DescribedTable,
    within: RowsWithin,
    changes: RelationChanges,
    steps: Steps,
    places: Places,
    folded: Folded,
) -> RelationChanges:
    """The changes, with the unsent values filled in for all messages that are carried out."""
    done = np.zeros(changes.count, np.bool_)
    for messages in (folded.inserted, folded.updated, folded.passing):
        done[messages] = True
    sources: dict[int, Numbers] = {}
    wanted: dict[int, Numbers] = {}
    for place, flags in changes.unchanged.items():
        sources[place], wanted[place] = _sources(changes.count, steps, flags, done)
    own = {place: described.places.index(place) + 1 for place in sources}
    asked = [place for place in sources if len(wanted[place])]
    if not all(own[place] in described.same for place in asked):
        raise Declined("values that were not sent of another type than the column's")
    rows = np.concatenate([wanted[place] for place in asked] or [np.empty(0, np.int64)])
    rows = np.sort(rows)
    rows = rows[np.append(True, rows[1:] != rows[:-1])] if len(rows) else rows
    columns = [described.table.column(own[place]) for place in asked]
    stored = _stored(within(columns, ()) if len(rows) else None, columns, places, rows)
    values = dict(zip(asked, stored, strict=True))
    kept = {}
    for place, source in sources.items():
        kept[place] = _kept(changes, place, source, rows, values.get(place), flags=changes.unchanged[place] & done)
    return changes.with_kept(kept)


def _sources(count: int, steps: Steps, unsent: Numbers, done: Numbers) -> tuple[Numbers, Numbers]:
    """The number, for each message, of the message that has its value, or FIRST_STORED minus the table's row; and these
    rows. Only messages that are carried out are looked at: they have a row."""
    source = np.arange(count)
    is_row = (steps.step == UPDATE) | (steps.step == ENTER)
    missing = unsent[steps.message] & is_row
    if not missing.any():
        return source, np.empty(0, np.int64)
    places = np.arange(len(missing))
    last = np.maximum.accumulate(np.where(~missing | steps.begins, places, 0))
    at = np.flatnonzero(missing & done[steps.message])
    from_ = last[at]
    sent = ~missing[from_]
    source[steps.message[at[sent]]] = steps.message[from_[sent]]
    rows = steps.row[from_[~sent]]
    assert bool((rows != NOT_THERE).all())
    source[steps.message[at[~sent]]] = FIRST_STORED - rows
    return source, rows


def _kept(
    changes: RelationChanges, place: int, source: Numbers, rows: Numbers, stored: pa.Array | None, *, flags: Numbers
) -> Kept:
    """`source` with the rows' numbers replaced by the numbers of their values in `stored`. Declined if the values are
    large in sum."""
    from_table = source <= FIRST_STORED
    source[from_table] = FIRST_STORED - np.searchsorted(rows, FIRST_STORED - source[from_table])
    (nothing,) = changes.pick([place], np.empty(0, np.int64))
    if stored is None:
        stored = nothing
    elif stored.type != nothing.type:
        try:
            stored = pc.cast(stored, nothing.type)
        except pa.ArrowInvalid:
            raise Declined("values that were not sent") from None
    size = 0
    if pa.types.is_string(nothing.type) or pa.types.is_binary(nothing.type):
        sent = np.flatnonzero(flags & ~from_table)
        (values,) = changes.pick([place], source[sent])
        size += pc.sum(pc.binary_length(values)).as_py() or 0
        lengths = pc.fill_null(pc.binary_length(stored), 0).to_numpy(zero_copy_only=False)
        size += int(lengths[FIRST_STORED - source[from_table]].sum()) if from_table.any() else 0
    if size > _MOST:
        raise Declined("many large values that were not sent")
    return Kept(source, stored, size)


def _stored(stored: TableRows | None, columns: Sequence[LakeColumn], places: Places, rows: Numbers) -> list[pa.Array]:
    """Read columns of some rows of the table; `rows` are their numbers in `places`, ascending."""
    if stored is None:
        return [plain_array(column.form.to_array([])) for column in columns]
    files = {file.data_file_id: file for file in stored.files}
    pieces: list[list[pa.Array]] = [[] for _ in columns]
    numbers: list[Numbers] = []
    size = 0
    for file_id, start, end in places.files:
        chosen = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
        if not len(chosen):
            continue
        if file_id == NOT_THERE:
            numbers.append(chosen)
            portions = iter([stored.inlined_arrays(columns, places.row_id[chosen].tolist())])
        else:
            chosen = chosen[np.argsort(places.position[chosen])]
            numbers.append(chosen)
            portions = _of_file(files[file_id], columns, places.position[chosen])
        for arrays in portions:
            for n, array in enumerate(arrays):
                pieces[n].append(array)
                size += array.nbytes
            if size > _MOST:
                raise Declined("many large values that were not sent")
    order = pa.array(np.argsort(np.concatenate(numbers)))
    return [pa.concat_arrays(arrays).take(order) for arrays in pieces]


def _of_file(file: DataFile, columns: Sequence[LakeColumn], positions: Numbers) -> Iterator[list[pa.Array]]:
    """Values at ascending positions of a file, read in portions: few of the file's values may be wanted."""
    footer = footers.of(file)
    there = locate(file, footer)
    own = [there[column.column_id] for column in columns if column.column_id in there]
    kinds = [plain_array(column.form.to_array([])).type for column in columns]
    with footers.DataFileReader(footer) as reader:
        for group in footer.row_groups:
            first, behind = footer.starts[group], footer.starts[group + 1]
            here = positions[np.searchsorted(positions, first) : np.searchsorted(positions, behind)]
            if not len(here):
                continue
            if not own:
                yield _made(columns, kinds, file, there, [], len(here))
                continue
            for arrays in reader.batches([group], own, _PORTION):
                behind = first + len(arrays[0])
                wanted = here[np.searchsorted(here, first) : np.searchsorted(here, behind)] - first
                if len(wanted):
                    picked = [plain_array(array).take(pa.array(wanted)) for array in arrays]
                    yield _made(columns, kinds, file, there, picked, len(wanted))
                first = behind


def _made(
    columns: Sequence[LakeColumn],
    kinds: Sequence[Any],
    file: DataFile,
    there: Mapping[int, FileColumn],
    read: list[Any],
    count: int,
) -> list[pa.Array]:
    """One array for each column: as read, or, of a column that the file lacks, its constant value."""
    given = iter(read)
    arrays = []
    for column, kind in zip(columns, kinds, strict=True):
        if column.column_id in there:
            arrays.append(with_fields(next(given), column).cast(kind))
        else:
            arrays.append(plain_array(column.form.to_array([constant(column, file)] * count)))
    return arrays


# --- unsent -----------------------------------------------------------------------------------------------------------


def with_unsent(described: DescribedTable, changes: RelationChanges) -> RelationChanges:
    return _Completed(changes, described.defaults, None) if described.defaults else changes


class _Completed:
    """RelationChanges with more places than are sent. `defaults`: an array of one for each of them."""

    def __init__(
        self, sent: RelationChanges, defaults: Mapping[int, pa.Array], kept: Mapping[int, Kept] | None
    ) -> None:
        """`kept` None: where unchanged values come from is not known yet."""
        self.relation, self.count = sent.relation, sent.count
        self.seq, self.op, self.has_old = sent.seq, sent.op, sent.has_old
        updates = self.op == BATCH_UPDATE
        self.unchanged: Mapping[int, Numbers] = {**sent.unchanged}
        if kept is None and updates.any():
            self.unchanged |= dict.fromkeys(defaults, updates)
        self._sent = sent
        self._defaults = defaults
        self._kept = kept or {}

    def with_kept(self, kept: Mapping[int, Kept]) -> RelationChanges:
        sent = {place: values for place, values in kept.items() if place not in self._defaults}
        own = {place: values for place, values in kept.items() if place in self._defaults}
        return _Completed(self._sent.with_kept(sent), self._defaults, own)

    def pick(self, places: Sequence[int], messages: Numbers, *, old: bool = False) -> list[pa.Array]:
        sent = iter(self._sent.pick(self._sent_ones(places), messages, old=old))
        return [self._value(place, messages) if place in self._defaults else next(sent) for place in places]

    def _value(self, place: int, messages: Numbers) -> pa.Array:
        default, kept = self._defaults[place], self._kept.get(place)
        if kept is None:
            return repeated(default, len(messages))
        source = kept.source[messages]
        at = np.where(source < 0, 1 + FIRST_STORED - source, 0)
        return pa.concat_arrays([repeated(default, 1), kept.stored]).take(pa.array(at))

    def prepare(self, places: Sequence[int], most: int) -> None:
        self._sent.prepare(self._sent_ones(places), most)

    def fits(self, places: Sequence[int], most: int) -> bool:
        own = sum(values.size for values in self._kept.values())
        return self._sent.fits(self._sent_ones(places), most - own)

    def _sent_ones(self, places: Sequence[int]) -> list[int]:
        return [place for place in places if place not in self._defaults]
