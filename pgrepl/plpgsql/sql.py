"""SQL statements of a body, run as statements within the running one (spi.c)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session.transaction import LockNeeded
from pgrepl.expr.analyse.analyze import analyze_modifying, analyze_query
from pgrepl.expr.dml_tree import query_of, with_values
from pgrepl.expr.rewrite import folding
from pgrepl.expr.rewrite.inline import analysing
from pgrepl.expr.tree import Query, has_modifying_cte
from pgrepl.expr.walk import has_effects
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.plpgsql.frame import FrameVariables
from pgrepl.query import run as permissions
from pgrepl.query.portal import CursorRows, RowsAtOnce, StatementRows
from pgrepl.query.result import listed_columns
from pgrepl.query.rowset import passing_rows
from pgrepl.query.run import with_table_locks
from pgrepl.query.shape import writing_tag
from pgrepl.sql.nodes import SelectStmt
from pgrepl.sql.statements import command_tag, kind_of

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.plpgsql.datums import Column, SqlText
    from pgrepl.plpgsql.frame import Frame
    from pgrepl.query.portal import Standing
    from pgrepl.query.result import Result
    from pgrepl.sql.nodes import Statement
    from pgrepl.sql.statements import Kind


@frozen
class SpiResult:
    """The result of a statement: its rows, if it gives rows, and the number that it has found or changed."""

    columns: Sequence[Column] | None
    rows: Sequence[Sequence[Any]]
    count: int
    changes: bool = False  # INSERT, UPDATE, DELETE, MERGE
    selects: bool = False
    text: str = ""  # of EXECUTE


@frozen
class SpiCursor:
    """The columns and rows of a cursor, or of a loop over a query."""

    columns: Sequence[Column]
    rows: CursorRows
    text: str
    scrolls: bool = True
    standing: Standing | None = None


# --- CONTEXT ----------------------------------------------------------------------------------------------------------


def in_sql(error: PgError, text: str, kind: str) -> PgError:
    """The error of a statement of a routine: with QUERY if it has a place in its text, otherwise with a line of CONTEXT
    (_SPI_error_callback)."""
    report = error.report
    if report.position is None:
        return error.with_context(f'{kind} "{text}"')
    error.report = replace(report, position=None, internal_position=report.position, internal_query=text)
    return error


class speaking_of:
    """Errors and notices inside come with the statement's line of CONTEXT; what PL/pgSQL itself says does not."""

    # No generator: one that Ctrl-C meets before the block would take a line away when it is collected, later.
    __slots__ = ("_contexts", "_depth", "_sql")

    def __init__(self, frame: Frame, sql: SqlText) -> None:
        self._contexts, self._sql = frame.session.contexts, sql
        self._depth = len(self._contexts)

    def __enter__(self) -> None:
        sql = self._sql
        self._contexts.append(lambda: f'{sql.mode.value} "{sql.text}"')

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        del self._contexts[self._depth :]
        if isinstance(problem, PgError) and not isinstance(problem, OfPlpgsql):
            raise in_sql(problem, self._sql.text, self._sql.mode.value) from None


class OfPlpgsql(PgError):
    """An error of PL/pgSQL itself, whose CONTEXT does not name the statement."""

    @classmethod
    def said(cls, error: PgError) -> OfPlpgsql:
        of_plpgsql = cls(error.sqlstate, error.message)
        of_plpgsql.report = error.report
        return of_plpgsql


@contextmanager
def variables_of(frame: Frame, sql: SqlText, *, as_values: bool) -> Iterator[FrameVariables]:
    """The frame's variables as names in the statement that is analysed."""
    session = frame.session
    before, parameters = session.variables, session.parameters
    session.variables, session.parameters = FrameVariables(frame, sql.names, as_values=as_values), None
    try:
        yield session.variables
    finally:
        session.variables, session.parameters = before, parameters


# --- queries ----------------------------------------------------------------------------------------------------------


def is_plain_query(query: Query) -> bool:
    """Whether the query only reads: it locks no rows, and no statement in its WITH list changes any."""
    return not query.row_marks and all(cte.modify is None for cte in query.ctes)


def rows_of(frame: Frame, query: Query, most: int | None = None) -> list[tuple[Any, ...]]:
    """The rows of an analysed query that only reads; no more than `most`."""
    to_come: Iterable[tuple[Any, ...]] = _rows_to_come(frame, query)
    return list(to_come if most is None else islice(to_come, most))


def _rows_to_come(frame: Frame, query: Query) -> Iterator[tuple[Any, ...]]:
    """The rows, of which none is computed yet."""
    session = frame.session
    _begin(frame)
    permissions.check(session, query)
    permissions.check_functions(session, query)
    meant = with_values(query, FrameVariables(frame, None, as_values=True).value)

    def rows() -> Iterator[tuple[Any, ...]]:
        yield from passing_rows(session, meant)

    return rows()


def loop_rows(frame: Frame, query: Query, text: str) -> SpiCursor:
    """The rows of an analysed query that only reads, for a loop: they are computed as the loop asks for them if that
    can be noticed, and otherwise all at once, when it asks for the first."""
    from pgrepl.query.portal import may_wait

    waits = may_wait(frame.session, query) and has_effects(query)
    to_come = _rows_to_come(frame, query)
    rows = CursorRows(to_come, query) if waits else RowsAtOnce(to_come, query)
    return SpiCursor(columns_of_query(query), rows, text)


def columns_of_query(query: Query) -> list[Column]:
    return [(c.name, c.type, c.typmod) for c in query.columns]


def _begin(frame: Frame, *, snapshot: bool = True) -> None:
    """A statement of DO or of a procedure sees what others have committed meanwhile."""
    transaction = frame.session.transaction
    if frame.is_alone:
        transaction.refresh()
    transaction.snapshot_taken |= snapshot


def no_rows(stmt: Statement | None) -> PgError:
    return PgError("42601", f"{'empty' if stmt is None else command_tag(stmt)} query does not return tuples")


# --- cursors ----------------------------------------------------------------------------------------------------------


def opened(frame: Frame, stmt: Statement | None, text: str, scroll: bool | None, *, is_loop: bool = False) -> SpiCursor:
    """What a statement gives a cursor, or a loop (SPI_cursor_open_internal); `Session.variables` knows the names in it.
    A statement that changes rows will be run when rows are fetched, with the values that the variables have now."""
    kind, session = None if stmt is None else kind_of(stmt), frame.session
    if isinstance(stmt, SelectStmt) and stmt.into is None:
        return _until_done(frame, lambda: _opened_query(frame, stmt, text, scroll, is_loop=is_loop))  # type: ignore[no-any-return]
    if kind is not None and kind.changes_rows:
        _begin(frame)
        written = analyze_modifying(session, stmt)  # type: ignore[arg-type]
        columns = [(c.name, c.type, c.typmod) for c in listed_columns(written.returning)]
        if columns:
            _check_reads(frame, command_tag(stmt))  # type: ignore[arg-type]
            folding.check(session, query_of(written))
            return SpiCursor(columns, _statement_rows(frame, stmt), text, scroll is True)  # type: ignore[arg-type]
    elif stmt is not None and kind is not None and kind.gives_rows:
        answer = execute_nested(frame, stmt, text)
        if answer.columns is not None:
            return SpiCursor(answer.columns, StatementRows(lambda: answer.rows), text, scroll is True)
    raise OfPlpgsql("42P11", f"cannot open {_cursor_tag(stmt)} query as cursor")


def _cursor_tag(stmt: Statement | None) -> str:
    if stmt is None:
        return "empty"
    return "SELECT INTO" if isinstance(stmt, SelectStmt) else command_tag(stmt)


def _opened_query(frame: Frame, stmt: SelectStmt, text: str, scroll: bool | None, *, is_loop: bool) -> SpiCursor:
    from pgrepl.query.portal import cursor_rows, scrolls

    session = frame.session
    _begin(frame)
    query = analyze_query(session, stmt)
    _check_reads(frame, writing_tag(query))
    folding.check(session, query)
    if has_modifying_cte(query.ctes):
        return SpiCursor(columns_of_query(query), _statement_rows(frame, stmt), text, scroll is True)
    if query.row_marks:
        if scroll:
            message = "DECLARE SCROLL CURSOR ... FOR UPDATE/SHARE is not supported"
            raise PgError("0A000", message, detail="Scrollable cursors must be READ ONLY.")
        query = with_table_locks(session, stmt, query)
    if is_loop:
        return loop_rows(frame, query, text)
    permissions.check(session, query)
    permissions.check_functions(session, query)
    standing, rows = cursor_rows(session, query)
    return SpiCursor(columns_of_query(query), rows, text, scrolls(query, scroll), standing)


def _statement_rows(frame: Frame, stmt: Statement) -> StatementRows:
    """The rows of a statement that is run when they are fetched, maybe after the function's end."""
    session = frame.session
    variables = session.variables.as_now()

    def run() -> Iterable[tuple[Any, ...]]:
        with analysing(session, variables):
            result: Result = _until_done(frame, lambda: session.hooks.execute(session, stmt))
        return result.values or ()

    return StatementRows(run)


def _check_reads(frame: Frame, tag: str | None) -> None:
    """An error for a statement that no function may run which is not volatile."""
    if frame.read_only and tag is not None:
        raise PgError("0A000", f"{tag} is not allowed in a non-volatile function")


# --- statements -------------------------------------------------------------------------------------------------------


def check_allowed(stmt: Statement) -> None:
    """An error for what no body may do."""
    name = type(stmt).__name__
    if name == "TransactionStmt":
        raise PgError("0A000", "unsupported transaction command in PL/pgSQL")
    if name == "CopyStmt" and getattr(stmt, "filename", "") is None:
        raise PgError("0A000", "cannot COPY to/from client in PL/pgSQL")


def run_statement(frame: Frame, stmt: Statement, sql: SqlText) -> SpiResult:
    """Run a statement with the variables' values in the places of their names."""
    with variables_of(frame, sql, as_values=True):
        return execute_nested(frame, stmt, sql.text)


def execute_nested(frame: Frame, stmt: Statement, text: str) -> SpiResult:
    """Run a statement of a text; `Session.variables` knows the names in it."""
    kind = kind_of(stmt)
    if frame.read_only:
        if isinstance(stmt, SelectStmt) and stmt.into is None:
            _check_reads(frame, writing_tag(analyze_query(frame.session, stmt)))
        else:
            _check_reads(frame, command_tag(stmt))
    _begin(frame, snapshot=kind.snapshot)
    with _asked(frame.session, text) if kind.shows_text else nullcontext():
        result: Result = _until_done(frame, lambda: frame.session.hooks.execute(frame.session, stmt))
    if not kind.changes_rows and not isinstance(stmt, SelectStmt):
        frame.code.refresh()
    return _answer(kind, stmt, result)


@contextmanager
def _asked(session: Session, text: str) -> Iterator[None]:
    before, session.query = session.query, text
    try:
        yield
    finally:
        session.query = before


def _until_done(frame: Frame, work: Callable[[], Any]) -> Any:
    transaction = frame.session.transaction
    may_retry = not transaction.has_written
    mark = transaction.statement_mark
    while True:
        try:
            return work()
        except LockNeeded as needed:
            if not may_retry:
                raise
            transaction.begin_again(needed, mark)


def _answer(kind: Kind, stmt: Statement, result: Result) -> SpiResult:
    columns = None if result.columns is None else [(c.name, c.type, c.typmod) for c in result.columns]
    rows: Sequence[Sequence[Any]] = list(result.values) if result.values is not None else result.rows
    last = (result.tag or "").rpartition(" ")[2]
    count = int(last) if last.isdigit() else 0
    selects = isinstance(stmt, SelectStmt) and stmt.into is None
    if selects:
        count = len(rows)
    return SpiResult(columns, rows, count, kind.changes_rows, selects)
