"""The client of a session, as COPY FROM STDIN reads from it and COPY TO STDOUT writes to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol


class CopyData(Protocol):
    """The data that the client sends. It is read to its end, even when the statement fails."""

    @property
    def path(self) -> str | None:
        """A file of this machine with the same data, if there is one."""

    def __iter__(self) -> Iterator[bytes]:
        """The data in pieces. PgError if the client breaks off; the pieces before count as sent."""


class CopyClient(Protocol):
    def copy_in(self, *, binary: bool, columns: int) -> CopyData:
        """Ask the client for the rows (CopyInResponse). `binary` data is not searched for `\\.`."""

    def copy_out(self, *, binary: bool, columns: int) -> CopySink:
        """Tell the client that rows follow (CopyOutResponse)."""


class CopySink(Protocol):
    def write(self, data: bytes, /) -> None: ...

    def write_rows(self, rows: Sequence[bytes], /) -> None:
        """Write rows, of which each may be a message of its own."""

    def write_lines(self, lines: Any, /) -> None:
        """Write rows that are an Arrow array of large strings."""
