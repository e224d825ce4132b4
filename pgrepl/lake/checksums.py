"""Checksums of files and of the catalog's rows about them (CRC-32), kept in pgrepl_file.

Parquet's pages have checksums of their own, but not a file's footer, nor does anything tell a file from another one of
the same size. So the catalog keeps two checksums of each file that pgrepl writes: of the footer, compared whenever the
file is read, and of the whole file, compared by `pgrepl verify` and before VACUUM writes rows anew. A third one is of
DuckLake's row about the file.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.lake import storage

if TYPE_CHECKING:
    from pgrepl.lake.data_file import DataFile, DeleteFile

IDENTITY = "pgrepl.file"  # the key under which a file's footer has its name: footers of different files differ
_PORTION = 1 << 22


class SummedOutput:
    """A stream to a new file, for pyarrow to write to, with the checksum of its bytes."""

    def __init__(self, path: str) -> None:
        self._stream = storage.open_output(path)
        self.checksum = 0

    def write(self, data: Any) -> int:
        self.checksum = zlib.crc32(data, self.checksum)
        return int(self._stream.write(data) or len(data))

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)


def of_file(path: str) -> int:
    """The checksum of a whole file."""
    checksum = 0
    with storage.reading(path), storage.open_input(path) as file:
        while data := file.read(_PORTION):
            checksum = zlib.crc32(data, checksum)
    return checksum


def compare(file: DataFile | DeleteFile) -> None:
    """Raise XX001 if the file has another checksum than the catalog; without one it is not compared."""
    if file.checksum is None:
        return
    found = of_file(file.path)
    if found != file.checksum:
        raise PgError(
            "XX001",
            f'could not read file "{file.path}"',
            detail=f"It has checksum {found:08x} instead of {file.checksum:08x}.",
        )
