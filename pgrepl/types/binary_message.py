"""A message in the binary format of values, read from the front (pqformat.c)."""

from __future__ import annotations

import struct
from typing import Any

from pgrepl.errors import PgError
from pgrepl.types.encodings import codec, invalid, zero_byte

INVALID = "22P03"  # ERRCODE_INVALID_BINARY_REPRESENTATION


class BinaryMessage:
    """The bytes of one value that a receive function reads."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_read(self) -> bool:
        return self._at == len(self._data)

    @property
    def left(self) -> int:
        """The number of bytes not read yet."""
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count] if count >= 0 else b""
        if len(found) != count:
            raise PgError("08P01", "insufficient data left in message")
        self._at += count
        return found

    def octets(self, count: int = 1) -> int:
        """A number whose bytes are read one by one (pq_getmsgbyte)."""
        if count > self.left:
            raise PgError("08P01", "no data left in message")
        return int.from_bytes(self.take(count), "big")

    def unpack(self, form: str) -> Any:
        (value,) = struct.unpack("!" + form, self.take(struct.calcsize("!" + form)))
        return value

    def rest(self) -> bytes:
        return self.take(self.left)

    def text(self, encoding: str) -> str:
        """The rest as text (pq_getmsgtext)."""
        data = self.rest()
        before, zero, _ = data.partition(b"\0")
        try:
            text = before.decode(codec(encoding))
        except UnicodeDecodeError as error:
            raise invalid(data, error.start, encoding) from None
        if zero:
            raise zero_byte(encoding)
        return text

    def item(self) -> BinaryMessage | None:
        """An item behind its length, of an array or a record; None: NULL."""
        size = self.unpack("i")
        if size == -1:
            return None
        if not 0 <= size <= self.left:
            raise PgError(INVALID, "insufficient data left in message")
        return BinaryMessage(self.take(size))

    def end(self) -> None:
        """Raise an error unless all bytes have been read (pq_getmsgend)."""
        if not self.is_read:
            raise PgError("08P01", "invalid message format")
