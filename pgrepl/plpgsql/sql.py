"""SQL statements of a body, run as statements within the running one (spi.c)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.transaction import LockNeeded
from pgrepl.errors import PgError
from pgrepl.expr.analyze import analyze_query
from pgrepl.expr.substitute import with_values
from pgrepl.expr.tree import Const, Query, Variable
from pgrepl.frozen import frozen
from pgrepl.plpgsql.datums import Rec
from pgrepl.plpgsql.variables import FrameVariables, field_of
from pgrepl.sql.nodes import SelectStmt
from pgrepl.sql.tags import WITHOUT_SNAPSHOT, command_tag

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.plpgsql.datums import Column, SqlText
    from pgrepl.plpgsql.frame import Frame
    from pgrepl.query.result import Result
    from pgrepl.query.standing import Standing
    from pgrepl.sql.nodes import Statement

# statements that a function which is not volatile may run (CommandIsReadOnly)
_READS = frozenset(("SelectStmt", "VariableShowStmt", "ExplainStmt"))
_KEEP_TEXT = frozenset(("PrepareStmt", "DeclareCursorStmt"))  # of which views show the text
_CHANGES = frozenset(("InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt"))


@frozen
class SpiResult:
    """The result of a statement: its rows, if it gives rows, and the number that it has found or changed."""

    columns: Sequence[Column] | None
    rows: Sequence[Sequence[Any]]
    count: int
    changes: bool = False  # INSERT, UPDATE, DELETE, MERGE
    selects: bool = False
    text: str = ""  # of EXECUTE
    standing: Standing | None = None  # of a cursor's rows


# --- CONTEXT ----------------------------------------------------------------------------------------------------------


def in_sql(error: PgError, text: str, kind: str) -> PgError:
    """The error of a statement of a routine: with QUERY if it has a place in its text, otherwise with a line of CONTEXT
    (_SPI_error_callback)."""
    report = error.report
    if report.position is None:
        return error.with_context(f'{kind} "{text}"')
    error.report = replace(report, position=None, internal_position=report.position, internal_query=text)
    return error


@contextmanager
def speaking_of(frame: Frame, sql: SqlText) -> Iterator[None]:
    """Errors and notices inside come with the statement's line of CONTEXT."""
    contexts = frame.session.contexts
    contexts.append(lambda: f'{sql.mode.value} "{sql.text}"')
    try:
        yield
    except PgError as error:
        raise in_sql(error, sql.text, sql.mode.value) from None
    finally:
        contexts.pop()


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


def constant(frame: Frame, node: Variable) -> Const:
    value = frame[node.number]
    if node.field is not None and value is not None:
        datum = frame.code.function.datums[node.number]
        assert isinstance(datum, Rec)
        value = value[field_of(frame, datum, node.field)[3]]
    return Const(node.type, typmod=node.typmod, collation=node.collation, location=node.location, value=value)


def is_plain_query(query: Query) -> bool:
    """Whether the query only reads: it locks no rows, and no statement in its WITH list changes any."""
    return not query.row_marks and all(cte.modify is None for cte in query.ctes)


def rows_of(frame: Frame, query: Query, most: int | None = None) -> list[tuple[Any, ...]]:
    """The rows of an analysed query that only reads; no more than `most`."""
    from pgrepl.query import permissions
    from pgrepl.query.rowset import passing_rows

    session = frame.session
    _begin(frame)
    permissions.check(session, query)
    permissions.check_functions(session, query)
    found: Iterable[tuple[Any, ...]] = passing_rows(session, with_values(query, lambda node: constant(frame, node)))
    return list(found if most is None else islice(found, most))


def cursor_rows(frame: Frame, stmt: SelectStmt, sql: SqlText) -> SpiResult:
    """The rows of a cursor's query, and where they stand."""
    from pgrepl.query import permissions
    from pgrepl.query.run import with_table_locks
    from pgrepl.query.standing import placed_rows

    session = frame.session
    _begin(frame)

    def work() -> SpiResult:
        with variables_of(frame, sql, as_values=True):
            query = analyze_query(session, stmt)
            if query.row_marks:
                query = with_table_locks(session, stmt, query)
        permissions.check(session, query)
        permissions.check_functions(session, query)
        standing, found = placed_rows(session, query)
        rows = list(found)
        return SpiResult(columns_of_query(query), rows, len(rows), selects=True, standing=standing)

    return _until_done(frame, work)  # type: ignore[no-any-return]


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


def no_cursor(stmt: Statement | None) -> PgError:
    return PgError("42P11", f"cannot open {'empty' if stmt is None else command_tag(stmt)} query as cursor")


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
    name = type(stmt).__name__
    if frame.read_only and name not in _READS:
        raise PgError("0A000", f"{command_tag(stmt)} is not allowed in a non-volatile function")
    _begin(frame, snapshot=name not in WITHOUT_SNAPSHOT)
    with _asked(frame.session, text) if name in _KEEP_TEXT else nullcontext():
        result: Result = _until_done(frame, lambda: frame.session.hooks.execute(frame.session, stmt))
    if name not in _CHANGES and name != "SelectStmt":
        frame.code.refresh()
    return _answer(name, stmt, result)


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


def _answer(name: str, stmt: Statement, result: Result) -> SpiResult:
    columns = None if result.columns is None else [(c.name, c.type, c.typmod) for c in result.columns]
    rows: Sequence[Sequence[Any]] = list(result.values) if result.values is not None else result.rows
    last = (result.tag or "").rpartition(" ")[2]
    count = int(last) if last.isdigit() else 0
    selects = isinstance(stmt, SelectStmt) and stmt.into is None
    if selects:
        count = len(rows)
    return SpiResult(columns, rows, count, name in _CHANGES, selects)
