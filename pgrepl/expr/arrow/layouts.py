"""Texts in the order of their layouts, which are few: `2 days 03:04:05` and `7 days 10:00:00` are `0 days 00:00:00`.
What is said of a layout need not be asked of each text, and the digits of all texts of one stand in the same places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.types.lake_arrays import content

if TYPE_CHECKING:
    import re

    import numpy.typing as npt
    import pyarrow as pa

    Numbers = npt.NDArray[Any]

_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_ZERO = ord("0")
_MANY = 64  # layouts, beside one for each eighth text, with which texts are looked at one by one


@frozen
class Layout:
    """Texts of one layout, which stand in the column's `rows`."""

    text: str
    rows: Any  # of numpy, to index with
    data: Numbers
    starts: Numbers

    def number(self, start: int, stop: int) -> Numbers:
        """The numbers whose digits are between two places of the texts."""
        import numpy as np

        kind = np.int32 if stop - start < 7 else np.int64
        value = self.data[start:][self.starts].astype(kind)
        for place in range(start + 1, stop):
            value *= 10
            value += self.data[place:][self.starts]
        value -= _ZERO * int("1" * (stop - start))
        return value.astype(np.int64, copy=False)

    def fraction(self, found: re.Match[str], group: str, *, zeros: bool = False) -> Any:
        """Up to six digits behind a point, as millionths. `zeros`: the last one may be 0."""
        start, stop = found.span(group)
        if start < 0:
            return 0
        value = self.number(start, stop)
        if not zeros:
            require(value % 10 != 0)
        return value * 10 ** (6 - stop + start)

    def counted(self, found: re.Match[str], group: str) -> Any:
        """A number without zeros before it; 0 where the group is not there."""
        start, stop = found.span(group)
        if start < 0:
            return 0
        value = self.number(start, stop)
        if stop - start > 1:
            require(value >= 10 ** (stop - start - 1))
        return value


def layouts(array: pa.Array) -> Iterator[Layout]:
    """The layouts of a column of strings; NULLs have none."""
    import numpy as np
    import pyarrow as pa

    texts = array.fill_null("").cast(pa.large_string())
    count, raw = len(texts), content(texts)
    if not count:
        return
    ends = np.frombuffer(texts.buffers()[1], np.int64, count + 1, texts.offset * 8)
    ends = ends - ends[0]
    data = np.frombuffer(raw, np.uint8)
    zeros = pa.py_buffer(bytes(raw).translate(_AS_ZERO))
    found = pa.LargeStringArray.from_buffers(count, pa.py_buffer(ends), zeros).dictionary_encode()
    names = found.dictionary.to_pylist()
    require(len(names) <= _MANY + count // 8)
    for name, rows in zip(names, _divided(found.indices.to_numpy(), len(names)), strict=True):
        starts = ends[:-1][rows]
        if name:
            yield Layout(name, rows, data, starts)
        else:
            require(len(starts) == array.null_count)


def _divided(codes: Numbers, count: int) -> list[Any]:
    """The rows of each code."""
    import numpy as np

    if count == 1:
        return [slice(None)]
    order = np.argsort(codes.astype(np.uint16) if count < 1 << 16 else codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes))[:-1])


def require(test: Any) -> None:
    """Raise Arrow's error unless the test is true, of all texts if it is an array."""
    import numpy as np
    import pyarrow as pa

    if not np.all(test):
        raise pa.ArrowInvalid("a text that the output function does not write")
