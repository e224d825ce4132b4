"""COPY FROM carried out in this process, row by row as PostgreSQL does: for small files.

PostgreSQL enters rows into unique indexes a thousand at a time. So it may report a line that cannot be read before a
duplicate key that stands further up; so does this module.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgrepl.ground.errors import PgError
from pgrepl.rows.after_triggers import fire_triggers
from pgrepl.rows.changes import ModifiedRow, ModifyKind
from pgrepl.rows.checks import prepare
from pgrepl.rows.trigger_events import before_statement, fire_instead
from pgrepl.rows.triggers import TriggerEvent, inserts_one_by_one
from pgrepl.rows.write import write_changes
from pgrepl.writing.copy.reader import is_placed, placed

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.writing.copy.source import RowSource

# When PostgreSQL empties its buffer of rows (MAX_BUFFERED_TUPLES, MAX_BUFFERED_BYTES)
BATCH_ROWS, BATCH_BYTES = 1000, 65535


def load(session: Session, source: RowSource, *, one_by_one: bool) -> int:
    """Read, check and write all rows; returns their number. `one_by_one`: PostgreSQL would insert each before it reads
    the next."""
    target = source.target
    checks = prepare(session, target.relation, ModifyKind.INSERT, frozenset(target.attnums))
    alone = target.relation.kind == "v" or inserts_one_by_one(session, target.relation) or checks.has_before_triggers()
    rows = _Entering(source, one_by_one=one_by_one or alone)
    try:
        before_statement(session, target.relation, TriggerEvent.INSERT, frozenset(), checks.begun)
        with rows.telling_the_line(session):
            if target.relation.kind == "v":
                changes = fire_instead(session, checks, rows.changes())
            else:
                changes = checks.local(rows.changes(), entered=rows.entered)
    except PgError as error:
        raise rows.placed(error, checks.failed) from None
    say_skipped(session, source)
    write_changes(session, changes[checks.written :])
    fire_triggers(session, checks, changes)
    return len(changes)


def say_skipped(session: Session, source: RowSource) -> None:
    count = source.skipped
    if count and source.verbosity != "silent":
        rows = "row was" if count == 1 else "rows were"
        session.notice("NOTICE", f"{count} {rows} skipped due to data type incompatibility")


class _Entering:
    """The rows on their way into the table, and which line each of them is from."""

    def __init__(self, source: RowSource, *, one_by_one: bool) -> None:
        self._source = source
        self._one_by_one = one_by_one
        self._numbers = array("q")  # of the lines that the rows are from
        self._batches = array("q")  # how many rows there were each time PostgreSQL would have written them
        self._finished = False

    def changes(self) -> Iterator[ModifiedRow]:
        table, source, numbers = self._source.target.relation.oid, self._source, self._numbers
        rows = size = 0
        try:
            for row in source.rows():
                numbers.append(source.number)
                yield ModifiedRow(table, new=row)
                rows, size = rows + 1, size + source.size
                if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                    self._batches.append(len(numbers))
                    rows = size = 0
        except PgError:
            self._finished = True
            raise
        self._finished = True

    @contextmanager
    def telling_the_line(self, session: Session) -> Iterator[None]:
        """Messages of triggers have the line in their CONTEXT, where it is the one that was read last."""
        depth = len(session.contexts)
        if self._one_by_one:
            session.contexts.append(self._source.place)
        try:
            yield
        finally:
            del session.contexts[depth:]

    def entered(self, failed: int) -> int:
        """The number of rows that are in their indexes when the row of this number fails."""
        if self._one_by_one:
            return failed
        batch = bisect_right(self._batches, failed)
        return self._batches[batch - 1] if batch else 0

    def placed(self, error: PgError, failed: int | None) -> PgError:
        """The error with its CONTEXT. An error in the row read last shows its line; a duplicate key may be found when
        more rows have been read."""
        if is_placed(error) or failed is None or failed >= len(self._numbers):
            return error
        if not self._finished and failed == len(self._numbers) - 1:
            return placed(error, self._source.place())
        number = self._numbers[failed]
        return placed(error, self._source.text_of(number) if self._one_by_one else self._source.place(number))
