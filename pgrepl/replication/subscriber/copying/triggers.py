"""An initial copy into a table with triggers, as COPY FROM does it, holding the write lock; and the CONTEXT of a copy's
errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Relation
from pgrepl.ground.errors import PgError
from pgrepl.replication.subscriber.apply.progress import Progress
from pgrepl.replication.subscriber.apply.target import IncorrectBinary, TargetTable
from pgrepl.replication.subscriber.apply.triggers import AppliedOrigin
from pgrepl.replication.wire.messages import Row, SentRelation
from pgrepl.replication.wire.values import WIRE_STYLE
from pgrepl.rows.after_triggers import fire_triggers
from pgrepl.rows.changes import ModifiedRow, ModifyKind
from pgrepl.rows.checks import prepare
from pgrepl.rows.trigger_events import before_statement
from pgrepl.rows.triggers import TriggerEvent, inserts_one_by_one
from pgrepl.rows.write import write_changes
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_ESCAPES = str.maketrans({"\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"})
_SHOWN = 100  # bytes of a line that a CONTEXT shows


class Lines:
    """The CONTEXT of an error: its line of COPY's data (CopyFromErrorCallback). Binary data are not shown."""

    def __init__(self, table: str, sent: SentRelation, *, binary: bool) -> None:
        self.binary = binary
        self._table = table
        self._columns = sent.columns

    def of_number(self, error: PgError, line: int, more: str = "") -> PgError:
        error.report = replace(error.report, position=None)
        return error.with_context(f"COPY {self._table}, line {line}{more}")

    def of_row(self, error: PgError, line: int, row: Row) -> PgError:
        if self.binary:
            return self.of_number(error, line)
        text = "\t".join(_field(value, column.type) for value, column in zip(row, self._columns, strict=True))
        return self.of_number(error, line, f': "{_limited(text)}"')

    def of_column(self, error: PgError, line: int, name: str | None, row: Row) -> PgError:
        if isinstance(error, IncorrectBinary):
            error = PgError(error.sqlstate, "incorrect binary data format")
        for value, column in zip(row, self._columns, strict=True):
            if column.name == name:
                shown = "" if self.binary else f': "{_limited(write_text(value, column.type, WIRE_STYLE))}"'
                return self.of_number(error, line, f", column {name}{shown}")
        return self.of_number(error, line)


def _field(value: object, typoid: int) -> str:
    """The value in COPY's text format, which PostgreSQL's worker receives."""
    return "\\N" if value is None else write_text(value, typoid, WIRE_STYLE).translate(_ESCAPES)


def _limited(text: str) -> str:
    raw = text.encode()
    return text if len(raw) <= _SHOWN else raw[:_SHOWN].decode(errors="ignore") + "..."


# --- copy triggers ----------------------------------------------------------------------------------------------------


def _portions(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    """The rows in portions. Those before a failure of the publisher come first."""
    found: list[Row] = []
    try:
        for row in rows:
            found.append(row)
            if len(found) == size:
                yield found
                found = []
    except PgError:
        yield found
        raise
    if found:
        yield found


def load(
    session: Session,
    table: Relation,
    rows: Iterator[Row],
    sent: SentRelation,
    lines: Lines,
    origin: str,
    portion_read: Callable[[list[Row]], None],
    portion: int,
) -> int:
    """Insert the rows, and write them; returns their number. `portion_read` is told of each `portion` of rows."""
    progress = Progress("")
    target = TargetTable(session, sent, progress, binary=lines.binary)
    checks = prepare(session, table, ModifyKind.INSERT)
    read: list[Row] = []  # the portion that is being inserted
    count = 0  # of rows before it and the present one
    one_by_one = inserts_one_by_one(session, table)

    def changes() -> Iterator[ModifiedRow]:
        nonlocal read, count
        for read in _portions(rows, portion):
            for row in read:
                count += 1
                try:
                    stored = target.complete(target.store(row))
                except PgError as error:
                    raise lines.of_column(error, count, progress.column, row) from None
                yield ModifiedRow(table.oid, new=stored)
            portion_read(read)

    def placed(error: PgError) -> PgError:
        failed = checks.failed
        if failed is None or (error.report.context is not None and error.report.context.startswith("COPY ")):
            return error
        first = (count - 1) // portion * portion  # of the rows that are still there
        if failed < first or (not one_by_one and (failed != count - 1 or error.sqlstate == "23505")):
            return lines.of_number(error, failed + 1)
        return lines.of_row(error, failed + 1, read[failed - first])

    before, session.origin = session.origin, AppliedOrigin(origin, 0)
    try:
        before_statement(session, table, TriggerEvent.INSERT, frozenset(), checks.begun)
        try:
            # nothing is read ahead: the rows come from no table here
            done = checks.local(changes(), entered=lambda number: number)
        except PgError as error:
            raise placed(error) from None
        write_changes(session, done[checks.written :])
        fire_triggers(session, checks, done)
        session.transaction.numbering.store_snapshot()
    finally:
        session.origin = before
    return count
