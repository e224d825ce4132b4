"""The outcome of a batch, for the apply worker's log, its statistics and its observer."""

from __future__ import annotations

import re
from dataclasses import replace

from pgrepl.errors import PgError, Report
from pgrepl.frozen import frozen

_UNIQUE_VIOLATION, _NOTHING = "23505", "00000"
_COUNTERS = {  # by the SQLSTATE of what is reported, and the kind of the message
    (_UNIQUE_VIOLATION, "INSERT"): "confl_insert_exists",
    (_UNIQUE_VIOLATION, "UPDATE"): "confl_update_exists",
    (_NOTHING, "UPDATE"): "confl_update_missing",
    (_NOTHING, "DELETE"): "confl_delete_missing",
}
CONFLICTS = tuple(_COUNTERS.values())
_MESSAGE = re.compile(r'during message type "(\w+)"')


def conflict_of(report: Report) -> str | None:
    """The counter of the conflict that an error of the apply worker is, or its message about a row that was not found
    (ConflictType)."""
    found = _MESSAGE.search(report.context or "")
    return None if found is None else _COUNTERS.get((report.sqlstate, found[1]))


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
