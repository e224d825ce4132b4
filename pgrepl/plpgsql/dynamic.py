"""EXECUTE (exec_stmt_dynexecute), and COMMIT, ROLLBACK, CALL and DO in a body."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.kinds import Conflict
from pgrepl.expr.tree import Const, Expr
from pgrepl.ground.errors import PgError
from pgrepl.plpgsql.assignment import assign
from pgrepl.plpgsql.datums import Mode, Rec, RecField, SqlText, Var
from pgrepl.plpgsql.expr import PlpgsqlExpr, compile_stmt
from pgrepl.plpgsql.frame import Code, ExecStmt, Frame, FrameVariables
from pgrepl.plpgsql.nodes import Call, Commit, Do, Rollback
from pgrepl.plpgsql.sql import (
    OfPlpgsql,
    SpiCursor,
    SpiResult,
    check_allowed,
    execute_nested,
    no_rows,
    opened,
    speaking_of,
    variables_of,
)
from pgrepl.sql.nodes import SelectStmt
from pgrepl.sql.parser import parse
from pgrepl.types import oids
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.sql.nodes import Statement

Given = tuple[Any, int, int]  # value, type, typmod


class GivenParameters:
    """$1, $2 … of EXECUTE … USING; other names are none of the function's."""

    conflict = Conflict.COLUMN

    def __init__(self, given: list[Given]) -> None:
        self._given = given

    def named(self, names: tuple[str, ...], location: int, *, must_have_field: bool) -> Expr | None:
        return None

    def as_now(self) -> GivenParameters:
        return self

    def starred(self, names: tuple[str, ...], location: int) -> Expr | None:
        return None

    def numbered(self, number: int, location: int) -> Expr | None:
        if not 0 < number <= len(self._given):
            return None
        value, typoid, typmod = self._given[number - 1]
        return Const(typoid, typmod=typmod, collation=lookup.collation(typoid), location=location, value=value)


class Dynamic:
    def __init__(self, code: Code, query: SqlText, parameters: list[SqlText]) -> None:
        self._query = PlpgsqlExpr(code, query)
        self._parameters = [PlpgsqlExpr(code, sql) for sql in parameters]

    def values(self, frame: Frame) -> list[Given]:
        """The parameters' values. A literal is text."""
        given = []
        for piece in self._parameters:
            value = piece.run(frame)
            given.append((value, oids.TEXT if piece.type == oids.UNKNOWN else piece.type, piece.typmod))
        return given

    def given(self, frame: Frame) -> list[tuple[str, str | None]]:
        """The parameters by name and text, for #print_strict_params."""
        style = frame.session.text_style
        return [
            (f"${n}", None if value is None else write_text(value, typoid, style))
            for n, (value, typoid, _) in enumerate(self.values(frame), 1)
        ]

    def text(self, frame: Frame) -> str:
        value = self._query.run(frame)
        if value is None:
            raise PgError("22004", "query string argument of EXECUTE is null")
        return write_text(value, self._query.type, frame.session.text_style)

    def answer(self, frame: Frame, *, gives_rows: bool = False) -> SpiResult:
        """Run the query's statements. `gives_rows`: it must be one that gives rows."""
        with self._statements(frame) as (text, statements):
            answer = SpiResult(None, (), 0)
            for stmt in statements:
                if isinstance(stmt, SelectStmt) and stmt.into is not None:
                    hint = "You might want to use EXECUTE ... INTO or EXECUTE CREATE TABLE ... AS instead."
                    raise OfPlpgsql("0A000", "EXECUTE of SELECT ... INTO is not implemented", hint=hint)
                if type(stmt).__name__ == "TransactionStmt":
                    raise OfPlpgsql("0A000", "EXECUTE of transaction commands is not implemented")
                try:
                    check_allowed(stmt)
                except PgError as error:
                    raise OfPlpgsql(error.sqlstate, error.message) from None
                answer = execute_nested(frame, stmt, text)
            if gives_rows and answer.columns is None:
                nothing = no_rows(statements[-1] if statements else None)
                raise nothing if statements else OfPlpgsql(nothing.sqlstate, nothing.message)
            return replace(answer, text=text)

    def open(self, frame: Frame, scroll: bool | None) -> SpiCursor:
        """The query as a cursor's (exec_dynquery_with_portal)."""
        with self._statements(frame) as (text, statements):
            if len(statements) != 1:
                raise OfPlpgsql("42P11", "cannot open multi-query plan as cursor")
            return opened(frame, statements[0], text, scroll)

    def loop(self, frame: Frame) -> SpiCursor:
        with self._statements(frame) as (text, statements):
            if len(statements) != 1:
                raise OfPlpgsql("42P11", "cannot open multi-query plan as cursor")
            return opened(frame, statements[0], text, None, is_loop=True)

    @contextmanager
    def _statements(self, frame: Frame) -> Iterator[tuple[str, list[Statement]]]:
        """The query's text and statements, which see its parameters."""
        text = self.text(frame)
        given = self.values(frame)
        session = frame.session
        before, session.variables = session.variables, GivenParameters(given)
        try:
            with speaking_of(frame, SqlText(text, Mode.STATEMENT, None)):
                yield text, [raw.stmt for raw in parse(text, session.report, session.settings.string_rules)]
        finally:
            session.variables = before


# --- exec transactions ------------------------------------------------------------------------------------------------


@compile_stmt.register(Call)
def _(stmt: Call, code: Code) -> ExecStmt:
    piece = PlpgsqlExpr(code, stmt.query)

    def run(frame: Frame) -> None:
        session = frame.session
        with speaking_of(frame, stmt.query), variables_of(frame, stmt.query, as_values=True) as variables:
            prepared = session.hooks.procedure(session, piece.tree)
        targets = [
            _target(frame, variables, argument, prepared.columns[n].name)
            for n, (_, argument) in enumerate(prepared.outputs)
        ]
        with speaking_of(frame, stmt.query):
            row = prepared.run(session, atomic=frame.atomic)
        frame.code.refresh()
        frame.row_count = len(row) > 0
        for number, column, value in zip(targets, prepared.columns, row, strict=True):
            assign(frame, number, value, column.type, column.typmod)

    return run


def _target(frame: Frame, variables: FrameVariables, argument: Expr | None, name: str) -> int:
    """The variable that is the argument of an output parameter (make_callstmt_target)."""
    place = variables.places.get(argument.location) if isinstance(argument, Const) else None
    if place is None:
        message = f'procedure parameter "{name}" is an output parameter but corresponding argument is not writable'
        raise PgError("42601", message)
    number, field = place
    datums = frame.code.function.datums
    rec_field = next(d for d in datums if isinstance(d, RecField) and (d.record, d.name) == place) if field else None
    datum = datums[number] if rec_field is None else rec_field
    owner = datums[number]
    if isinstance(owner, (Var, Rec)) and owner.constant:
        raise PgError("22005", f'variable "{owner.name}" is declared CONSTANT')
    return datum.number


@compile_stmt.register(Do)
def _(stmt: Do, code: Code) -> ExecStmt:
    piece = PlpgsqlExpr(code, stmt.query)

    def run(frame: Frame) -> None:
        piece.answer(frame)
        frame.row_count = 0

    return run


@compile_stmt.register(Commit)
@compile_stmt.register(Rollback)
def _(stmt: Commit | Rollback, code: Code) -> ExecStmt:
    commits, chain = isinstance(stmt, Commit), stmt.chain

    def run(frame: Frame) -> None:
        transaction = frame.session.transaction
        if frame.atomic:
            raise PgError("2D000", "invalid transaction termination")
        if transaction.savepoints:
            what = "commit" if commits else "roll back"
            raise PgError("2D000", f"cannot {what} while a subtransaction is active")
        transaction.end_within(commit=commits, chain=chain)
        frame.code.refresh()

    return run
