"""PostgreSQL's seeded hashes of whole columns: what hashint4extended, hashint8extended and hashtextextended give for
each value, in numpy (hash_bytes_extended of common/hashfn.c; expr/functions/support_functions.py has them for one
value).

The hash of a row is a chain: that of each column is the seed of the next one's. So SQL and numpy find the same number,
and the sum of these over the rows of a range is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pgrepl.ground.lazy import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Words: TypeAlias = npt.NDArray[np.uint32]

PADDING = 12  # bytes behind the last value, so that whole words may be read anywhere
TOGETHER = 16_384  # rows that are hashed at a time, so few that the processor's cache has them
_START = (0x9E3779B9 + 3923095) & 0xFFFFFFFF
_BLOCK = 12  # bytes
_MIX = ((0, 2, 1, 4), (1, 0, 2, 6), (2, 1, 0, 8), (0, 2, 1, 16), (1, 0, 2, 19), (2, 1, 0, 4))
_FINAL = ((2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24))
# by the number of bytes behind the last whole block: the bits that count of each of their three words
_REST = np.array(
    [[(1 << 8 * min(max(rest - 4 * word, 0), 4)) - 1 for rest in range(_BLOCK)] for word in range(3)], np.uint32
)


class RowHashes:
    """The hashes of rows, as the upper and the lower halves of 64 bits, while the columns are added one by one."""

    def __init__(self, count: int, seed: int) -> None:
        self._high: Words = np.full(count, seed >> 32, np.uint32)
        self._low: Words = np.full(count, seed & 0xFFFFFFFF, np.uint32)

    @property
    def hashes(self) -> npt.NDArray[np.uint64]:
        high: npt.NDArray[np.uint64] = self._high.astype(np.uint64) << np.uint64(32)
        return high | self._low

    def add_int4(self, values: npt.NDArray[Any]) -> None:
        words = values.astype(np.int32, copy=False).view(np.uint32)
        for part in _parts(len(words)):
            state = _State(self, part, 4)
            state.words[0] += words[part]
            state.end()

    def add_int8(self, values: npt.NDArray[Any]) -> None:
        """hashint8extended folds the halves of a number into one word; the upper one is hashed once more, so that
        numbers of which the fold is the same differ."""
        values = values.astype(np.int64, copy=False)
        high = (values >> 32).astype(np.int32)
        folded = values.astype(np.uint32) ^ np.where(values >= 0, high, ~high).view(np.uint32)
        self.add_int4(folded.view(np.int32))
        self.add_int4(high)

    def add_words(self, words: Words) -> None:
        """Texts of one length each, four bytes a word: a row of words each."""
        count = words.shape[1]
        for part in _parts(len(words)):
            state = _State(self, part, 4 * count)
            columns = words[part].T
            for first in range(0, count - count % 3, 3):
                for word in range(3):
                    state.words[word] += columns[first + word]
                _mix(state.words, *state.spare)
            for word in range(count % 3):
                state.words[word] += columns[count - count % 3 + word]  # never the third, which the length is in
            state.end()

    def add_bytes(self, data: npt.NDArray[np.uint8], starts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> None:
        """`data` has PADDING bytes or more behind the last value."""
        at_any = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))  # the words that begin at each byte
        for part in _parts(len(starts)):
            _hash_bytes(_State(self, part, lengths[part].astype(np.uint32)), at_any, starts[part], lengths[part])


def _parts(count: int) -> list[slice]:
    return [slice(start, min(start + TOGETHER, count)) for start in range(0, count, TOGETHER)]


def _hash_bytes(state: _State, at_any: Words, starts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> None:
    blocks = lengths // _BLOCK
    least, most = int(blocks.min(initial=1 << 62)), int(blocks.max(initial=0))
    for number in range(most):
        if number < least:
            for word in range(3):
                state.words[word] += at_any[starts + (number * _BLOCK + 4 * word)]
            _mix(state.words, *state.spare)
        else:
            longer = np.flatnonzero(blocks > number)
            at = starts[longer] + number * _BLOCK
            words = [state.words[word][longer] + at_any[at + 4 * word] for word in range(3)]
            _mix(words, np.empty_like(words[0]), np.empty_like(words[0]))
            for word in range(3):
                state.words[word][longer] = words[word]
    at, rest = starts + blocks * _BLOCK, lengths - blocks * _BLOCK
    for word in range(2):
        state.words[word] += at_any[at + 4 * word] & _REST[word][rest]
    state.words[2] += (at_any[at + 8] & _REST[2][rest]) << np.uint32(8)  # its lowest byte is the length's
    state.end()


class _State:
    """The three words that values of some rows are mixed into, begun with the rows' hashes as seeds."""

    def __init__(self, of: RowHashes, part: slice, length: int | Words) -> None:
        count = part.stop - part.start
        self.words: list[Words] = [np.empty(count, np.uint32) for _ in range(3)]
        self.spare: list[Words] = [np.empty(count, np.uint32) for _ in range(2)]
        self._high, self._low = of._high[part], of._low[part]
        for word in self.words:
            np.add(np.uint32(_START), length, out=word, dtype=np.uint32, casting="unsafe")
        self.words[0] += self._high
        self.words[1] += self._low
        seeded = self.words
        unseeded = None if self._high.all() else np.flatnonzero((self._high | self._low) == 0)
        kept = [] if unseeded is None or not len(unseeded) else [word[unseeded] for word in seeded]
        _mix(seeded, *self.spare)
        for word, before in zip(seeded, kept, strict=bool(kept)):
            word[unseeded] = before  # a seed of zero is none

    def end(self) -> None:
        _final(self.words, *self.spare)
        self._high[:], self._low[:] = self.words[1], self.words[2]


def _mix(words: list[Words], spare: Words, other: Words) -> None:
    for changed, by, added, bits in _MIX:
        np.subtract(words[changed], words[by], out=words[changed])
        np.bitwise_xor(words[changed], _rotated(words[by], bits, spare, other), out=words[changed])
        np.add(words[by], words[added], out=words[by])


def _final(words: list[Words], spare: Words, other: Words) -> None:
    for changed, by, bits in _FINAL:
        np.bitwise_xor(words[changed], words[by], out=words[changed])
        np.subtract(words[changed], _rotated(words[by], bits, spare, other), out=words[changed])


def _rotated(word: Words, bits: int, spare: Words, other: Words) -> Words:
    np.left_shift(word, np.uint32(bits), out=spare)
    np.right_shift(word, np.uint32(32 - bits), out=other)
    return np.bitwise_or(spare, other, out=spare)
