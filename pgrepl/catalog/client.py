"""What a session asks of the client at its other end: the data of COPY FROM STDIN, a place for COPY TO STDOUT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class CopyData(Protocol):
    """What the client sends. It is read to its end, whatever becomes of the statement."""

    @property
    def path(self) -> str | None:
        """A file of this machine that holds the same, if there is one."""

    def __iter__(self) -> Iterator[bytes]:
        """The data in pieces. PgError if the client breaks off: what came before counts as sent."""


class CopyClient(Protocol):
    def copy_in(self, *, binary: bool) -> CopyData:
        """The statement is fine so far: send the rows. `binary` data is not looked through for its end."""

    def copy_out(self) -> CopySink:
        """Rows are coming."""


class CopySink(Protocol):
    def write(self, data: bytes, /) -> None: ...
