"""Files of changes, compressed or not. How a file is compressed is told by its first bytes, not by its name."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, cast

from pgrepl.errors import PgError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LONGEST = 6
_READ_AHEAD = 1 << 20
MAX_RECORD = 1 << 28  # bytes of one record; more is no record but a file of another kind


def open_file(path: str) -> BinaryIO:
    """A file of this machine, decompressed."""
    try:
        return decompressed(open(path, "rb"), path)
    except OSError as problem:
        raise unreadable(path, problem) from None


def decompressed(file: BinaryIO, name: str) -> BinaryIO:
    """The content of a file: gzip, zstd, bzip2, xz and lz4 are decompressed, all else is as it is. A file that is not
    compressed can be sought in if `file` can."""
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(_Raw(file), _READ_AHEAD)
    try:
        start = buffered.peek(_LONGEST)[:_LONGEST]
    except OSError as problem:
        raise unreadable(name, problem) from None
    for magic, opened in _KINDS.items():
        if start.startswith(magic):
            return _in_utf8(io.BufferedReader(_Decompressed(opened(buffered), name), _READ_AHEAD), name)
    return _in_utf8(buffered, name)


def _in_utf8(file: io.BufferedReader, name: str) -> io.BufferedReader:
    """The file behind its byte order mark, if it has one."""
    start = file.peek(len(codecs.BOM_UTF8))
    if start.startswith(codecs.BOM_UTF8):
        file.read(len(codecs.BOM_UTF8))
    elif start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise PgError("22021", f'file "{name}" is encoded in UTF-16 or UTF-32', hint="Convert it to UTF-8.")
    return file


def unreadable(name: str, problem: OSError) -> PgError:
    return PgError("58P01", f'could not open file "{name}" for reading: {problem.strerror or problem}')


def lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers from 1, without their ends; a line is never larger than MAX_RECORD."""
    number = 0
    while True:
        line = read_line(file, name, number + 1)
        if not line:
            return
        number += 1
        yield number, line.rstrip(b"\r\n")


def read_line(file: BinaryIO, name: str, number: int) -> bytes:
    """The next line with its end; nothing at the end of the file."""
    line = file.readline(MAX_RECORD + 1)
    if len(line) > MAX_RECORD:
        raise PgError("54000", f"could not read {name}, record {number}: it is larger than {MAX_RECORD >> 20} MB")
    return line


# --- decompression ----------------------------------------------------------------------------------------------------


def _gzip(file: BinaryIO) -> BinaryIO:
    import gzip

    return cast(BinaryIO, gzip.GzipFile(fileobj=file))


def _bzip2(file: BinaryIO) -> BinaryIO:
    import bz2

    return cast(BinaryIO, bz2.BZ2File(file))


def _xz(file: BinaryIO) -> BinaryIO:
    import lzma

    return cast(BinaryIO, lzma.LZMAFile(file))


def _by_arrow(codec: str) -> Callable[[BinaryIO], BinaryIO]:
    def opened(file: BinaryIO) -> BinaryIO:
        import pyarrow as pa

        return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(file, "r"), codec))

    return opened


_KINDS: dict[bytes, Callable[[BinaryIO], BinaryIO]] = {
    b"\x1f\x8b": _gzip,
    b"BZh": _bzip2,
    b"\xfd7zXZ\0": _xz,
    b"\x28\xb5\x2f\xfd": _by_arrow("zstd"),
    b"\x04\x22\x4d\x18": _by_arrow("lz4"),
}


class _Raw(io.RawIOBase):
    """Any object with `read` as a raw stream, such as standard input or a file of an object store."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        seekable = getattr(self._file, "seekable", None)
        return bool(seekable is not None and seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, into: Buffer) -> int:
        view = memoryview(into).cast("B")
        found = self._file.read(len(view))
        view[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Decompressed(_Raw):
    """A decompressed stream whose errors name the file."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        super().__init__(file)
        self._name = name

    def seekable(self) -> bool:
        return False

    def readinto(self, into: Buffer) -> int:
        import lzma
        import zlib

        try:
            return super().readinto(into)
        except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as problem:
            raise PgError("58030", f'could not decompress file "{self._name}": {problem}') from None
