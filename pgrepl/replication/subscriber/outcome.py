"""The outcome of a batch, for the apply worker's log, its statistics and its observer."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.errors import PgError
from pgrepl.frozen import frozen

# the kinds of conflicts that PostgreSQL 18 counts (ConflictType)
CONFLICTS = (
    "insert_exists", "update_origin_differs", "update_exists", "update_missing", "delete_origin_differs",
    "delete_missing", "multiple_unique_conflicts",
)  # fmt: skip


@frozen
class Applied:
    """The number of applied transactions and changes, and the end of the last of them."""

    transactions: int
    changes: int
    end_lsn: int
    error: PgError | None = None  # of the transaction that comes next
    passed: int = 0  # changes among these that were skipped, or that the copies of their tables have

    def failed(self, error: PgError) -> Applied:
        return replace(self, error=error)


@frozen
class Streamed:
    """A batch from `start` on: `upto` is the requested end, `reached` the end of this batch."""

    start: int
    upto: int
    reached: int
    applied: Applied

    @property
    def finished(self) -> bool:
        return self.applied.error is not None or self.reached >= self.upto
