"""The published rows of tables at one LSN, for comparing a subscriber with its publisher (replication/comparison)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from pgrepl.ground.frozen import frozen
from pgrepl.replication.wire.messages import SentRelation

if TYPE_CHECKING:
    from pgrepl.engine.run_kernels import KernelSource
    from pgrepl.replication.publisher.tables import KeyRange


@frozen
class HashedPiece:
    """The number of rows of a piece, and the sum of their hashes."""

    number: int
    count: int
    total: int


class HashingServer(Protocol):
    """A table of a server, which hashes its rows itself. `hash`: the expression for a row's."""

    def identifier(self, name: str) -> str: ...

    def divide(self, key: Sequence[str], size: int) -> list[KeyRange] | None:
        """Ranges of a key with about so many rows each; None: its index does not give them quickly."""

    def digests_of_ranges(self, hash: str, wanted: Sequence[tuple[int, KeyRange]]) -> Iterator[HashedPiece]:
        """Those of some ranges, with their numbers, in any order: one query each."""

    def digests_by_bits(self, hash: str, mask: int) -> Iterator[HashedPiece]:
        """Those of all rows, by some bits of their hashes: one query."""

    def rows_of_ranges(self, hash: str, wanted: Sequence[KeyRange]) -> Iterator[tuple[int, tuple[str | None, ...]]]:
        """The hashes and the texts of the rows of some ranges."""

    def rows_by_bits(
        self, hash: str, mask: int, wanted: Sequence[int]
    ) -> Iterator[tuple[int, tuple[str | None, ...]]]: ...

    def stop(self) -> None:
        """End what the server computes, for good; called from another thread."""
        ...


class TableAtLsn(Protocol):
    """The published rows of a table at one LSN, each as texts of the relation's columns. One of `server` and `lake` is
    there."""

    relation: SentRelation  # with all values as text
    sent: SentRelation  # with the types of its columns; a server's is `relation`
    key: tuple[str, ...]  # the replica identity's columns; none: it is the whole row, or nothing
    estimate: int  # about how many rows there are
    server: HashingServer | None  # None: its rows are in a lake, or the server hashes in another way

    def sources(self) -> list[KernelSource]:
        """The rows for kernels, if they are in a lake; Declined."""

    def texts(self) -> Iterator[tuple[str | None, ...]]:
        """All rows."""


class TablesAtLsn(Protocol):
    """Everything that finishes before `lsn`."""

    lsn: int

    def table(self, schema: str, name: str, publications: Sequence[str]) -> TableAtLsn: ...

    def close(self) -> None: ...


@frozen
class Limits:
    """What a server may be asked to bear. `timeout`: seconds for which open transactions are waited for."""

    connections: int
    rows_per_second: int | None
    timeout: float


class Comparing(Protocol):
    """What a publisher can be asked for a comparison."""

    knows_past: bool  # whether tables can be read as of any LSN, or only as they are now

    def begin(self, lsn: int, limits: Limits, slot: str = "") -> TablesAtLsn:
        """The tables as of `lsn`, or as of now. `slot`: one that is made there, and stays."""


class Pace:
    """Holds a server's readers to so many rows a second together."""

    def __init__(self, rows_per_second: int | None) -> None:
        self._rate = rows_per_second
        self._free = time.monotonic()  # when the next rows may be read
        self._lock = threading.Lock()
        self._over = threading.Event()

    def stop(self) -> None:
        """Nobody waits any more."""
        self._over.set()

    def read(self, rows: int) -> None:
        """Wait until as many rows may be read as have been."""
        if not self._rate:
            return
        with self._lock:
            now = time.monotonic()
            self._free = max(self._free, now) + rows / self._rate
            wait = self._free - now
        self._over.wait(wait)
