"""The words in a column of array or record texts, found for all rows together; and lists and structs of files as such
texts.

    found = words_of(pa.array(['{a,"b c"}', '{}'], pa.large_string()), "{", "}")
    found.words, found.counts           # ['a', 'b c'], [2, 0]

A text is understood here if it has none of its brackets outside quotes, and if each word is quoted as a whole or not
at all. A struct's field without an attribute is refused, as nothing of a file is left out silently.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow.types as kinds

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.types import oids
from pgrepl.types.arrays import array_of, write_array
from pgrepl.types.builtin import base_type, element_type
from pgrepl.types.lake.arrays import content, plain_array
from pgrepl.types.lake.structs import NO_COLUMNS
from pgrepl.types.names import format_type
from pgrepl.types.style import RowType, quote_field

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[Any]

_QUOTE, _COMMA, _BACKSLASH = ord('"'), ord(","), ord("\\")


@frozen
class Words:
    """`words`: those of all rows one behind the other, large strings. `counts`: how many of them each row has, none
    where it is not `is_plain`. `quoted`: of each word."""

    words: Any
    counts: Numbers
    quoted: Numbers
    is_plain: Numbers


def words_of(array: pa.Array, opening: str, closing: str, *, doubled: bool = False) -> Words:
    """The words of large strings that are not NULL. An unquoted text between two commas may be empty; a text of nothing
    but brackets has no word. `doubled`: two quotes in a quoted word are one."""
    signs = _Signs(array, opening, closing, doubled=doubled)
    plain = signs.plain_rows()
    if not plain.all():
        nothing = pa.scalar(opening + closing, pa.large_string())
        signs = _Signs(pc.if_else(pa.array(plain), array, nothing), opening, closing, doubled=doubled)
        signs.plain_rows()
    return Words(*signs.words(), plain)


def having(array: pa.Array, letters: str) -> Numbers:
    """Which of the large strings have one of these letters, all ASCII; NULL has none."""
    flags = np.zeros(len(array), np.bool_)
    data, ends = bytes_of(array.fill_null("") if array.null_count else array)
    flags[ends[1:].searchsorted(_places(data, letters), side="right")] = True
    return flags


def bytes_of(array: pa.Array) -> tuple[Numbers, Numbers]:
    """The bytes of all texts, one behind the other, and where each begins; at last where they end."""
    data = np.frombuffer(content(array), np.uint8)
    if not len(array):
        return data, np.zeros(1, np.int64)
    ends = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
    return data, ends - ends[0]


def _places(data: Numbers, letters: str) -> Numbers:
    flags = data == ord(letters[0])
    for letter in letters[1:]:
        flags |= data == ord(letter)
    return np.flatnonzero(flags)


class _Signs:
    """The brackets, commas, quotes and backslashes that mean something in a column of texts."""

    def __init__(self, array: pa.Array, opening: str, closing: str, *, doubled: bool) -> None:
        self._opening, self._closing = ord(opening), ord(closing)
        self._data, self._ends = bytes_of(array)
        at = _places(self._data, f'{opening}{closing},"\\')
        if len(self._data) < 1 << 31:  # half the memory is half the time
            at, self._ends = at.astype(np.int32), self._ends.astype(np.int32)
        self._at = at = _without_escaped(at, self._data[at])
        self._kind = self._data[at]
        self._edges = at.searchsorted(self._ends)  # the first sign of each row
        self._adjacent = at[1:] - at[:-1] == 1  # signs that stand side by side
        self._slashes, quotes = self._kind == _BACKSLASH, self._kind == _QUOTE
        parity = np.bitwise_xor.accumulate(quotes.view(np.uint8)) if quotes.any() else quotes.view(np.uint8)
        before = np.concatenate([[np.uint8(0)], parity])[self._edges]
        self._is_even = before[1:] == before[:-1]
        if before.any():  # a text whose quotes are not paired changes what is inside of the next ones
            parity = parity ^ np.repeat(before[:-1], np.diff(self._edges))
        self._inside = parity.view(np.bool_)
        self._opens, self._closes = quotes & self._inside, quotes & ~self._inside
        self._seconds = self._next(self._closes) & self._opens & doubled  # of two quotes that are one
        self._bounds = ~(quotes | self._slashes | self._inside)

    def _next(self, signs: Numbers) -> Numbers:
        """The signs directly behind these."""
        behind = np.zeros(len(signs), np.bool_)
        np.logical_and(signs[:-1], self._adjacent, out=behind[1:])
        return behind

    def _last(self, signs: Numbers) -> Numbers:
        """The signs directly before these."""
        before = np.zeros(len(signs), np.bool_)
        np.logical_and(signs[1:], self._adjacent, out=before[:-1])
        return before

    def _of_rows(self, signs: Numbers) -> Numbers:
        """How many of these each row has."""
        counts: Numbers = np.diff(np.concatenate([[0], np.cumsum(signs)])[self._edges])
        return counts

    def plain_rows(self) -> Numbers:
        at, kind, bounds, edges = self._at, self._kind, self._bounds, self._edges
        bad = self._opens & ~(self._next(bounds & (kind != self._closing)) | self._seconds)
        bad |= self._closes & ~(self._last(bounds & (kind != self._opening)) | self._last(self._seconds))
        bad |= self._slashes & ~self._inside
        plain: Numbers = self._is_even & (np.diff(edges) >= 2)
        rows = np.arange(len(plain)) if plain.all() else np.flatnonzero(plain)
        first, last = edges[rows], edges[rows + 1] - 1
        plain[rows] = (at[first] == self._ends[rows]) & (kind[first] == self._opening) & bounds[first]
        plain[rows] &= (at[last] == self._ends[rows + 1] - 1) & (kind[last] == self._closing) & bounds[last]
        if bad.any():
            plain &= self._of_rows(bad) == 0
        brackets = bounds & (kind != _COMMA)
        if np.count_nonzero(brackets) != 2 * np.count_nonzero(plain):
            plain &= self._of_rows(brackets) == 2
        return plain

    def words(self) -> tuple[Any, Numbers, Numbers]:
        """The words, how many each row has, and which are quoted, if all rows are plain."""
        bounds = np.flatnonzero(self._bounds)
        at, kind = self._at[bounds], self._kind[bounds]
        firsts = np.flatnonzero(kind == self._opening)  # among the bounds; so many as rows
        counts = np.diff(np.append(firsts, len(bounds))) - 1
        is_word = kind != self._closing
        empty = np.diff(self._ends) == 2
        if empty.any():
            is_word[firsts[empty]] = False
            counts[empty] = 0
        begins = np.flatnonzero(is_word)
        left_out = ~self._inside | self._opens | self._slashes
        if self._seconds.any():
            left_out &= ~self._seconds
        kept = np.ones(len(self._data), np.bool_)
        kept[self._at[left_out]] = False
        left = np.cumsum(left_out, dtype=at.dtype)[bounds[begins + 1]] - 1
        edges = np.empty(len(begins) + 1, np.int64)
        edges[0], edges[1:] = 0, at[begins + 1] - left
        texts = pa.LargeStringArray.from_buffers(len(begins), pa.py_buffer(edges), pa.py_buffer(self._data[kept]))
        return texts, counts, self._data[at[begins] + 1] == _QUOTE


def _without_escaped(at: Numbers, kind: Numbers) -> Numbers:
    """The places of signs that no backslash stands before. Of backslashes side by side every second one is escaped."""
    slashes = np.flatnonzero(kind == _BACKSLASH)
    if not len(slashes):
        return at
    places = at[slashes]
    begins = np.flatnonzero(np.diff(places, prepend=-2) != 1)
    number = np.arange(len(places)) - np.repeat(begins, np.diff(np.append(begins, len(places))))
    escaped = places[number % 2 == 0] + 1
    return at[~np.isin(at, escaped, assume_unique=True)]


# --- nested texts -----------------------------------------------------------------------------------------------------


Texts = list["str | None"]
RowTypes = Callable[[int], "RowType | None"]  # the columns of a named row type
Scalars = Callable[["pa.Array", int], Texts]  # the texts of other values, for columns of a type


def nested_texts(array: pa.Array, typoid: int, row_types: RowTypes, scalars: Scalars) -> Texts:
    """The texts of a file's column for a column of the type, whose lists are arrays and whose structs are rows."""
    typoid = base_type(typoid)
    element = element_type(typoid)
    if element and _is_list(array.type):
        return _lists(array, element, row_types, scalars)
    row = row_types(typoid) if pa.types.is_struct(array.type) else None
    return scalars(array, typoid) if row is None else _structs(array, typoid, row, row_types, scalars)


def _is_list(kind: pa.DataType) -> bool:
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


def _lists(array: pa.Array, element: int, row_types: RowTypes, scalars: Scalars) -> Texts:
    if not len(array):
        return []
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    edges = array.offsets.to_pylist()  # flatten() does not build lists of structs with uuids
    first = edges[0]
    items = nested_texts(array.values.slice(first, edges[-1] - first), element, row_types, scalars)
    spans = zip(edges, edges[1:], array.is_valid().to_pylist(), strict=False)
    return [
        write_array(array_of(oids.TEXT, items[start - first : stop - first]), str) if is_list else None
        for start, stop, is_list in spans
    ]


def _structs(array: pa.Array, typoid: int, row: RowType, row_types: RowTypes, scalars: Scalars) -> Texts:
    array = plain_array(array)
    fields = {array.type.field(n).name: column for n, column in enumerate(array.flatten())}  # NULL where the struct is
    unknown = next((name for name in fields if name not in (row.names or (NO_COLUMNS,))), None)
    if unknown is not None:
        raise PgError("22P04", f'field "{unknown}" does not exist in type {format_type(typoid)}')
    columns: list[Any] = [repeat(None)] * len(row.fields)
    for n, attribute in enumerate(row.fields):
        if attribute.name in fields:
            columns[n] = nested_texts(fields[attribute.name], attribute.type, row_types, scalars)
    return [
        "(" + ",".join(["" if word is None else quote_field(word) for word in words]) + ")" if is_row else None
        for is_row, *words in zip(array.is_valid().to_pylist(), *columns, strict=False)
    ]
