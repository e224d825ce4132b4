"""Running a query string, as the simple-query protocol does (exec_simple_query in postgres.c).

The whole string is parsed first. Several statements in one string are one implicit transaction: they commit together at
its end, unless BEGIN, COMMIT or ROLLBACK among them say otherwise. An error ends the string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from pgrepl.catalog.session.context import Block
from pgrepl.catalog.session.transaction import (
    DimensionsNeeded,
    LockNeeded,
    aborted,
    is_read_only,
    reading,
    require_writable,
)
from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError
from pgrepl.query import timeouts
from pgrepl.query.result import Result, StreamedRows
from pgrepl.sql.nodes import SelectStmt
from pgrepl.sql.parser import parse
from pgrepl.sql.scanner import parameter_count
from pgrepl.sql.statements import command_tag, ends_block, kind_of
from pgrepl.statements.utility import execute
from pgrepl.types.input_checks import invalid_utf8, stack_depth_exceeded, text_to_bytes, use_the_stack

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Parameter, Session
    from pgrepl.sql.nodes import ExecuteStmt, RawStmt, Statement
    from pgrepl.statements.prepared import PreparedStatement


Done = TypeVar("Done")
Execute: TypeAlias = "Callable[[Statement, Session], Result]"


def run(session: Session, text: str, execute: Execute = execute) -> Iterator[Result]:
    """Run the statements of a string one after the other. A PgError ends it, with the transaction undone or aborted.
    `execute` carries out a statement: really, or as a rehearsal (statements/rehearse.py).

    Timeouts count for each statement anew; the first one's time includes reading the string."""
    _begin(session, text)
    with _timed(session):
        statements = _parsed(session, text)
        several = len(statements) > 1
        result = (
            _run_one(session, statements[0].stmt, execute, implicit=several, last=not several) if statements else None
        )
    if result is not None:
        yield result
    for raw in statements[1:]:
        with _timed(session):
            result = _run_one(session, raw.stmt, execute, implicit=True, last=raw is statements[-1])
        yield result
    if session.transaction.block is Block.IMPLICIT:  # the last rows were not read to their end
        with _timed(session):
            session.transaction.end_implicit()


def run_extended(
    session: Session, text: str, parameters: Sequence[Parameter], execute: Execute = execute
) -> Result | None:
    """Run the one statement of a string with values for its parameters $1, $2, …, as the extended-query protocol does;
    None: the string is empty."""
    _begin(session, text)
    with _timed(session):
        statements = _parsed(session, text)
        if len(statements) > 1:
            raise PgError("42601", "cannot insert multiple commands into a prepared statement")
        _check_parameters(session, text, statements, len(parameters))
        if not statements:
            return None
        session.parameters = parameters if _takes_parameters(statements) else None
        try:
            return _run_one(session, statements[0].stmt, execute, implicit=False, last=True)
        finally:
            session.parameters = None


def run_prepared(
    session: Session, prepared: PreparedStatement, parameters: Sequence[Parameter], *, implicit: bool = False
) -> Result:
    """Run a prepared statement, as the extended-query protocol does."""
    from pgrepl.statements.prepared import bound

    assert prepared.stmt is not None
    _begin(session, prepared.text)
    with _timed(session):
        _start(session, prepared.stmt, implicit)
        session.transaction.snapshot_taken |= prepared.is_analyzed
        with bound(session, prepared, parameters) as stmt:
            return _run_started(session, stmt, execute, implicit=implicit, last=not implicit)


def run_within(session: Session, prepared: PreparedStatement, parameters: Sequence[Parameter]) -> Result:
    """Run a prepared statement as part of the running one: FETCH begins a portal's."""
    from pgrepl.statements.prepared import bound

    assert prepared.stmt is not None
    with bound(session, prepared, parameters) as stmt, _executed(session, stmt) as meant:
        _prepare_to_write(session, meant)
        return execute(meant, session)


def portal_moment(
    session: Session, prepared: PreparedStatement, parameters: Sequence[Parameter]
) -> tuple[int | None, bool] | None:
    """As `reading_moment` (query/portal.py), of a statement that has been bound. None: it sees what there is when
    its rows are wanted, or tells then that it can no longer run."""
    from pgrepl.expr.analyse.analyze import analyze_query
    from pgrepl.query.portal import reading_moment
    from pgrepl.statements.prepared import looked_at

    if not isinstance(prepared.stmt, SelectStmt) or not prepared.is_analyzed:
        return None
    with reading(session):
        try:
            with looked_at(session, prepared, parameters) as stmt:
                return reading_moment(session, analyze_query(session, cast("SelectStmt", stmt)))
        except PgError as error:
            if error.sqlstate.startswith("57"):
                raise
            return None


def run_work(session: Session, what: str, work: Callable[[], Done]) -> Done:
    """Run work of a program as one statement, which a failure undoes. `work` is called again if the write lock is to be
    had only for a newer state of the catalog."""
    _begin(session, what)
    transaction = session.transaction
    with _timed(session):
        if transaction.block is Block.ABORTED:
            raise aborted()
        transaction.begin_statement()
        require_writable(session, what)
        transaction.snapshot_taken = True
        done = _until_done(session, work)
        transaction.end_statement()
    return done


def _takes_parameters(statements: Sequence[RawStmt]) -> bool:
    return bool(statements) and kind_of(statements[0].stmt).parameters


def _check_parameters(session: Session, text: str, statements: Sequence[RawStmt], given: int) -> None:
    """Raise unless there is a value for each parameter, and a parameter for each value."""
    needed = parameter_count(text) if _takes_parameters(statements) else 0
    if needed != given:
        from pgrepl.statements.describe import prepare

        prepare(session, text)  # what else is wrong with it is told first
        raise PgError("08P01", f'bind message supplies {given} parameters, but prepared statement "" requires {needed}')


def _begin(session: Session, text: str) -> None:
    use_the_stack()
    session.query = text
    session.transaction.string_at = datetime.now(timezone.utc)


class _timed:
    """Run a statement under its timeouts; a statement that fails is rolled back. (A generator would take as long as a
    small statement's other parts.)"""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        timeouts.start(self._session)

    def __exit__(self, _: object, problem: BaseException | None, _trace: object) -> None:
        if problem is None:
            timeouts.end()
            return
        try:
            self._failed(problem)
        finally:
            timeouts.stop()

    def _failed(self, problem: BaseException) -> None:
        session = self._session
        with interrupts.hold_interrupts():
            _fail(session)
            session.contexts.clear()  # Ctrl-C may have come before the block that would take a line away
        if isinstance(problem, RecursionError):
            raise stack_depth_exceeded() from None
        interrupted = interrupts.interrupted()
        if interrupted is not None and _of_a_cancelled_job(problem):
            raise interrupted from problem
        if isinstance(problem, PgError) and session.settings.value("exit_on_error"):
            problem.report = replace(problem.report, severity="FATAL")


def _of_a_cancelled_job(problem: BaseException) -> bool:
    """Whether an error can be that of a cancelled Spark job, which does not know why it was cancelled."""
    if isinstance(problem, PgError):
        if problem.report.context is not None:
            return False  # of a routine, which says where
        return problem.sqlstate == "57014" or problem.report.severity == "FATAL"
    return isinstance(problem, Exception)


def check_encoding(session: Session, text: str) -> None:
    """Raise the error for a character that the database's encoding does not have."""
    encoding = session.settings.get("server_encoding")
    if encoding != "UTF8" and not text.isascii():
        text_to_bytes(text, encoding)


def _parsed(session: Session, text: str) -> Sequence[RawStmt]:
    invalid = invalid_utf8(text)
    if invalid is not None:
        raise invalid
    check_encoding(session, text)
    return parse(text, session.report, session.settings.string_rules)


def _run_one(session: Session, stmt: Statement, execute: Execute, *, implicit: bool, last: bool) -> Result:
    _start(session, stmt, implicit)
    return _run_started(session, stmt, execute, implicit=implicit, last=last)


def _start(session: Session, stmt: Statement, implicit: bool) -> None:
    transaction = session.transaction
    if transaction.block is Block.ABORTED and not ends_block(stmt):
        raise aborted()
    if session.on_command is not None:
        session.on_command(command_tag(stmt))
    transaction.begin_statement()
    if implicit:
        transaction.begin_implicit()


def _run_started(session: Session, stmt: Statement, execute: Execute, *, implicit: bool, last: bool) -> Result:
    with _executed(session, stmt) as meant:
        return _carry_out(session, meant, execute, implicit=implicit, last=last)


@contextmanager
def _executed(session: Session, stmt: Statement) -> Iterator[Statement]:
    """The statement, or the one that EXECUTE means."""
    if type(stmt).__name__ != "ExecuteStmt":
        yield stmt
        return
    from pgrepl.statements.prepared import binding

    session.transaction.snapshot_taken = True
    with binding(session, cast("ExecuteStmt", stmt)) as prepared:
        yield prepared


def _prepare_to_write(session: Session, stmt: Statement) -> None:
    take_locks(session, stmt)
    if kind_of(stmt).snapshot:
        session.transaction.snapshot_taken = True


def take_locks(session: Session, stmt: Statement, *, nested: bool = False) -> None:
    """Take the catalog's write lock, or raise the error of a read-only transaction. `nested`: the lock is kept until
    the statement around this one ends."""
    kind, transaction = kind_of(stmt), session.transaction
    if kind.reads:
        return
    if not kind.changes_rows or transaction.in_recovery:
        require_writable(session, command_tag(stmt))
    pending = transaction.keeps_pending or is_read_only(session)
    in_block = session.in_block and not pending
    if not kind.changes_rows or in_block or (nested and transaction.block is Block.NONE):
        transaction.require_write()


def _carry_out(session: Session, stmt: Statement, execute: Execute, *, implicit: bool, last: bool) -> Result:
    transaction = session.transaction
    _prepare_to_write(session, stmt)
    result = _until_done(session, lambda: execute(stmt, session))
    if type(stmt).__name__ != "TransactionStmt":  # what it has committed cannot be undone
        interrupts.check_for_interrupts()
    transaction.end_statement()
    if implicit and last:
        if isinstance(result.rows, StreamedRows):
            result.rows.at_end = transaction.end_implicit  # an error in a row undoes the other statements, too
        else:
            transaction.end_implicit()
    return result


def _until_done(session: Session, work: Callable[[], Done]) -> Done:
    """Do the work of a statement; again whenever it needs a lock first, or columns for arrays of several dimensions."""
    transaction = session.transaction
    mark = transaction.statement_mark
    columns: list[DimensionsNeeded] = []
    while True:
        try:
            _keep_dimensions(session, columns)
            begun = transaction.numbering.begun
            return work()
        except LockNeeded as needed:
            transaction.begin_again(needed, mark)
        except DimensionsNeeded as needed:
            if transaction.undo_statement(mark):
                columns = [*columns, needed]
                continue
            from pgrepl.writing.rewrite import check_unchanged

            check_unchanged(session, needed, begun)
            columns = [needed]


def _keep_dimensions(session: Session, columns: Sequence[DimensionsNeeded]) -> None:
    """Have columns keep arrays of several dimensions."""
    for needed in columns:
        from pgrepl.writing.rewrite import keep_as_text

        keep_as_text(session, needed)


def _fail(session: Session) -> None:
    session.transaction.fail_statement()
    actions, session.at_error = session.at_error, []
    for action in actions:
        action()


def execute_nested(session: Session, stmt: Statement) -> Result:
    """Carry out a statement of a routine's body, within the one that has called the routine. Its rows are Python
    values; what it has written is seen by the next one."""
    if type(stmt).__name__ == "ExecuteStmt":
        from pgrepl.statements.prepared import binding

        with binding(session, cast("ExecuteStmt", stmt)) as prepared:
            return execute_nested(session, prepared)
    take_locks(session, stmt, nested=True)
    before = session.keeps_values, session.streams, session.is_nested
    session.keeps_values, session.streams, session.is_nested = True, False, True
    try:
        result = execute(stmt, session)
    finally:
        session.keeps_values, session.streams, session.is_nested = before
    session.transaction.numbering.store_snapshot()
    return result
