"""COPY FROM: the rows of a file, a program or the client go into a table (BeginCopyFrom, CopyFrom); small files row by
row, in this process.

PostgreSQL enters rows into unique indexes a thousand at a time. So it may report a line that cannot be read before a
duplicate key that stands further up; so does this module.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from pgrepl.catalog.facts.relation_parts import inheritors
from pgrepl.catalog.locks.lock_table import RelationMode
from pgrepl.catalog.session.transaction import DimensionsNeeded, require_writable
from pgrepl.engine import choice as engine_choice
from pgrepl.ground.errors import Declined, PgError
from pgrepl.query.result import Result
from pgrepl.rows.after_triggers import fire_triggers
from pgrepl.rows.changes import ModifiedRow, ModifyKind, write_changes
from pgrepl.rows.checks import prepare
from pgrepl.rows.locking import lock_tables, others_hold_locks
from pgrepl.rows.trigger_events import before_statement, fire_instead
from pgrepl.rows.triggers import TriggerEvent, inserts_one_by_one, refuse_triggers
from pgrepl.types.input_checks import codec
from pgrepl.writing.copy import load_spark
from pgrepl.writing.copy.copy_options import CopyOptions, check_freeze, check_target, copy_options
from pgrepl.writing.copy.endpoints import Incoming, check_place, incoming
from pgrepl.writing.copy.parquet_files import groups_of, parquet_groups
from pgrepl.writing.copy.parquet_source import ParquetSource
from pgrepl.writing.copy.reader import BATCH_BYTES, BATCH_ROWS, is_placed, placed
from pgrepl.writing.copy.source import BinarySource, TextSource
from pgrepl.writing.copy.target import CopyTarget, find_target, one_by_one, with_options
from pgrepl.writing.rewrite import check_unchanged, keep_as_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.sql.nodes import CopyStmt
    from pgrepl.writing.copy.source import RowSource


def copy_from(stmt: CopyStmt, session: Session) -> Result:
    check_place(session, stmt)
    prepared = _Prepared(session, stmt)
    target, options = prepared.now()
    if options.format == "parquet" and stmt.filename is not None and not stmt.program:
        return _finished(session, prepared, _parquet(session, stmt, stmt.filename))
    binary, columns = options.format in ("binary", "parquet"), len(target.columns)
    with incoming(session, stmt, binary=binary, columns=columns) as data:
        if options.format == "parquet":
            source = _parquet(session, stmt, data.as_file(), "STDIN" if stmt.filename is None else "PROGRAM")
        elif options.format == "binary":
            source = _binary(session, data)
        else:
            source = _text(session, stmt, data)
        while True:
            begun = session.transaction.numbering.begun
            try:
                done = _finished(session, prepared, source)
            except DimensionsNeeded as needed:
                check_unchanged(session, needed, begun)
                keep_as_text(session, needed)
                prepared = _Prepared(session, stmt)
            else:
                break
        data.finish()
    return done


def check_copy(session: Session, stmt: CopyStmt) -> None:
    """Raise if such a COPY would be refused whatever its rows are."""
    check_target(session, _prepared(session, stmt)[0].relation)


def copy_files(session: Session, stmt: CopyStmt, paths: Sequence[str]) -> int:
    """COPY FROM STDIN (FORMAT parquet) of Parquet files that this program has written; the number of rows."""
    prepared = _Prepared(session, stmt)
    groups = groups_of(paths)
    done = _finished(session, prepared, lambda to, _: ParquetSource(session, to, groups))
    return int((done.tag or "").rpartition(" ")[2])


def check(stmt: CopyStmt, session: Session) -> None:
    """The errors that COPY FROM has before it reads data."""
    check_place(session, stmt)
    target, options = _prepared(session, stmt)
    check_target(session, target.relation)
    if options.freeze:
        check_freeze(session, target.relation)


Opening: TypeAlias = "Callable[[CopyTarget, CopyOptions], RowSource]"


def _parquet(session: Session, stmt: CopyStmt, name: str, shown: str | None = None) -> Opening:
    """`shown`: how messages call data that have no file name, such as STDIN."""
    try:
        groups = parquet_groups(name)
    except PgError as error:
        if shown is not None:
            error.report = replace(error.report, message=error.report.message.replace(name, shown))
        raise
    return lambda target, options: ParquetSource(session, target, groups, shown)


def _binary(session: Session, data: Incoming) -> Opening:
    return lambda target, options: BinarySource(session, target, data)


def _text(session: Session, stmt: CopyStmt, data: Incoming) -> Opening:
    from_client = stmt.filename is None
    return lambda target, options: TextSource(session, target, options, data, from_client=from_client)


def _finished(session: Session, prepared: _Prepared, opening: Opening) -> Result:
    """Load the rows by the engine that fits. What the statement has seen of the catalog may change while the client is
    sending."""
    target, options = prepared.now()
    check_target(session, target.relation)
    if options.freeze:
        check_freeze(session, target.relation)
    source = opening(target, options)
    choice = _choice(session, source, by_kernels=source.is_columnar)
    count: int | None = None
    if choice.kernels:
        count = _by_engine(session, prepared, opening, choice, load_spark.stage_by_kernels, "columns")
        if count is None:
            choice = _choice(session, source, by_kernels=False)
    if count is None and choice.on_spark:
        count = _by_engine(session, prepared, opening, choice, load_spark.stage_by_spark, "Spark")
    if count is None:
        _take_locks(session, target)
        target, options = prepared.now()
        count = _load(session, opening(target, options), one_by_one=one_by_one(target, options))
    return Result(f"COPY {count}")


def _by_engine(
    session: Session,
    prepared: _Prepared,
    opening: Opening,
    choice: engine_choice.Choice,
    stage: load_spark.Stage,
    by: str,
) -> int | None:
    """The number of rows that kernels over Arrow or Spark load; None if another engine must do it."""
    try:
        count = load_spark.load(session, lambda: opening(*prepared.now()), partial(stage, on_spark=choice.on_spark))
    except Declined as reason:
        engine_choice.declined(session, "COPY", reason, f"COPY is not carried out by {by}")
        return None
    engine_choice.done(session, "COPY", choice.engine)
    return count


def _take_locks(session: Session, target: CopyTarget) -> None:
    """Take the catalog's write lock; or the table's lock, if other sessions hold locks or the transaction keeps its
    changes pending."""
    transaction = session.transaction
    if not transaction.keeps_pending:
        transaction.require_write()
        if not others_hold_locks(session):
            return
    lock_tables(session, inheritors(session, target.relation.oid), RelationMode.ROW_EXCLUSIVE)


def _choice(session: Session, source: RowSource, *, by_kernels: bool) -> engine_choice.Choice:
    def unfit() -> str:
        try:
            refuse_triggers(session, source.target.relation.oid, TriggerEvent.INSERT)
        except Declined as reason:
            return str(reason)
        return "" if source.target.relation.columns else "rows without columns"

    return engine_choice.choose_to_load(
        session, source.extent, unfit, by_kernels=by_kernels, in_parts=source.is_divided
    )


class _Prepared:
    """Target and options, as of the catalog's last change by another session."""

    def __init__(self, session: Session, stmt: CopyStmt) -> None:
        self._session, self._stmt = session, stmt
        self._look_up()

    def _look_up(self) -> None:
        self._found = _prepared(self._session, self._stmt)
        self._version = self._session.transaction.version

    def now(self) -> tuple[CopyTarget, CopyOptions]:
        transaction = self._session.transaction
        transaction.require_read()
        if self._version is None or transaction.version != self._version:
            self._look_up()
        return self._found


def _prepared(session: Session, stmt: CopyStmt) -> tuple[CopyTarget, CopyOptions]:
    """Target and options, checked as far as that needs no data."""
    target = find_target(session, stmt)
    if target.relation.persistence != "t":
        require_writable(session, "COPY FROM")
    options = replace(copy_options(stmt.options, is_from=True), release=session.settings.release)
    target = with_options(target, options)
    codec(options.encoding or session.settings.get("client_encoding"))
    return target, options


# --- row by row -------------------------------------------------------------------------------------------------------


def _load(session: Session, source: RowSource, *, one_by_one: bool) -> int:
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
    source.say_skipped()
    write_changes(session, changes[checks.written :])
    fire_triggers(session, checks, changes)
    return len(changes)


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
