"""The words in a column of array, record or range texts, found for all rows together.

    found = words_of(pa.array(['{a,"b c"}', '{}'], pa.large_string()), "{", "}")
    found.words, found.counts           # ['a', 'b c'], [2, 0]

A text is understood here if it begins and ends with its brackets and has none of them outside quotes, has no
backslash, and if each word in it is quoted as a whole or not at all, without doubled quotes. Others are not `is_plain`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.types.lake_arrays import content

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


def words_of(array: Any, opening: str, closing: str, brackets: str = "") -> Words:
    """The words of texts that are not NULL. An unquoted text between two commas may be empty; a text of nothing but
    brackets has no word. `brackets`: those that may not stand outside quotes besides."""
    import numpy as np
    import pyarrow as pa

    data = np.frombuffer(content(array), np.uint8)
    ends = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8) if len(array) else np.zeros(1)
    ends = (ends - ends[0]).astype(np.int64)
    starts, stops = ends[:-1], ends[1:]
    plain = stops - starts >= 2
    first, last = np.minimum(starts, max(len(data) - 1, 0)), np.maximum(stops - 1, 0)
    if len(data):
        plain &= _among(data, opening)[first] & _among(data, closing)[last]
    quotes = data == _QUOTE
    parity = np.bitwise_xor.accumulate(quotes.view(np.uint8)) if len(data) else quotes.view(np.uint8)
    before = np.where(starts > 0, parity[np.maximum(starts - 1, 0)] if len(data) else 0, 0).astype(np.uint8)
    outside = (parity ^ np.repeat(before, stops - starts)) == 0
    bracket = _among(data, opening + closing + brackets) & outside
    wrong = np.concatenate([[0], np.cumsum(bracket)]).astype(np.int64)
    plain &= wrong[stops] - wrong[starts] == 2
    wrong = np.concatenate([[0], np.cumsum(data == _BACKSLASH)]).astype(np.int64)
    plain &= wrong[stops] == wrong[starts]
    if len(data):
        plain &= outside[last]
    comma = (data == _COMMA) & outside
    return _found(pa, np, data, starts, stops, quotes, comma, plain)


def _among(data: Numbers, letters: str) -> Numbers:
    import numpy as np

    found: Numbers = np.isin(data, [ord(letter) for letter in letters])
    return found


def _found(
    pa: Any, np: Any, data: Numbers, starts: Numbers, stops: Numbers, quotes: Numbers, comma: Numbers, plain: Numbers
) -> Words:
    """The words of the plain rows; a word with quotes in its midst makes its row not plain, and all are cut again."""
    while True:
        bounds = np.zeros(len(data) + 1, np.bool_)
        bounds[:-1] = comma & np.repeat(plain, stops - starts)
        bounds[starts[plain]] = True
        bounds[stops[plain] - 1] = True
        at = np.flatnonzero(bounds)
        row = np.searchsorted(stops, at, side="right")
        inner = row[1:] == row[:-1] if len(at) else np.empty(0, np.bool_)
        begins, behind, row = at[:-1][inner] + 1, at[1:][inner], row[:-1][inner]
        empty = (behind == begins) & (stops[row] - starts[row] == 2)
        begins, behind, row = begins[~empty], behind[~empty], row[~empty]
        counted = np.concatenate([[0], np.cumsum(quotes)]).astype(np.int64)
        many = counted[behind] - counted[begins]
        quoted = np.zeros(len(begins), np.bool_)
        two = np.flatnonzero((many == 2) & (behind - begins >= 2))
        quoted[two] = quotes[begins[two]] & quotes[behind[two] - 1]
        bad = (many > 0) & ~quoted
        if not bad.any():
            break
        plain = plain.copy()
        plain[row[bad]] = False
    begins, behind = begins + quoted, behind - quoted
    inside = np.zeros(len(data) + 1, np.int8)
    inside[begins] += 1
    inside[behind] -= 1
    kept = data[np.cumsum(inside[:-1], dtype=np.int8) > 0]
    ends = np.concatenate([[0], np.cumsum(behind - begins)]).astype(np.int64)
    words = pa.LargeStringArray.from_buffers(len(begins), pa.py_buffer(ends), pa.py_buffer(kept.tobytes()))
    return Words(words, np.bincount(row, minlength=len(starts)).astype(np.int64), quoted, plain)
