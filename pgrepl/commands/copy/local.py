"""COPY FROM carried out here, row by row as PostgreSQL does: for what is small.

PostgreSQL enters rows into unique indexes a thousand at a time. So a line that cannot be read may be complained of
before a duplicate key that stands further up; that is kept here.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pgrepl.commands.copy.encoding import decoded
from pgrepl.commands.copy.options import CopyOptions
from pgrepl.commands.copy.reader import Reader, is_placed, placed
from pgrepl.commands.copy.target import Target, default_values, one_by_one
from pgrepl.commands.dml.changes import Change, Kind
from pgrepl.commands.dml.checks import prepare
from pgrepl.commands.dml.keeper_write import write_changes
from pgrepl.errors import PgError
from pgrepl.expr.context import Context
from pgrepl.expr.evaluate import compile
from pgrepl.rows.checks_table import own

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.commands.copy.places import Incoming

# When PostgreSQL empties its buffer of rows (MAX_BUFFERED_TUPLES, MAX_BUFFERED_BYTES)
_BATCH_ROWS, _BATCH_BYTES = 1000, 65535


def load(session: Session, target: Target, options: CopyOptions, data: Incoming, *, from_client: bool) -> int:
    """Read, check and write all rows; how many there were."""
    rows = Rows(session, target, options, data, from_client=from_client)
    checks = prepare(session, target.relation, Kind.INSERT, frozenset(target.attnums))
    try:
        changes = checks.local(rows.changes(), entered=rows.entered)
    except PgError as error:
        raise rows.placed(error, checks.failed) from None
    rows.say_skipped()
    write_changes(session, changes)
    checks.after(changes)
    return len(changes)


class Rows:
    """The rows of a file as they come into the table, and which line each of them is from."""

    def __init__(
        self, session: Session, target: Target, options: CopyOptions, data: Incoming, *, from_client: bool
    ) -> None:
        self._session = session
        self._target = target
        self._options = options
        self._data = data
        self._from_client = from_client
        self._defaults = default_values(session, target)
        self._where = None
        if target.where is not None:
            self._where = compile(own(target.where, target.relation), Context(session))
        self._one_by_one = one_by_one(target, options)
        self._reader = self._new_reader()
        self._numbers = array("q")  # of the lines that the rows are from
        self._batches = array("q")  # how many rows there were each time PostgreSQL would have written them
        self._finished = False

    def _new_reader(self) -> Reader:
        attnums = self._target.attnums
        session, options = self._session, self._options
        return Reader(
            self._target.relation.name,
            self._target.copy_columns(),
            options,
            decoded(self._data, options.encoding or session.settings.get("client_encoding")),
            session.text_style,
            from_client=self._from_client,
            notice=lambda message, context: session.notice("NOTICE", message, context=context),
            default=lambda position: self._defaults[attnums[position]](),
        )

    def values(self) -> Iterator[tuple[Any, ...]]:
        """The rows by attribute number, with their defaults, that satisfy WHERE."""
        reader, where = self._reader, self._where
        width = len(self._target.relation.attributes)
        places = [number - 1 for number in self._target.attnums]
        left_out = [(number - 1, self._defaults[number]) for number, _ in self._target.left_out]
        as_read = places == list(range(width))
        for read in reader.rows():
            if as_read:
                row = tuple(read)
            else:
                row = self._complete(read, width, places, left_out)
            if where is not None and not self._satisfied(row):
                continue
            yield row

    def _complete(self, read: list[Any], width: int, places: list[int], left_out: list[Any]) -> tuple[Any, ...]:
        values: list[Any] = [None] * width
        for place, value in zip(places, read, strict=True):
            values[place] = value
        try:
            for place, default in left_out:
                values[place] = default()
        except PgError as error:
            raise self._reader.with_context(error) from None
        return tuple(values)

    def _satisfied(self, row: tuple[Any, ...]) -> bool:
        assert self._where is not None
        try:
            return self._where(row) is True
        except PgError as error:
            raise self._reader.with_context(error) from None

    def changes(self) -> Iterator[Change]:
        table, reader, numbers = self._target.relation.oid, self._reader, self._numbers
        rows = size = 0
        try:
            for row in self.values():
                numbers.append(reader.number)
                yield Change(table, new=row)
                rows, size = rows + 1, size + reader.size
                if rows >= _BATCH_ROWS or size >= _BATCH_BYTES:
                    self._batches.append(len(numbers))
                    rows = size = 0
        except PgError:
            self._finished = True
            raise
        self._finished = True

    def entered(self, failed: int) -> int:
        """How many rows are in their indexes when the row of this number fails."""
        if self._one_by_one:
            return failed
        batch = bisect_right(self._batches, failed)
        return self._batches[batch - 1] if batch else 0

    def placed(self, error: PgError, failed: int | None) -> PgError:
        """The error with its CONTEXT: one of a row that has just been read shows its line, one of an index may come
        when others have been read since."""
        if is_placed(error) or failed is None:
            return error
        if not self._finished and failed == len(self._numbers) - 1:
            return self._reader.with_context(error)
        number = self._numbers[failed]
        if not self._one_by_one:
            context = f"COPY {self._target.relation.name}, line {number}"
        else:
            context = self._context_of(number)
        return placed(error, context)

    def _context_of(self, number: int) -> str:
        """Read on to a line once more, to show it."""
        reader = self._new_reader()
        for _ in reader.lines():
            if reader.number >= number:
                break
        return reader.context()

    def say_skipped(self) -> None:
        count = self._reader.skipped
        if count:
            rows = "row was" if count == 1 else "rows were"
            self._session.notice("NOTICE", f"{count} {rows} skipped due to data type incompatibility")
