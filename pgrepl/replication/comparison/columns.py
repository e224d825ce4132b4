"""How the columns of a table are hashed: by a server in SQL, and here as arrays, so that equal values have one hash.

The hash is of the value as it ought to be here. Where only the input function of the column's type here can tell that,
a server cannot hash it: its rows are read then, and hashed as the column has them.

NULL is hashed as a random value, another one at each run.

The hash of a row is a chain: that of each column is the seed of the next one's. PostgreSQL's seeded hashes make it
(hashint4extended, hashint8extended, hashtextextended), in numpy by hash_bytes_extended of common/hashfn.c
(expr/functions/support_functions.py has them for one value). So both sides find the same number, and the sum of these
over the rows of a range is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import SystemRandom
from typing import TYPE_CHECKING, Any, TypeAlias

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.types import oids
from pgrepl.types.builtin import base_type_and_typmod
from pgrepl.types.lake.column_text import column_text
from pgrepl.types.lake.nested_words import bytes_of
from pgrepl.types.user_types import is_enum

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from pgrepl.catalog.facts.relation import Attribute
    from pgrepl.replication.wire.messages import SentColumn
    from pgrepl.types.lake.arrays import Form
    from pgrepl.types.style import TextStyle

    Words: TypeAlias = npt.NDArray[np.uint32]

_INT4, _INT8, _BOOL, _FLOAT, _TEXT = "int4", "int8", "bool", "float", "text"
_TEXTS = (oids.TEXT, oids.VARCHAR)
_SENT = {oids.FLOAT4: "float4send", oids.FLOAT8: "float8send"}
_NAN = b"NaN"
_UNKNOWN = 2  # neither false nor true
_random = SystemRandom()
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


@frozen
class HashedColumn:
    """A column with its type here. `null`: the value that NULL is hashed as."""

    name: str
    typoid: int
    kind: str
    null: Any

    def sql(self, name: str, sent: int, seed: str) -> str:
        """The hash of a server's column as an expression. `name`: quoted; `sent`: its type there; `seed`: the
        expression of the seed."""
        if self.kind == _BOOL:
            return f"hashint4extended(coalesce({name}::int4, {self.null}), {seed})"
        if self.kind == _INT4:
            return f"hashint4extended(coalesce({name}::int4, {_number(self.null)}), {seed})"
        if self.kind == _INT8:
            value = f"coalesce({name}::int8, {_number(self.null)}::int8)"
            return f"hashint4extended(({value} >> 32)::int4, hashint8extended({value}, {seed}))"
        if self.kind == _FLOAT:
            digits = f"coalesce(encode({_SENT[sent]}({name}), 'hex'), '{self.null}')"
            return f"hashtextextended(CASE WHEN {name} = 'NaN' THEN 'NaN' ELSE {digits} END COLLATE \"C\", {seed})"
        text = name if sent in _TEXTS else f"CASE WHEN {name} IS NOT NULL THEN concat({name}) END"
        return f"hashtextextended(coalesce({text}, '{self.null}') COLLATE \"C\", {seed})"

    def add(self, hashes: RowHashes, array: pa.Array, form: Form, style: TextStyle) -> None:
        """Hash an array of the column as the lake keeps it."""
        if self.kind == _TEXT:
            self._add_texts(hashes, column_text(array, self.typoid, form, style))
            return
        missing = array.is_null() if array.null_count else None
        if self.kind == _FLOAT:
            self._add_floats(hashes, array, missing)
            return
        filled = array if missing is None else array.fill_null(False if self.kind == _BOOL else 0)
        values = filled.to_numpy(zero_copy_only=False)
        if missing is not None:
            values = np.where(missing.to_numpy(zero_copy_only=False), self.null, values.astype(np.int64))
        if self.kind == _INT8:
            hashes.add_int8(values)
        else:
            hashes.add_int4(values)

    def _add_texts(self, hashes: RowHashes, texts: pa.Array) -> None:
        data, ends = bytes_of(texts.fill_null(self.null) if texts.null_count else texts)
        hashes.add_bytes(np.concatenate([data, np.zeros(PADDING, np.uint8)]), ends[:-1], np.diff(ends))

    def _add_floats(self, hashes: RowHashes, array: pa.Array, missing: pa.Array | None) -> None:
        values = (array if missing is None else array.fill_null(0)).to_numpy(zero_copy_only=False)
        width = 2 * values.itemsize
        pairs = values.astype(values.dtype.newbyteorder(">")).view(">u2")
        words = _hexadecimal()[pairs].reshape(len(values), width // 4)
        if missing is None and not np.isnan(values).any():
            hashes.add_words(words)
            return
        digits = words.view(np.uint8).ravel()
        starts = np.arange(len(values), dtype=np.int64) * width
        lengths = np.full(len(values), width, np.int64)
        null = self.null.encode()
        for chosen, at, length in (
            (np.isnan(values), len(digits), len(_NAN)),
            (None if missing is None else missing.to_numpy(zero_copy_only=False), len(digits) + len(_NAN), len(null)),
        ):
            if chosen is not None:
                starts[chosen], lengths[chosen] = at, length
        rest = np.frombuffer(_NAN + null + bytes(PADDING), np.uint8)
        hashes.add_bytes(np.concatenate([digits, rest]), starts, lengths)


@cache
def _hexadecimal() -> Words:
    """The digits of each two bytes, as a word."""
    return np.frombuffer(b"".join(b"%04x" % number for number in range(1 << 16)), "<u4")


def hashed(attribute: Attribute) -> HashedColumn:
    """How a column is hashed by its type here."""
    typoid, _ = base_type_and_typmod(attribute.type, attribute.typmod)
    if typoid in (oids.INT2, oids.INT4):
        return _column(attribute.name, typoid, _INT4)
    kind = {oids.INT8: _INT8, oids.BOOL: _BOOL, oids.FLOAT4: _FLOAT, oids.FLOAT8: _FLOAT}.get(typoid, _TEXT)
    return _column(attribute.name, typoid, kind)


def hashed_as(sent: SentColumn, attribute: Attribute) -> HashedColumn | None:
    """How a server and this side hash a column alike. None: the server cannot know its value here."""
    typoid, typmod = base_type_and_typmod(attribute.type, attribute.typmod)
    theirs, their_typmod = sent.sent_as, sent.sent_typmod
    if theirs in oids.INTEGERS and typoid in oids.INTEGERS:
        return _column(attribute.name, typoid, _INT8 if oids.INT8 in (theirs, typoid) else _INT4)
    if typoid in (oids.TEXT, oids.JSON) or is_enum(typoid):
        return _column(attribute.name, typoid, _TEXT)  # it has what was sent
    if typoid == oids.VARCHAR:
        fits = typmod < 0 or (theirs in _TEXTS and 0 <= their_typmod <= typmod)
        return _column(attribute.name, typoid, _TEXT) if fits else None
    if theirs != typoid or typoid == oids.XML or typoid >= oids.FIRST_USER_OID:
        return None
    return hashed(attribute) if typmod in (-1, their_typmod) else None


def _column(name: str, typoid: int, kind: str) -> HashedColumn:
    null: Any = f"{_random.getrandbits(128):032x}"
    if kind == _BOOL:
        null = _UNKNOWN
    elif kind in (_INT4, _INT8):
        bits = 32 if kind == _INT4 else 64
        null = _random.getrandbits(bits) - (1 << (bits - 1))
    return HashedColumn(name, typoid, kind, null)


def _number(value: int) -> str:
    return f"'{value}'"


def new_seed() -> int:
    """The seed of a row's first column."""
    return _random.getrandbits(62) + 1


def row_hash_sql(
    columns: Sequence[HashedColumn], sent: Sequence[SentColumn], seed: int, identifier: Callable[[str], str]
) -> str:
    """The hash of a server's row."""
    expression = f"{seed}::int8"
    for column, there in zip(columns, sent, strict=True):
        expression = column.sql(identifier(there.name), there.sent_as, expression)
    return expression


def row_hashes(
    columns: Sequence[HashedColumn], arrays: Sequence[Any], forms: Sequence[Form], seed: int, count: int,
    style: TextStyle,
) -> npt.NDArray[np.uint64]:  # fmt: skip
    """The hashes of so many rows."""
    hashes = RowHashes(count, seed)
    for column, array, form in zip(columns, arrays, forms, strict=True):
        column.add(hashes, array, form, style)
    return hashes.hashes


# --- hashes of rows ---------------------------------------------------------------------------------------------------


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
