"""The messages of a large relation, dealt by key into parts that are complete in themselves.

All messages of a key are in one part, in order; its size bounds memory (logical_decoding_work_mem). Parts are ranges
of the key if it is one integer column, as the table's files are likely to be sorted by it, else ranges of a hash.
Keys that change and that another message touches, too, are together in the last part. Messages stay in their files,
each dealt with by a thread or a task:

    code      a number for the key of each message; a sample of them says where parts begin
    scatter   if keys change: the numbers of the keys that are changed, and of those that are not, by parts
    share     for each part, not for each file: the keys that are changed and that another message touches, too
    deal      the numbers of a file's messages in the order of their parts
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.lake.storage import uuid7
from pgrepl.replication.subscriber.apply.columns.described import DescribedTable
from pgrepl.replication.subscriber.apply.columns.fold import NotClean
from pgrepl.replication.wire.batch import DELETE, KEY_TYPES, UPDATE, RelationChanges, comparable
from pgrepl.replication.wire.file_changes import MessageFiles, MessageSlice, of_numbers
from pgrepl.replication.wire.message_files import MessageFile, read_numbers, write_numbers

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.lake.read.part import PartWatch
    from pgrepl.replication.wire.messages import SentRelation

    Numbers = npt.NDArray[Any]
    Keys = Callable[[RelationChanges, Numbers, bool], list[pa.Array]]  # keys of some messages' new rows, or of old ones

_SAMPLE = 100_000  # about so many keys are sampled to choose where parts begin
_MOVE = [("message", "i4"), ("old", "i8")]
_MOST_SHARED = 4  # times the size of a part that the last one may have
_SLICE = 1 << 16  # texts that are hashed at a time


class Play(Protocol):
    """Runs a kernel on pieces of work, in threads of this process or as tasks of Spark."""

    def __call__(self, step: str, pieces: Sequence[Any], kernel: Callable[[Any, PartWatch], Any]) -> list[Any]: ...


@frozen
class DealtPart:
    """`low` and `high`: the least and the greatest of its keys, where the key is one integer column."""

    slices: tuple[MessageSlice, ...]
    low: int
    high: int

    @property
    def count(self) -> int:
        return sum(part.behind - part.first for part in self.slices)


@frozen
class TableKeyValues:
    """The key's values in messages for a table (`Keys`)."""

    described: DescribedTable

    def __call__(self, changes: RelationChanges, at: Numbers, old: bool) -> list[pa.Array]:
        described, attnums = self.described, self.described.keys.attnums
        arrays = described.key_values(changes, attnums, at, old=old)
        columns = [described.table.column(attnum) for attnum in attnums]
        return [comparable(column, array) for column, array in zip(columns, arrays, strict=True)]


def values_of(described: DescribedTable) -> TableKeyValues:
    columns = [described.table.column(attnum) for attnum in described.keys.attnums]
    if any(column.typoid not in KEY_TYPES or column.form.element is not None for column in columns):
        raise Declined("the type of a key")
    return TableKeyValues(described)


def as_they_are(messages: MessageFiles) -> Iterator[DealtPart]:
    """One part for each file, for messages that need no key: none depends on another."""
    for file, count in messages.taken:
        if count:
            yield DealtPart((MessageSlice(file, count, None, 0, count),), 0, 0)


def by_key(messages: MessageFiles, keys: Keys, most: int, play: Play) -> Iterator[DealtPart]:
    """Parts of about `most` messages."""
    step = max(1, messages.count // _SAMPLE)
    coded: list[_Coded] = play(
        "keys", [_ToCode(messages.relation, file, count, keys, step) for file, count in messages.taken], _code
    )
    ordered = np.sort(np.concatenate([coded_file.sample for coded_file in coded] or [np.empty(0, np.int64)]))
    wanted = -(-messages.count // most)
    bounds = np.unique(ordered[[len(ordered) * n // wanted for n in range(1, wanted)]])
    shared = _shared(coded, bounds, play) if any(coded_file.moves for coded_file in coded) else ()
    dealt: list[_Dealt] = play("parts", [_ToDeal(coded_file, bounds, shared) for coded_file in coded], _deal)
    for part in range(len(bounds) + 2):
        slices, lows, highs = [], [], []
        for (file, count), dealt_file in zip(messages.taken, dealt, strict=True):
            first, behind = int(dealt_file.starts[part]), int(dealt_file.starts[part + 1])
            if behind > first:
                slices.append(MessageSlice(file, count, dealt_file.order, first, behind))
                lows.append(int(dealt_file.lows[part]))
                highs.append(int(dealt_file.highs[part]))
        if not slices:
            continue
        dealt_part = DealtPart(tuple(slices), min(lows), max(highs))
        if part > len(bounds) and dealt_part.count > _MOST_SHARED * most:
            raise NotClean(min(int(cut.file.seq(cut.count)[cut.numbers()[0]]) for cut in slices))
        yield dealt_part


# --- numbers of keys --------------------------------------------------------------------------------------------------


@frozen
class _ToCode:
    relation: SentRelation
    file: MessageFile
    count: int
    keys: Keys
    step: int


@frozen
class _Coded:
    """`path`: the prefix of two files: the code of each message's key, and the messages that change their keys, with
    the codes of the old keys. `moves`: the number of the latter."""

    path: str
    moves: int
    sample: Numbers

    @property
    def codes(self) -> Numbers:
        return _read(f"{self.path}.codes")

    @property
    def moving(self) -> Numbers:
        return read_numbers(f"{self.path}.moves", _MOVE)


def _read(path: str) -> Numbers:
    return read_numbers(path, np.int64)


def _code(task: _ToCode, watch: PartWatch) -> _Coded:
    watch.check()
    changes = of_numbers(task.relation, task.file, np.arange(task.count))
    codes, moving = _codes(changes, task.keys)
    path = f"{task.file.path}.{uuid7()}"  # a repeated task must not overwrite files that others may be reading
    write_numbers(f"{path}.codes", codes)
    write_numbers(f"{path}.moves", moving)
    return _Coded(path, len(moving), codes[:: task.step].copy())


def _codes(changes: RelationChanges, keys: Keys) -> tuple[Numbers, Numbers]:
    """A number for the key of each message; and the messages that change their keys, with the numbers of the old
    keys."""
    codes = np.zeros(changes.count, np.int64)
    at_old, at_new = np.flatnonzero(changes.has_old), np.flatnonzero(changes.op != DELETE)
    if len(at_old):
        codes[at_old] = _numbers(keys(changes, at_old, True))
    old = codes.copy()
    if len(at_new):
        codes[at_new] = _numbers(keys(changes, at_new, False))
    at = np.flatnonzero((changes.op == UPDATE) & changes.has_old & (codes != old))
    moving = np.empty(len(at), _MOVE)
    moving["message"], moving["old"] = at, old[at]
    return codes, moving


# --- keys that change -------------------------------------------------------------------------------------------------


@frozen
class _ToScatter:
    coded: _Coded
    bounds: Numbers


@frozen
class _Scattered:
    """`path`: the prefix of two files: the keys that are changed, old and new, and the other messages' keys. By part:
    where each of them begins."""

    path: str
    moved: Numbers
    still: Numbers


@frozen
class _ToShare:
    """The pieces of one part's files with keys that are changed, and with others: the path, the begin and the count."""

    moved: tuple[tuple[str, int, int], ...]
    still: tuple[tuple[str, int, int], ...]
    path: str


def _shared(coded: Sequence[_Coded], bounds: Numbers, play: Play) -> tuple[str, ...]:
    """Files with the keys that are changed and that another message touches, too; ascending, also from file to file."""
    scattered: list[_Scattered] = play("changed keys", [_ToScatter(file, bounds) for file in coded], _scatter)
    tasks = []
    for part in range(len(bounds) + 1):
        moved = _pieces(scattered, part, "moved")
        if moved:
            tasks.append(_ToShare(moved, _pieces(scattered, part, "still"), f"{coded[0].path}.{part}"))
    paths: list[str] = play("shared keys", tasks, _share)
    return tuple([path for path in paths if path])


def _pieces(scattered: Sequence[_Scattered], part: int, name: str) -> tuple[tuple[str, int, int], ...]:
    pieces = []
    for file in scattered:
        first, behind = (int(n) for n in getattr(file, name)[part : part + 2])
        if behind > first:
            pieces.append((f"{file.path}.{name}", first, behind - first))
    return tuple(pieces)


def _scatter(task: _ToScatter, watch: PartWatch) -> _Scattered:
    watch.check()
    codes, moving = task.coded.codes, task.coded.moving
    is_still = np.ones(len(codes), np.bool_)
    is_still[moving["message"]] = False
    moved = np.sort(np.concatenate([moving["old"], codes[moving["message"]]]))
    still = np.unique(codes[is_still])
    path = f"{task.coded.path}.{uuid7()}"
    write_numbers(f"{path}.moved", moved)
    write_numbers(f"{path}.still", still)
    return _Scattered(path, _starts(moved, task.bounds), _starts(still, task.bounds))


def _starts(codes: Numbers, bounds: Numbers) -> Numbers:
    """The positions in ascending codes at which the parts begin, and the end of the last."""
    starts: Numbers = np.concatenate([[0], np.searchsorted(codes, bounds, side="left"), [len(codes)]])
    return starts


def _share(task: _ToShare, watch: PartWatch) -> str:
    """The path of the file of shared keys; "": there are none."""
    watch.check()
    moved = np.sort(np.concatenate([read_numbers(path, np.int64, *place) for path, *place in task.moved]))
    several = moved[1:][moved[1:] == moved[:-1]]
    touched = [moved[_among(moved, read_numbers(path, np.int64, *place))] for path, *place in task.still]
    shared = np.unique(np.concatenate([several, *touched]))
    if not len(shared):
        return ""
    path = f"{task.path}.{uuid7()}.shared"
    write_numbers(path, shared)
    return path


# --- dealing ----------------------------------------------------------------------------------------------------------


@frozen
class _ToDeal:
    coded: _Coded
    bounds: Numbers
    shared: tuple[str, ...]  # the files of _shared


@frozen
class _Dealt:
    """`order`: a file with the numbers of the messages in the order of parts. By part: `starts`, its begin in that
    order; `lows` and `highs`, its least and greatest code."""

    order: str
    starts: Numbers
    lows: Numbers
    highs: Numbers


def _deal(task: _ToDeal, watch: PartWatch) -> _Dealt:
    watch.check()
    parts = len(task.bounds) + 2
    codes, moving = task.coded.codes, task.coded.moving
    part = np.searchsorted(task.bounds, codes, side="right").astype(np.uint16 if parts < 1 << 16 else np.int64)
    if task.shared:
        shared = np.concatenate([_read(path) for path in task.shared])
        last = _among(codes, shared)
        last[moving["message"]] |= _among(moving["old"], shared)
        part[last] = parts - 1
    order = np.argsort(part, kind="stable").astype(np.int32)
    starts = np.cumsum([0, *np.bincount(part, minlength=parts)])
    lows, highs = np.full(parts, np.iinfo(np.int64).max), np.full(parts, np.iinfo(np.int64).min)
    there = starts[1:] > starts[:-1]
    if there.any():
        lows[there] = np.minimum.reduceat(codes[order], starts[:-1][there])
        highs[there] = np.maximum.reduceat(codes[order], starts[:-1][there])
    of_moving = part[moving["message"]]
    np.minimum.at(lows, of_moving, moving["old"])
    np.maximum.at(highs, of_moving, moving["old"])
    path = f"{task.coded.path}.{uuid7()}.order"
    write_numbers(path, order)
    return _Dealt(path, starts, lows, highs)


def _among(codes: Numbers, wanted: Numbers) -> Numbers:
    """A mask of the codes that are among `wanted`, which ascend."""
    near = np.minimum(np.searchsorted(wanted, codes), len(wanted) - 1)
    mask: Numbers = wanted[near] == codes
    return mask


def _numbers(columns: list[pa.Array]) -> Numbers:
    """The codes of keys: one integer column is its own code, other keys are hashed."""
    if len(columns) == 1 and pa.types.is_signed_integer(columns[0].type):
        own: Numbers = columns[0].fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        return own
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes = _mixed(hashes ^ _hashed(column))
    return hashes.view(np.int64)


def _hashed(array: pa.Array) -> Numbers:
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        slices = [array.slice(start, _SLICE) for start in range(0, len(array), _SLICE)]
        return np.concatenate([np.empty(0, np.uint64), *map(_hashed_texts, slices)])
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    width = array.type.bit_width // 8
    data = array.buffers()[1]
    raw = np.frombuffer(data, np.uint8, len(array) * width, array.offset * width) if len(array) else np.empty(0, "u1")
    hashes = np.zeros(len(array), np.uint64)
    for word in raw.view(f"<u{min(width, 8)}").reshape(len(array), -1).T:
        hashes = _mixed(hashes ^ word.astype(np.uint64))
    return hashes


def _hashed_texts(array: pa.Array) -> Numbers:
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
    lengths, starts = np.diff(offsets), offsets[:-1] - offsets[0]
    hashes = np.zeros(len(array), np.uint64)
    there = np.flatnonzero(lengths)
    if len(there):
        data = np.frombuffer(array.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
        place = (np.arange(len(data)) - np.repeat(starts, lengths)).astype(np.uint64)
        hashes[there] = np.add.reduceat(_mixed((place << np.uint64(8)) + data + np.uint64(1)), starts[there])
    return hashes


def _mixed(numbers: Numbers) -> Numbers:
    """The finalizer of splitmix64: each bit of the result depends on all bits of the number."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    mixed: Numbers = numbers ^ (numbers >> np.uint64(31))
    return mixed
