"""One file of changes, opened: a checksum of the bytes that were read, and whether the last line is complete."""

from __future__ import annotations

import io
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from pgrepl.ground.errors import PgError
from pgrepl.lake import storage
from pgrepl.replication.formats.json_text import MAX_RECORD, decompressed
from pgrepl.replication.publisher.files.listing import ListedFile
from pgrepl.replication.publisher.files.memory import NumberedFile, ReadFile, changed

if TYPE_CHECKING:
    from typing_extensions import Buffer

_POLYNOMIAL = 0xEDB88320


def combined(first: int, second: int, size: int) -> int:
    """The checksum of bytes with the checksum `first`, and behind them `size` bytes with the checksum `second`.

    >>> import zlib
    >>> combined(zlib.crc32(b"first"), zlib.crc32(b"second"), 6) == zlib.crc32(b"firstsecond")
    True
    """
    one_bit = [_POLYNOMIAL, *[1 << n for n in range(31)]]  # what a zero bit behind does, a column for each bit
    operator = _squared(_squared(_squared(one_bit)))  # a byte
    while size:
        if size & 1:
            first = _applied(operator, first)
        operator = _squared(operator)
        size >>= 1
    return first ^ second


def _applied(matrix: list[int], vector: int) -> int:
    """The product over bits."""
    product = 0
    for n in range(32):
        if vector >> n & 1:
            product ^= matrix[n]
    return product


def _squared(matrix: list[int]) -> list[int]:
    return [_applied(matrix, column) for column in matrix]


# --- source -----------------------------------------------------------------------------------------------------------


_PIECE = 1 << 20
_AHEAD = 1 << 16
_PARQUET = b"PAR1"


class OpenedFile(Protocol):
    """A file, or some of its lines, opened."""

    content: BinaryIO

    @property
    def ends_within_line(self) -> bool: ...

    def skip_lines(self, count: int) -> int: ...

    def what_was_read(self) -> ReadFile: ...

    def close(self) -> None: ...


class OpenSource:
    """A file as it was when it was listed: bytes that are written behind its end meanwhile are not read."""

    def __init__(self, numbered: NumberedFile) -> None:
        self._numbered = numbered
        file = numbered.file
        with storage.reading(file.path):
            raw = storage.open_input(file.path)
            start = bytes(raw.read(len(_PARQUET)))
            raw.seek(0)
        self._raw = raw
        self._part = _Part(raw, file.size, file.shown)
        self.is_random = start == _PARQUET
        self._tail: _Tail | None = None
        if self.is_random:
            self.content = cast(BinaryIO, raw)
        else:
            self._tail = _Tail(decompressed(cast(BinaryIO, io.BufferedReader(self._part, _PIECE)), file.shown))
            self.content = cast(BinaryIO, io.BufferedReader(self._tail, _PIECE))

    @property
    def ends_within_line(self) -> bool:
        """Once all has been read: whether a line end is missing."""
        return self._tail is not None and self._tail.last not in (b"", b"\n")

    def skip_lines(self, count: int) -> int:
        """Skip lines from the beginning, without looking into them; returns how many."""
        if self.is_random or count <= 0:
            return 0
        return _skip_lines(cast(io.BufferedReader, self.content), count)

    def what_was_read(self) -> ReadFile:
        part, file = self._part, self._numbered.file
        if self.is_random and part.position < file.size:
            with storage.reading(file.path), storage.open_input(file.path) as again:
                part = self._part = _Part(again, file.size, file.shown)
                while part.read(_PIECE):
                    pass
        return ReadFile(self._numbered.number, file.name, file.size, file.modified, part.position, part.checksum)

    def close(self) -> None:
        with suppress(OSError):
            self.content.close()
            self._raw.close()


class LineRange:
    """The lines of a file that begin from byte `start` on and before byte `end`."""

    def __init__(self, file: ListedFile, start: int, end: int) -> None:
        self._file = file
        ahead = 1 if start else 0  # the byte in front of them says whether a line begins with them
        with storage.reading(file.path), storage.open_input(file.path) as raw:
            raw.seek(start - ahead)
            data = bytes(raw.read(end - start + ahead))
            if len(data) < end - start + ahead:
                raise PgError("58030", f'could not read file "{file.shown}": it has become shorter')
            self.checksum = zlib.crc32(memoryview(data)[ahead:])
            first = data.find(b"\n") + 1 if start else 0
            has_lines = first > 0 or not start
            if has_lines and first < len(data):
                lines = data[first:] + _rest_of_line(raw, data, file.size - end)
            else:
                lines = b""
        self._size = end - start
        self.count = lines.count(b"\n") + (lines[-1:] not in (b"", b"\n"))
        self._is_cut = lines[-1:] not in (b"", b"\n")
        self.content = cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, io.BytesIO(lines)), _PIECE))

    @property
    def ends_within_line(self) -> bool:
        return self._is_cut

    def skip_lines(self, count: int) -> int:
        return _skip_lines(cast(io.BufferedReader, self.content), count)

    def what_was_read(self) -> ReadFile:
        """The bytes of the range, not those of its last line behind it."""
        file = self._file
        return ReadFile(0, file.name, file.size, file.modified, self._size, self.checksum)

    def close(self) -> None:
        self.content.close()


def _rest_of_line(raw: Any, data: bytes, size: int) -> bytes:
    """The rest of the last line, of at most `size` bytes; not more than what is no line any more."""
    pieces = [b""]
    left = min(size, MAX_RECORD + 1)
    while left and not data.endswith(b"\n"):
        more = bytes(raw.read(min(_AHEAD, left)))
        end = more.find(b"\n") + 1
        pieces.append(more[:end] if end else more)
        if end or not more:
            break
        left -= len(more)
    return b"".join(pieces)


def _skip_lines(content: io.BufferedReader, count: int) -> int:
    if content.peek(1)[:1] == b"[":  # a document that goes over lines
        return 0
    left = count
    while left:
        seen = content.peek(1)
        if not seen:
            break
        ends = seen.count(b"\n")
        if ends < left:
            content.read(len(seen))
            left -= ends
        else:
            at = -1
            for _ in range(left):
                at = seen.index(b"\n", at + 1)
            content.read(at + 1)
            left = 0
    return count - left


def check(numbered: NumberedFile) -> None:
    """Raise unless what was read of a file is still there, byte by byte."""
    known, file = numbered.known, numbered.file
    if known is None or known.is_accepted or known.is_same(file):
        return
    if file.size < known.checked:
        raise _changed(numbered)
    with storage.reading(file.path), storage.open_input(file.path) as raw:
        part = _Part(raw, known.checked, file.path)
        while part.read(_PIECE):
            pass
    if part.checksum != known.checksum:
        raise _changed(numbered)


def _changed(numbered: NumberedFile) -> PgError:
    file = numbered.file
    if file.label:  # of pgrepl apply --from
        return PgError(
            "55000",
            f'"{file.label}" is not the batch that was interrupted',
            detail="Some of its transactions are applied already.",
            hint="Give the same batch again; it goes on where it was interrupted.",
        )
    return changed(file.name)


class _Part(io.RawIOBase):
    """The first bytes of a file, with their checksum."""

    def __init__(self, file: BinaryIO, size: int, name: str) -> None:
        self._file = file
        self._left = size
        self._name = name
        self.position = 0
        self.checksum = 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Buffer) -> int:
        view = memoryview(into).cast("B")[: self._left]
        with storage.reading(self._name):
            count = self._file.readinto(view)  # type: ignore[attr-defined]
        if not count and self._left:
            raise PgError("58030", f'could not read file "{self._name}": it has become shorter')
        self._left -= count
        self.position += count
        self.checksum = zlib.crc32(view[:count], self.checksum)
        return int(count)


class _Tail(io.RawIOBase):
    """A stream that knows its last byte."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.last = b""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Buffer) -> int:
        view = memoryview(into).cast("B")
        count = int(self._file.readinto(view))  # type: ignore[attr-defined]
        if count:
            self.last = bytes(view[count - 1 : count])
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
