"""The copy of one table: its rows, in each form in which the publisher has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pgrepl.replication.wire.batch import SparkCopyRows
from pgrepl.replication.wire.copy_ranges import KeyRange, Snapshot
from pgrepl.replication.wire.messages import Row, SentRelation

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.catalog.session import Session
    from pgrepl.lake.kernels.copy import KernelSource
    from pgrepl.rows.staged import StagedRows


CountRows: TypeAlias = "Callable[[int, int], None]"  # counts more rows and their bytes
BeginCount: TypeAlias = "Callable[[], CountRows]"  # begins to count from zero


class DirectRows(Protocol):
    """Rows that can go into files of the lake as they are."""

    size: int  # in bytes

    def stage(
        self, session: Session, table: Relation, begins: BeginCount, check: Callable[[], None], *, on_spark: bool
    ) -> StagedRows:
        """The staged rows. Declined: they have to be converted or checked. `begins` is called by each attempt; `check`
        raises the error that ends the work."""
        ...


class LakeSources(Protocol):
    """Rows in the files of a lake."""

    @property
    def estimate(self) -> int:
        """About how many rows have to be read."""
        ...

    def sources(self) -> list[KernelSource]:
        """The tables with the rows, in order; Declined where the filter needs the publisher's session."""
        ...


@dataclass(frozen=True, slots=True)
class TableCopy:
    """The published rows of a table at one moment: everything that finishes before `lsn`."""

    relation: SentRelation
    lsn: int
    rows: Iterator[Row]
    spark: SparkCopyRows | None = None  # the rows as a DataFrame, if that is possible
    direct: DirectRows | None = None  # the rows for files of the lake, without Spark
    lake: LakeSources | None = None  # the rows for kernels over Arrow
    count: int | None = None  # the number of rows, if it is known beforehand
    snapshot: Snapshot | None = None  # in which ranges of the key were read
    may_be_binary: bool = True  # with binary = true (since 16; see copy_table)


@dataclass(frozen=True, slots=True)
class WantedRanges:
    """Ranges of a table's key to be copied, in a snapshot behind the transactions that have been received."""

    ranges: tuple[KeyRange, ...]
    passed: frozenset[int]  # XIDs of the last of these transactions


@dataclass(frozen=True, slots=True)
class Undivided:
    """A large table that is copied as a whole, and why."""

    reason: str
