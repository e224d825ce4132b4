"""Rows as lines of a COPY file, as CopyOneRowTo writes them in text and CSV format."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

from pgrepl.types.lake_arrays import content
from pgrepl.writing.copy.copy_options import CopyOptions

_LETTERS = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}

Quoting = Callable[[str], str]


class LineWriter:
    """Makes the lines of one file, as text; the caller encodes them."""

    def __init__(self, names: Sequence[str], options: CopyOptions, force_quote: Sequence[bool]) -> None:
        self._names = names
        self._null = options.null
        self._delimiter = options.delimiter
        alone = len(names) == 1
        if options.csv:
            self._header_quoting = _csv_field(options, force=False, alone=alone)
            self._quoting = [_csv_field(options, force=force, alone=alone) for force in force_quote]
            self._always_quoted = force_quote
            self._special_characters = "\r\n" + options.delimiter + options.quote
            self._special_texts = [options.null, "\\."]
        else:
            self._always_quoted = [False] * len(names)
            self._special_characters = "".join(_LETTERS) + "\\" + options.delimiter
            self._special_texts = []
            self._header_quoting = _text_field(options)
            self._quoting = [self._header_quoting] * len(names)

    def header(self) -> str:
        return self._delimiter.join([self._header_quoting(name) for name in self._names]) + "\n"

    def line(self, row: Sequence[str | None]) -> str:
        """The values are the texts that the types' output functions give."""
        null = self._null
        fields = [null if text is None else quote(text) for text, quote in zip(row, self._quoting, strict=True)]
        return self._delimiter.join(fields) + "\n"

    def lines(self, columns: Sequence[Any]) -> Any:
        """The lines of many rows: arrays of large strings, of the values of each column."""
        import pyarrow as pa
        import pyarrow.compute as pc

        text = pa.large_string()
        join = partial(pc.binary_join_element_wise, null_handling="replace", null_replacement=self._null)
        fields = [self._field(number, column) for number, column in enumerate(columns)]
        fields[-1] = join(fields[-1], pa.scalar("", text), pa.scalar("\n", text))
        return join(*fields, pa.scalar(self._delimiter, text))

    def _field(self, number: int, column: Any) -> Any:
        """A column's fields. Texts are looked at one by one only if one of them has a special character."""
        import pyarrow as pa

        if not self._always_quoted[number] and not self._has_special(column):
            return column
        quote = self._quoting[number]
        return pa.array([None if text is None else quote(text) for text in column.to_pylist()], pa.large_string())

    def _has_special(self, column: Any) -> bool:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._special[np.frombuffer(content(column), np.uint8)].any():
            return True
        whole = pa.array(self._special_texts, pa.large_string())
        return bool(len(whole)) and bool(pc.any(pc.is_in(column, value_set=whole)).as_py())

    @cached_property
    def _special(self) -> Any:
        """A mask of the bytes that are special in a field."""
        import numpy as np

        found = np.zeros(256, bool)
        found[list(self._special_characters.encode())] = True
        return found


def _text_field(options: CopyOptions) -> Quoting:
    """Puts backslashes before characters that have a meaning to a reader."""
    special = re.compile(f"[\b-\r\\\\{re.escape(options.delimiter)}]")

    def escape(found: re.Match[str]) -> str:
        return _LETTERS.get(found[0]) or "\\" + found[0]

    search, sub = special.search, special.sub
    return lambda text: sub(escape, text) if search(text) else text


def _csv_field(options: CopyOptions, *, force: bool, alone: bool) -> Quoting:
    quote, escape, null = options.quote, options.escape, options.null
    needs_quotes = re.compile(f"[\r\n{re.escape(options.delimiter + quote)}]").search
    marks = re.compile(f"[{re.escape(quote + escape)}]")
    # Alone on a line it would end the data.
    marker = "\\." if alone else None

    def quoted(text: str) -> str:
        return quote + marks.sub(lambda found: escape + found[0], text) + quote

    if force:
        return quoted
    return lambda text: quoted(text) if text in (null, marker) or needs_quotes(text) else text
