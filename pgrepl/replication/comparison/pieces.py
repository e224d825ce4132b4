"""Pieces of a table: ranges of its key, or rows by some bits of their hashes; and the digests of pieces.

A range of a key is what a server finds by the key's index. Rows are divided by their hashes where the key has no order
that both sides know, or where there is none: then the server reads its table once for all pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pgrepl.ground.lazy import np, pa
from pgrepl.replication.wire.values import WIRE_STYLE
from pgrepl.types import oids
from pgrepl.types.lake.arrays import plain_array
from pgrepl.types.text import read_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.replication.publisher.tables import KeyRange
    from pgrepl.types.lake.arrays import Form

    Hashes: TypeAlias = npt.NDArray[np.uint64]
    Numbers: TypeAlias = npt.NDArray[np.int64]

_BITS = 64
_UUID = 16  # bytes
_KEYS = (*oids.INTEGERS, oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.UUID)


class Pieces(Protocol):
    """`key`: the places of the columns that decide, among those that are compared."""

    key: tuple[int, ...]

    @property
    def count(self) -> int: ...

    def numbers(self, keys: Sequence[Any], hashes: Hashes) -> Numbers:
        """The number of the piece of each row, by the columns of the key."""


class HashPieces:
    """Rows by the lowest bits of their hashes."""

    key: tuple[int, ...] = ()

    def __init__(self, bits: int) -> None:
        self.bits = bits

    @property
    def count(self) -> int:
        return 1 << self.bits

    @property
    def mask(self) -> int:
        return self.count - 1

    def numbers(self, keys: Sequence[Any], hashes: Hashes) -> Numbers:
        numbers: Numbers = (hashes & np.uint64(self.mask)).astype(np.int64)
        return numbers


class KeyPieces:
    """Ranges of a key one behind the other, of which the first and the last are open."""

    def __init__(
        self,
        key: tuple[int, ...],
        types: Sequence[int],
        forms: Sequence[Form],
        ranges: Sequence[KeyRange],
        *,
        may_be_null: bool = False,
    ) -> None:
        """`types`: the key's at the publisher; `forms`: those of the columns here, which may be NULL or not."""
        self.key = key
        self._types, self._forms = types, forms
        self._may_be_null = may_be_null
        self.ranges: Sequence[KeyRange] = []
        self._cuts: Any = None
        self.take_over(ranges)

    def __getstate__(self) -> dict[str, Any]:
        """What a task needs to number rows: the functions of a form stay here."""
        return {**self.__dict__, "_forms": ()}

    def take_over(self, ranges: Sequence[KeyRange]) -> None:
        """Use these ranges, if there are some."""
        if not ranges:
            return
        self.ranges = ranges
        cuts = [key_range.lower.key for key_range in ranges[1:] if key_range.lower is not None]
        columns = [
            _array([read_text(cut[n], typoid, -1, WIRE_STYLE) for cut in cuts], typoid, form)
            for n, (typoid, form) in enumerate(zip(self._types, self._forms, strict=True))
        ]
        self._cuts = _ordered(columns) if cuts else None

    @property
    def count(self) -> int:
        return len(self.ranges)

    def bounds(self, wanted: Sequence[int]) -> tuple[int, Any, Any] | None:
        """The first column of the key, and the values between which it is in some ranges; None: nothing is known."""
        if not len(wanted) or self._may_be_null:  # rows without a key count as those of a range
            return None
        first, last = self.ranges[min(wanted)].lower, self.ranges[max(wanted)].upper
        low, high = (
            None if end is None else read_text(end.key[0], self._types[0], -1, WIRE_STYLE) for end in (first, last)
        )
        return self.key[0], low, high

    def numbers(self, keys: Sequence[Any], hashes: Hashes) -> Numbers:
        if self._cuts is None:
            return np.zeros(len(hashes), np.int64)
        numbers: Numbers = self._cuts.searchsorted(_ordered(keys), side="right").astype(np.int64, copy=False)
        return numbers


def is_divisible(typoid: int) -> bool:
    """Whether ranges of keys of this type are found in columns."""
    return typoid in _KEYS


def _array(values: Sequence[Any], typoid: int, form: Form) -> pa.Array:
    """Whole numbers may be larger than those of the column here."""
    return pa.array(values, pa.int64()) if typoid in oids.INTEGERS else plain_array(form.to_array(values))


def _ordered(columns: Sequence[pa.Array]) -> npt.NDArray[Any]:
    """The keys as numbers, or as bytes that are ordered like them."""
    numbers = [_number(column) for column in columns]
    if len(numbers) == 1 and numbers[0].dtype == np.int64:
        return numbers[0]
    parts = [
        (column.view(np.uint64) ^ np.uint64(1 << 63)).astype(">u8").view(np.uint8).reshape(len(column), 8)
        if column.dtype == np.int64
        else column
        for column in numbers
    ]
    joined = np.ascontiguousarray(np.concatenate(parts, axis=1))
    return joined.view(f"S{joined.shape[1]}").ravel()


def _number(column: pa.Array) -> npt.NDArray[Any]:
    """Whole numbers; of a UUID its bytes."""
    if pa.types.is_fixed_size_binary(column.type):
        filled = column.fill_null(bytes(_UUID)) if column.null_count else column
        raw = np.frombuffer(filled.buffers()[1], np.uint8, len(filled) * _UUID, filled.offset * _UUID)
        return raw.reshape(len(filled), _UUID)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    column = column.cast(pa.int64())
    numbers: Numbers = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    return numbers


class Digests:
    """For each piece the number of its rows and the sum of their hashes, modulo 2^64."""

    def __init__(self, count: int) -> None:
        self.counts = np.zeros(count, np.int64)
        self.sums = np.zeros(count, np.uint64)

    def add(self, numbers: Numbers, hashes: Hashes) -> None:
        """Count rows, in pieces of these numbers."""
        if not len(numbers):
            return
        if (numbers[0] == numbers).all():
            self.counts[numbers[0]] += len(numbers)
            self.sums[numbers[0] : numbers[0] + 1] += hashes.sum(dtype=np.uint64)
            return
        if (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            numbers, hashes = numbers[order], hashes[order]
        first = np.concatenate([[0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1])
        pieces = numbers[first]
        self.counts[pieces] += np.diff(np.append(first, len(numbers)))
        self.sums[pieces] += np.add.reduceat(hashes, first)

    def put(self, number: int, count: int, total: int) -> None:
        """Add what a server has found of a piece."""
        self.counts[number] += count
        self.sums[number : number + 1] += np.uint64(total % (1 << _BITS))

    def differing(self, other: Digests) -> list[int]:
        numbers: list[int] = np.flatnonzero((self.counts != other.counts) | (self.sums != other.sums)).tolist()
        return numbers
