"""The messages of a large relation, dealt by key into parts that are complete in themselves.

All messages of a key are in one part, in order: a part is folded, looked up and written like a batch of its own, and
memory is bounded by it (logical_decoding_work_mem). Parts are ranges of a key that is one whole number, as the table's
files are likely to have them, too, and of a hash of other keys. An UPDATE that changes its key has two; if nothing else
touches either it is by itself, else all messages of such keys are together in the last part.

The messages stay where they are: for each of their files it is noted which are of which part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.relation import Relation, relation
from pgrepl.engine import Declined
from pgrepl.frozen import frozen
from pgrepl.lake import storage
from pgrepl.lake.table import lake_table
from pgrepl.replication.subscriber.apply.columns.convert import Conversion
from pgrepl.replication.subscriber.apply.columns.key_columns import TableKeys, key_values, table_keys
from pgrepl.replication.wire.batch import DELETE, UPDATE, RelationChanges
from pgrepl.replication.wire.file_changes import FileChanges, MessageFiles
from pgrepl.replication.wire.key_values import KEY_TYPES, comparable
from pgrepl.replication.wire.message_files import most_held

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from pgrepl.catalog.session import Session

    Numbers = npt.NDArray[Any]
    Keys = Callable[[RelationChanges, Numbers, bool], list[pa.Array]]  # of some messages' new rows, or of the old ones

_SAMPLE = 100_000  # keys that tell where parts begin, about
_MOVE = [("message", "i4"), ("old", "i8")]
_SLICE = 1 << 16  # texts that are hashed at a time


@frozen
class Parts:
    """Of one relation's messages; each is made when its turn comes."""

    keys: Mapping[int, TableKeys]  # by table that holds rows
    most: int  # messages of one
    made: Iterator[FileChanges]


def in_parts(session: Session, target: Relation, messages: MessageFiles) -> Parts | None:
    """None: it is little, or partitions have keys of their own."""
    most = most_held(session, messages.size // max(messages.count, 1))
    if messages.count <= most:
        return None
    unsent = {place for file in messages.files for place in file.unchanged}
    found: dict[int, TableKeys] = {}
    names: set[tuple[str, ...]] = set()
    for oid in inheritors(session, target.oid) if target.kind == "p" else [target.oid]:
        table = relation(session, oid)
        if table.kind == "p":
            continue
        conversion = Conversion(session, table, messages.relation)
        keys = table_keys(session, table, conversion, unsent, needed=messages.searches)
        found[oid] = keys
        names.add(tuple([table.attributes[n - 1].name for n in keys.attnums]))
    if len(names) != 1:
        return None
    if not names.pop():
        return Parts(found, most, as_they_are(messages))
    columns = [lake_table(session, oid).column(n) for n in keys.attnums]
    if any(column.typoid not in KEY_TYPES or column.form.element is not None for column in columns):
        raise Declined("the type of a key")

    def values(changes: RelationChanges, at: Numbers, old: bool) -> list[pa.Array]:
        arrays = key_values(conversion, changes, keys.attnums, at, old=old)
        return [comparable(column, array) for column, array in zip(columns, arrays, strict=True)]

    return Parts(found, most, by_key(messages, values, most))


def as_they_are(messages: MessageFiles) -> Iterator[FileChanges]:
    """Parts of messages of which none has to do with another."""
    import numpy as np

    for n, (_, count) in enumerate(messages.taken):
        if count:
            yield messages.some([(n, np.arange(count))])


def by_key(messages: MessageFiles, keys: Keys, most: int) -> Iterator[FileChanges]:
    """Parts of about so many messages; `keys` with equal values are equal."""
    dealt = _Dealt(messages, keys, most)
    for part in range(dealt.parts):
        pieces = [(n, numbers) for n in range(len(messages.files)) if len(numbers := dealt.of(n, part))]
        if pieces:
            yield messages.some(pieces)


class _Dealt:
    """Which messages are of which part."""

    def __init__(self, messages: MessageFiles, keys: Keys, most: int) -> None:
        import numpy as np

        self._files = messages.files
        step = max(1, messages.count // _SAMPLE)
        sample, moves = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for n, (_, count) in enumerate(messages.taken):
            codes, moving = _codes(messages.some([(n, np.arange(count))]), keys)
            _store(codes, f"{self._files[n].path}.codes")
            _store(moving, f"{self._files[n].path}.moves")
            sample.append(codes[::step])
            moves += [moving["old"], codes[moving["message"]]]
        ordered = np.sort(np.concatenate(sample))
        wanted = -(-messages.count // most)
        bounds = np.unique(ordered[[len(ordered) * n // wanted for n in range(1, wanted)]])
        self.parts = len(bounds) + 2
        shared = self._shared(np.sort(np.concatenate(moves)))
        self._starts = [self._deal(n, bounds, shared) for n in range(len(self._files))]

    def _read(self, n: int) -> tuple[Numbers, Numbers]:
        """The codes of a file's messages, and those of them that change their keys."""
        import numpy as np

        path = self._files[n].path
        return np.fromfile(f"{path}.codes", np.int64), np.fromfile(f"{path}.moves", _MOVE)

    def _shared(self, moves: Numbers) -> Numbers:
        """The codes of keys that are changed, and that something else touches, too."""
        import numpy as np

        found = [moves[1:][moves[1:] == moves[:-1]]]
        for n in range(len(self._files)) if len(moves) else ():
            codes, moving = self._read(n)
            touched = _among(codes, moves)
            touched[moving["message"]] = False
            found.append(codes[touched])
        return np.unique(np.concatenate(found))

    def _deal(self, n: int, bounds: Numbers, shared: Numbers) -> list[int]:
        """Where each part begins among the messages of a file when they are put in the order of parts."""
        import numpy as np

        codes, moving = self._read(n)
        part = np.searchsorted(bounds, codes, side="right").astype(np.uint16 if self.parts < 1 << 16 else np.int64)
        if len(shared):
            last = _among(codes, shared)
            last[moving["message"]] |= _among(moving["old"], shared)
            part[last] = self.parts - 1
        _store(np.argsort(part, kind="stable").astype(np.int32), f"{self._files[n].path}.codes")
        starts: list[int] = np.cumsum([0, *np.bincount(part, minlength=self.parts)]).tolist()
        return starts

    def of(self, n: int, part: int) -> Numbers:
        """Of a file the numbers of the messages of a part, which ascend."""
        import numpy as np

        first, behind = self._starts[n][part : part + 2]
        found: Numbers = np.fromfile(f"{self._files[n].path}.codes", np.int32, behind - first, offset=4 * first)
        return found


def _store(numbers: Numbers, path: str) -> None:
    with storage.writing(path):
        numbers.tofile(path)


def _codes(changes: RelationChanges, keys: Keys) -> tuple[Numbers, Numbers]:
    """A number for the key of each message; and the messages that change their keys, with the numbers of the old
    ones."""
    import numpy as np

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


def _among(codes: Numbers, wanted: Numbers) -> Numbers:
    """Which of the codes are some of those, which ascend."""
    import numpy as np

    near = np.minimum(np.searchsorted(wanted, codes), len(wanted) - 1)
    found: Numbers = wanted[near] == codes
    return found


def _numbers(columns: list[pa.Array]) -> Numbers:
    """A whole number is its own; other keys have hashes."""
    import numpy as np
    import pyarrow as pa

    if len(columns) == 1 and pa.types.is_signed_integer(columns[0].type):
        own: Numbers = columns[0].fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        return own
    found = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        found = _mixed(found ^ _hashed(column))
    return found.view(np.int64)


def _hashed(array: pa.Array) -> Numbers:
    import numpy as np
    import pyarrow as pa

    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        slices = [array.slice(start, _SLICE) for start in range(0, len(array), _SLICE)]
        return np.concatenate([np.empty(0, np.uint64), *map(_hashed_texts, slices)])
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    width = array.type.bit_width // 8
    data = array.buffers()[1]
    raw = np.frombuffer(data, np.uint8, len(array) * width, array.offset * width) if len(array) else np.empty(0, "u1")
    found = np.zeros(len(array), np.uint64)
    for word in raw.view(f"<u{min(width, 8)}").reshape(len(array), -1).T:
        found = _mixed(found ^ word.astype(np.uint64))
    return found


def _hashed_texts(array: pa.Array) -> Numbers:
    import numpy as np

    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
    lengths, starts = np.diff(offsets), offsets[:-1] - offsets[0]
    found = np.zeros(len(array), np.uint64)
    there = np.flatnonzero(lengths)
    if len(there):
        data = np.frombuffer(array.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
        place = (np.arange(len(data)) - np.repeat(starts, lengths)).astype(np.uint64)
        found[there] = np.add.reduceat(_mixed((place << np.uint64(8)) + data + np.uint64(1)), starts[there])
    return found


def _mixed(found: Numbers) -> Numbers:
    """Each bit of a number depends on all of its bits (splitmix64)."""
    import numpy as np

    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    mixed: Numbers = found ^ (found >> np.uint64(31))
    return mixed
