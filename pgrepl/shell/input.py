"""Lines of a script, as C's fgets gives them to psql: any bytes, cut at a NUL, the last one perhaps without its end."""

from __future__ import annotations

import sys
from typing import IO, BinaryIO

from pgrepl.frozen import frozen

_CHUNK = 1023  # what psql reads at a time; a NUL hides the rest of its chunk


class ReadFailure(Exception):
    """The operating system's reason why no line could be read."""


class LineReader:
    """A file of commands. Bytes that are no UTF-8 become lone surrogates, which the way out turns back."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def read_line(self) -> str | None:
        """The next line without its line end; None at the end of the file."""
        line = b""
        while True:
            try:
                read = self.file.readline()
            except OSError as error:
                raise ReadFailure(error.strerror or str(error)) from error
            if not read:
                return line.decode("utf-8", "surrogateescape") if line else None
            if b"\0" in read:
                read = b"".join(read[at : at + _CHUNK].partition(b"\0")[0] for at in range(0, len(read), _CHUNK))
            line += read
            if line.endswith(b"\n"):
                return line[:-1].decode("utf-8", "surrogateescape")


_STDIN: list[LineReader] = []


def standard_input() -> LineReader:
    """Always the same one: what one reader has buffered belongs to the next as well."""
    if not _STDIN:
        file = sys.stdin.buffer if sys.stdin is not None else open(0, "rb", closefd=False)  # noqa: SIM115
        _STDIN.append(LineReader(file))
    return _STDIN[0]


@frozen
class CopySource:
    """Where the rows of COPY FROM STDIN come from."""

    file: IO[bytes]
    own: bool  # it is where the commands come from, too: its lines are counted
    path: str | None = None

    @property
    def is_terminal(self) -> bool:
        return self.file.isatty()
