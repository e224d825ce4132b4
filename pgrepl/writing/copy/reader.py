"""From a COPY file to rows of values, in text, CSV or binary form: header, fields, input functions, and where an error
happened.

    reader = CopyReader("t", columns, options, decoded(chunks, "UTF8"), style)
    for row in reader.rows():
        ...                       # a PgError gets the CONTEXT `COPY t, line 3, column a: "x"`
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.types.binary import check_function, receiver, sender
from pgrepl.types.binary_scalars import INVALID, BinaryMessage
from pgrepl.types.style import DEFAULT_STYLE, TextStyle
from pgrepl.types.text import read_null
from pgrepl.types.text import reader as input_function
from pgrepl.types.user_types import tests_null
from pgrepl.writing.copy.copy_options import CopyOptions
from pgrepl.writing.copy.fields import DEFAULT, splitter
from pgrepl.writing.copy.lines import CopyLines

# when PostgreSQL empties its buffer of rows (MAX_BUFFERED_TUPLES, MAX_BUFFERED_BYTES)
BATCH_ROWS, BATCH_BYTES = 1000, 65535
_MOST_SHOWN = 100  # bytes of a line or a value


@frozen
class CopyColumn:
    """A column of the file."""

    name: str
    type: int
    typmod: int = -1
    has_default: bool = False
    force_not_null: bool = False
    force_null: bool = False


def shown(text: str) -> str:
    """The part of a text that messages show (CopyLimitPrintoutLength)."""
    raw = text.encode("utf-8", "surrogateescape")
    return text if len(raw) <= _MOST_SHOWN else raw[:_MOST_SHOWN].decode("utf-8", "ignore") + "..."


def placed(error: PgError, context: str) -> PgError:
    """The error with `context` appended to its CONTEXT, unless that names a line or row already."""
    before = error.report.context
    if not is_placed(error):
        error.report = replace(error.report, context=context if before is None else f"{before}\n{context}")
    return error


def is_placed(error: PgError) -> bool:
    return re.search(r"^COPY .*, (line|row) [0-9]", error.report.context or "", re.MULTILINE) is not None


class CopyReader:
    """Reads one file. `skipped` counts the rows that ON_ERROR ignore has passed over."""

    def __init__(
        self,
        relation: str,
        columns: Sequence[CopyColumn],
        options: CopyOptions,
        pieces: Iterator[str],
        style: TextStyle = DEFAULT_STYLE,
        *,
        from_client: bool = False,
        notice: Callable[[str, str], None] | None = None,
        default: Callable[[int], Any] | None = None,
    ) -> None:
        """`default` computes the default of the column with this position in `columns`, for a field that is its marker;
        `notice` gets a message and its context."""
        self.skipped = 0
        self._relation = relation
        self._columns = columns
        self._options = options
        self._lines = CopyLines(pieces, options, from_client=from_client)
        self._style = style
        self._notice = notice
        self._default = default
        names = [column.name for column in columns]
        self._split = splitter(options, names, [column.has_default for column in columns])
        self._tested = frozenset([n for n, c in enumerate(columns) if tests_null(c.type)])
        self._readers = [(input_function(c.type), c.typmod, style) for c in columns]
        self._forced = [i for i, c in enumerate(columns) if c.force_not_null or c.force_null]
        self._column = -1  # the one whose value is being read
        self._value: str | None = None

    # --- rows --------------------------------------------------------------------------------------------------------

    def rows(self) -> Iterator[list[Any]]:
        """A list for each line: the values of the columns, in their order."""
        try:
            if self._header():
                return
            lines = iter(self._lines)
        except PgError as error:
            raise self.with_context(error) from None
        count, split = len(self._columns), self._split
        while True:
            try:
                line = next(lines, None)
                if line is None:
                    return
                fields = split(line)
                if len(fields) == count:
                    row = self._read(fields)
                else:
                    row = self._wrong_count(fields)
            except PgError as error:
                raise self.with_context(error) from None
            if row is not None:
                yield row

    def fields(self) -> Iterator[list[Any]]:
        """The fields of each line, not yet read as values. A line with a wrong number of fields is an error without
        PostgreSQL's message: `rows` finds it again and reports it."""
        if self._header():
            return
        count = len(self._columns)
        for line in self._lines:
            fields = self._split(line)
            if len(fields) != count:
                raise PgError("22P04", "missing data, or extra data")
            if self._forced:
                self._force(fields)
            yield fields

    def lines(self) -> Iterator[str]:
        """The lines alone, to find one again."""
        if not self._header():
            yield from self._lines

    def _read(self, fields: list[Any]) -> list[Any] | None:
        """The values of a line; None if the line is passed over."""
        if self._forced:
            self._force(fields)
        row: list[Any] = []
        column = 0
        try:
            for field in fields:
                if field is None:
                    if column in self._tested:
                        self._test_null(column)
                    row.append(None)
                elif field is DEFAULT:
                    assert self._default is not None
                    row.append(self._default(column))
                else:
                    read, typmod, style = self._readers[column]
                    row.append(read(field, typmod, style))
                column += 1
        except PgError as error:
            self._column, self._value = column, self._options.default if field is DEFAULT else field
            if not self._options.ignore_errors or field is DEFAULT or not error.is_soft:
                raise
            self._skip()
            return None
        return row

    def _test_null(self, column: int) -> None:
        """A domain's input function sees NULL, too (domain_in is not strict)."""
        if self._style.check_domain is not None:
            self._style.check_domain(self._columns[column].type, None)

    def _skip(self) -> None:
        self.skipped += 1
        if self._options.verbosity == "verbose" and self._notice is not None:
            name, value = self._columns[self._column].name, self._value
            given = "null input" if value is None else f'"{shown(value)}"'
            self._notice(
                f"skipping row due to data type incompatibility at line {self._lines.number} for column "
                f'"{name}": {given}',
                f"COPY {self._relation}",
            )
        limit = self._options.reject_limit
        if limit and self.skipped > limit:
            raise PgError("22P02", f"skipped more than REJECT_LIMIT ({limit}) rows due to data type incompatibility")
        self._column = -1

    def _force(self, fields: list[Any]) -> None:
        """FORCE_NOT_NULL and FORCE_NULL."""
        null = self._options.null
        for number in self._forced:
            if number >= len(fields):
                return
            field = fields[number]
            if field is None:
                if self._columns[number].force_not_null:
                    fields[number] = null
            elif self._columns[number].force_null and field == null:
                fields[number] = None

    def _wrong_count(self, fields: list[Any]) -> list[Any] | None:
        """An error. But fields before a missing one are read first, and may cause the line to be skipped."""
        if len(fields) > len(self._columns):
            raise PgError("22P04", "extra data after last expected column")
        missing = self._columns[len(fields)].name
        if self._read(fields) is not None:
            raise PgError("22P04", f'missing data for column "{missing}"')
        return None

    # --- the header --------------------------------------------------------------------------------------------------

    def _header(self) -> bool:
        """Read it, if there is one. True if the file ends with it."""
        header = self._options.header
        if header == "false":
            return False
        ended = self._lines.read()
        if header == "match":
            assert self._lines.line is not None
            self._match_header(self._split(self._lines.line))
        return ended

    def _match_header(self, fields: list[Any]) -> None:
        columns = self._columns
        if len(fields) != len(columns):
            raise PgError("22P04", f"wrong number of fields in header line: got {len(fields)}, expected {len(columns)}")
        for number, (field, column) in enumerate(zip(fields, columns, strict=True), 1):
            mismatch = f"column name mismatch in header line field {number}: got"
            if field is None:
                null = self._options.null
                raise PgError("22P04", f'{mismatch} null value ("{null}"), expected "{column.name}"')
            field = self._options.default if field is DEFAULT else field
            if field != column.name:
                raise PgError("22P04", f'{mismatch} "{field}", expected "{column.name}"')

    # --- where it is -------------------------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """The number of the current line."""
        return self._lines.number

    @property
    def size(self) -> int:
        """The length of the current line in bytes."""
        line = self._lines.line or ""
        return len(line) if line.isascii() else len(line.encode())

    def with_context(self, error: PgError) -> PgError:
        """The error with the place in the file (CopyFromErrorCallback)."""
        return placed(error, self.context())

    def context(self) -> str:
        lines = self._lines
        place = f"COPY {self._relation}, line {lines.number}"
        if self._column >= 0:
            value = "null input" if self._value is None else f'"{shown(self._value)}"'
            return f"{place}, column {self._columns[self._column].name}: {value}"
        return place if lines.line is None else f'{place}: "{shown(lines.line)}"'


# --- binary file ------------------------------------------------------------------------------------------------------


_SIGNATURE = b"PGCOPY\n\377\r\n\0"
_BAD_FORMAT = "22P04"  # ERRCODE_BAD_COPY_FILE_FORMAT
_OIDS = 1 << 16  # a flag of releases before 12
_INT2, _INT4 = struct.Struct("!h"), struct.Struct("!i")
_NULL = _INT4.pack(-1)

HEADER = _SIGNATURE + bytes(8)
TRAILER = _INT2.pack(-1)


def row_writer(types: Sequence[int], encoding: str) -> Callable[[Sequence[Any]], bytes]:
    """A function for the bytes of a row (CopyOneRowTo), whose texts are in an encoding."""
    for typoid in types:
        check_function(typoid, "output")
    sends = [sender(typoid, encoding) for typoid in types]
    count, size = _INT2.pack(len(types)), _INT4.pack

    def write(row: Sequence[Any]) -> bytes:
        parts = [count]
        for value, send in zip(row, sends, strict=True):
            if value is None:
                parts.append(_NULL)
            else:
                sent = send(value)
                parts += (size(len(sent)), sent)
        return b"".join(parts)

    return write


class BinaryFileReader:
    """Reads one file. `number` is that of the current row."""

    def __init__(self, relation: str, columns: Sequence[CopyColumn], pieces: Iterable[bytes], style: TextStyle) -> None:
        self.number = 0
        self._relation = relation
        self._columns = columns
        self._style = style
        self._receives = [receiver(column.type) for column in columns]
        self._pieces = iter(pieces)
        self._data = b""
        self._at = 0
        self._before = 0  # bytes before those in _data
        self._column = -1  # the one whose value is being read

    def rows(self) -> Iterator[list[Any]]:
        """A list for each row: the values of the columns, in their order. Errors behind the header are placed."""
        self._header()
        while True:
            self.number += 1
            try:
                if self._ended():
                    return
                row = [self._field(number) for number in range(len(self._columns))]
            except PgError as error:
                raise placed(error, self.context()) from None
            yield row

    def context(self, number: int | None = None) -> str:
        """CONTEXT for an error in the current row, or in an earlier one of this number (CopyFromErrorCallback)."""
        if number is not None:
            return f"COPY {self._relation}, line {number}"
        column = f", column {self._columns[self._column].name}" if self._column >= 0 else ""
        return f"COPY {self._relation}, line {self.number}{column}"

    @property
    def position(self) -> int:
        """The number of bytes read so far."""
        return self._before + self._at

    def _read(self, count: int) -> bytes:
        """So many bytes; fewer at the end of the file."""
        end = self._at + count
        if end > len(self._data):
            parts = [self._data[self._at :]]
            have = len(parts[0])
            while have < count and (piece := next(self._pieces, b"")):
                parts.append(piece)
                have += len(piece)
            self._before += self._at
            self._data, self._at = b"".join(parts), 0
            end = count
        read = self._data[self._at : end]
        self._at += len(read)
        return read

    def _int4(self, missing: str) -> int:
        number = self._read(4)
        if len(number) < 4:
            raise PgError(_BAD_FORMAT, missing)
        return int(_INT4.unpack(number)[0])

    def _header(self) -> None:
        """Reads the header of a binary file, and checks it (ReceiveCopyBinaryHeader)."""
        if self._read(len(_SIGNATURE)) != _SIGNATURE:
            raise PgError(_BAD_FORMAT, "COPY file signature not recognized")
        flags = self._int4("invalid COPY file header (missing flags)")
        if flags & _OIDS:
            raise PgError(_BAD_FORMAT, "invalid COPY file header (WITH OIDS)")
        if flags >> 16:
            raise PgError(_BAD_FORMAT, "unrecognized critical flags in COPY file header")
        missing = "invalid COPY file header (missing length)"
        length = self._int4(missing)
        if length < 0:
            raise PgError(_BAD_FORMAT, missing)
        if len(self._read(length)) < length:
            raise PgError(_BAD_FORMAT, "invalid COPY file header (wrong length)")

    def _ended(self) -> bool:
        """Whether the trailer or the end of the file stands where a row may begin (NextCopyFrom)."""
        number = self._read(2)
        if len(number) < 2:
            return True
        count = _INT2.unpack(number)[0]
        if count == -1:
            if self._read(1):
                raise PgError(_BAD_FORMAT, "received copy data after EOF marker")
            return True
        if count != len(self._columns):
            raise PgError(_BAD_FORMAT, f"row field count is {count}, expected {len(self._columns)}")
        return False

    def _field(self, number: int) -> Any:
        """The value of a field of a binary file (CopyReadBinaryAttribute)."""
        self._column = number
        size = self._int4("unexpected EOF in COPY data")
        if size == -1:
            read_null(self._columns[number].type, self._style)
            self._column = -1
            return None
        if size < 0:
            raise PgError(_BAD_FORMAT, "invalid field size")
        data = self._read(size)
        if len(data) < size:
            raise PgError(_BAD_FORMAT, "unexpected EOF in COPY data")
        message = BinaryMessage(data)
        value = self._receives[number](message, self._columns[number].typmod, self._style)
        if not message.is_read:
            raise PgError(INVALID, "incorrect binary data format")
        self._column = -1
        return value
