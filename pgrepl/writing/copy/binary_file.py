r"""The file of COPY (FORMAT binary): `PGCOPY\n\377\r\n\0`, flags, an extension, rows, -1.

A row is the number of its fields, and each field's length with the bytes of its type's send function (types/binary.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pgrepl.errors import PgError
from pgrepl.types.binary import BinaryMessage, check_function, receiver, sender
from pgrepl.types.binary_message import INVALID
from pgrepl.types.style import TextStyle
from pgrepl.types.text import read_null
from pgrepl.writing.copy.reader import CopyColumn, placed

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
        found = self._data[self._at : end]
        self._at += len(found)
        return found

    def _int4(self, missing: str) -> int:
        found = self._read(4)
        if len(found) < 4:
            raise PgError(_BAD_FORMAT, missing)
        return int(_INT4.unpack(found)[0])

    def _header(self) -> None:
        """As ReceiveCopyBinaryHeader does."""
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
        found = self._read(2)
        if len(found) < 2:
            return True
        count = _INT2.unpack(found)[0]
        if count == -1:
            if self._read(1):
                raise PgError(_BAD_FORMAT, "received copy data after EOF marker")
            return True
        if count != len(self._columns):
            raise PgError(_BAD_FORMAT, f"row field count is {count}, expected {len(self._columns)}")
        return False

    def _field(self, number: int) -> Any:
        """As CopyReadBinaryAttribute does."""
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
