r"""Large text and CSV files in blocks of whole lines, each split by Arrow as PostgreSQL would, or not at all.

Arrow knows neither backslashes nor `a"b"c` nor `\.`. It splits a block without them many times faster than a loop over
lines does; a block that Arrow might read differently from PostgreSQL is `Unusual`, and read line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pgrepl.types.nested_words import bytes_of
from pgrepl.writing.copy.copy_options import CopyOptions
from pgrepl.writing.copy.fields import unescaped

if TYPE_CHECKING:
    import pyarrow as pa

SIZE = 8 << 20
_BACKSLASH = ord("\\")
_CUTS = 64  # ends of lines that are tried before more is read


class Unusual(Exception):
    """The block must be read line by line."""


def blocks(pieces: Iterable[bytes], options: CopyOptions) -> Iterator[bytes]:
    """The bytes of a file, cut between lines. In CSV a line goes on while a quote is open."""
    kept: list[bytes] = []
    size = 0
    for piece in pieces:
        kept.append(piece)
        size += len(piece)
        if size < SIZE:
            continue
        data = b"".join(kept)
        cut = _cut(data, options)
        if cut:
            yield data[:cut]
        kept, size = [data[cut:]], 0
    data = b"".join(kept)
    if data:
        yield data


def _cut(data: bytes, options: CopyOptions) -> int:
    quote = options.quote.encode()
    end = len(data)
    for _ in range(_CUTS):
        end = data.rfind(b"\n", 0, end)
        if end < 0 or not options.csv or not data.count(quote, 0, end) % 2:
            return end + 1
    return 0


def header_end(block: bytes, options: CopyOptions) -> int:
    """The position behind the first line of a file; 0: it does not end in this block."""
    quote, end = options.quote.encode(), -1
    while True:
        end = block.find(b"\n", end + 1)
        if end < 0 or not options.csv or not block.count(quote, 0, end) % 2:
            return end + 1


class Splitter:
    """Splits blocks of one file into columns. All lines must end as the first one does."""

    def __init__(self, options: CopyOptions, columns: int) -> None:
        self._options = options
        self._names = [f"c{number}" for number in range(columns)]
        self._end = b""
        self._quote = options.quote.encode() if options.csv else b""

    def split(self, block: bytes) -> list[pa.Array]:
        """The columns as text, with NULL where the file has its marker."""
        import pyarrow as pa

        self._look(block)
        if not block.endswith(b"\n"):  # without it Arrow takes an empty field at the end for no NULL
            block += self._end or b"\n"
        try:
            table = self._read(block)
        except pa.ArrowInvalid as problem:  # lines of another number of fields, invalid UTF-8
            raise Unusual from problem
        columns = [column.combine_chunks() for column in table.columns]
        arrays = [column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in columns]
        if self._options.csv:
            self._check_quotes(block, arrays)
            return arrays
        return [_without_escapes(array) for array in arrays]

    def _look(self, block: bytes) -> None:
        returns = block.count(b"\r")
        self._end = self._end or (b"\r\n" if returns else b"\n" if b"\n" in block else b"")
        if returns and (self._end == b"\n" or not returns == block.count(b"\r\n") == block.count(b"\n")):
            raise Unusual
        if self._end == b"\r\n" and block.count(b"\n") != returns:
            raise Unusual
        if b"\0" in block or block.startswith((b"\xef\xbb\xbf", b"\n", b"\r")):
            raise Unusual
        if (b"\r\n\r\n" if returns else b"\n\n") in block:  # one empty field to PostgreSQL
            raise Unusual
        if self._options.csv:
            if block.startswith(b"\\.") or b"\n\\." in block or block.count(self._quote) % 2:
                raise Unusual
        elif b"\\" in block and not _escapes_are_plain(block):
            raise Unusual

    def _read(self, block: bytes) -> pa.Table:
        import pyarrow as pa
        from pyarrow import csv

        options = self._options
        quotes = options.csv and self._quote in block
        return csv.read_csv(
            pa.BufferReader(block),
            read_options=csv.ReadOptions(column_names=self._names, block_size=len(block) + 1),
            parse_options=csv.ParseOptions(
                delimiter=options.delimiter,
                quote_char=options.quote if quotes else False,
                double_quote=quotes,
                escape_char=False,
                newlines_in_values=quotes,
                ignore_empty_lines=False,
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(self._names, pa.string()),
                null_values=[options.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _check_quotes(self, block: bytes, arrays: list[pa.Array]) -> None:
        """Unusual if values contain quotes and not all fields are quoted as a whole or not at all: Arrow does not treat
        quotes inside a field as PostgreSQL does."""
        import pyarrow.compute as pc

        if self._quote not in block:
            return
        if any(pc.any(pc.match_substring(array, self._options.quote)).as_py() for array in arrays):
            if _regular(self._options).fullmatch(block) is None:
                raise Unusual


def _regular(options: CopyOptions) -> re.Pattern[bytes]:
    """Lines of CSV whose fields are quoted as a whole or not at all."""
    quote, delimiter = re.escape(options.quote.encode()), re.escape(options.delimiter.encode())
    quoted = b"%b[^%b]*(?:%b%b[^%b]*)*%b" % (quote, quote, quote, quote, quote, quote)
    return re.compile(b"(?:(?:%b|[^%b%b\n]*)(?:%b|\r?\n))*" % (quoted, quote, delimiter, delimiter))


def _escapes_are_plain(block: bytes) -> bool:
    r"""Whether no backslash stands before the end of a line or a dot, which may be the end of the data."""
    import numpy as np

    data = np.frombuffer(block, np.uint8)
    behind = data[1:][data[:-1] == _BACKSLASH]
    return not any((behind == each).any() for each in b"\n\r.")


def _without_doubled(array: pa.Array) -> pa.Array | None:
    """One backslash for each two of them; None: some are single ones."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    data, ends = bytes_of(array.fill_null("").cast(pa.large_string()))
    places = np.flatnonzero(data == _BACKSLASH)
    first, second = places[::2], places[1::2]
    if len(first) != len(second) or (second - first != 1).any():
        return None
    left_out = second.searchsorted(ends)
    if (first.searchsorted(ends) != left_out).any():  # one ends a value, the other begins the next one
        return None
    kept = np.ones(len(data), np.bool_)
    kept[second] = False
    edges = (ends - left_out).astype(np.int32)
    made = pa.StringArray.from_buffers(len(array), pa.py_buffer(edges), pa.py_buffer(data[kept]))
    return pc.if_else(array.is_valid(), made, None) if array.null_count else made


def _without_escapes(array: pa.Array) -> pa.Array:
    r"""Resolve escapes like `\t` and `\101`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    escaped = pc.match_substring(array, "\\")
    if not pc.any(escaped).as_py():
        return array
    simple = _without_doubled(array)
    if simple is not None:
        return simple
    words: Any = array.filter(escaped).to_pylist()
    if any((len(word) - len(word.rstrip("\\"))) % 2 for word in words):  # it escapes the delimiter behind it
        raise Unusual
    return pc.replace_with_mask(array, pc.fill_null(escaped, False), pa.array([unescaped(word) for word in words]))
