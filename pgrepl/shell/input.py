"""Lines of a script as psql reads them with C's fgets: any bytes, cut at a NUL, the last one with or without its
line end."""

from __future__ import annotations

import sys
from typing import IO, BinaryIO

from pgrepl.frozen import frozen
from pgrepl.shell import charset

_CHUNK = 1023  # the size of psql's reads; a NUL hides the rest of its chunk


class ReadFailure(Exception):
    """The operating system's reason why no line could be read."""


class LineReader:
    """A file of commands, in the client's encoding."""

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
                return charset.decoded(line) if line else None
            if b"\0" in read:
                read = b"".join(read[at : at + _CHUNK].partition(b"\0")[0] for at in range(0, len(read), _CHUNK))
            line += read
            if line.endswith(b"\n"):
                return charset.decoded(line[:-1])


_STDIN: list[LineReader] = []


def standard_input() -> LineReader:
    """The one reader of standard input, so that its buffer is shared."""
    if not _STDIN:
        file = sys.stdin.buffer if sys.stdin is not None else open(0, "rb", closefd=False)  # noqa: SIM115
        _STDIN.append(LineReader(file))
    return _STDIN[0]


@frozen
class CopySource:
    """The source of the rows of COPY FROM STDIN."""

    file: IO[bytes]
    own: bool  # it is the source of the commands, too, so that its lines are counted
    path: str | None = None

    @property
    def is_terminal(self) -> bool:
        return self.file.isatty()
