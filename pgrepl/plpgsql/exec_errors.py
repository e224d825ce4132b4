"""Blocks with their handlers, RAISE, ASSERT and GET DIAGNOSTICS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError, Report
from pgrepl.plpgsql.assignment import assign, default_value, move_row, null_value
from pgrepl.plpgsql.datums import Rec, Var, is_sqlstate, matches, sqlstates_of
from pgrepl.plpgsql.expr import PlpgsqlExpr, compile_stmt, compile_stmts, condition
from pgrepl.plpgsql.frame import Code, ExecStmt, Frame, RcExit, ReturnCode
from pgrepl.plpgsql.nodes import Assert, Block, GetDiagnostics, GetStackedDiagnostics, Handlers, Raise
from pgrepl.query import timeouts
from pgrepl.types import oids
from pgrepl.types.input_checks import stack_depth_exceeded
from pgrepl.types.text import write_text
from pgrepl.types.user_types import tests_null

_INITIALIZING = "during statement block local variable initialization"
_NOT_OTHERS = ("57014", "P0004")  # query_canceled, assert_failure


# --- blocks -----------------------------------------------------------------------------------------------------------


@compile_stmt.register
def _(stmt: Block, code: Code) -> ExecStmt:
    prepared = [_initial(datum, code) for datum in stmt.variables if isinstance(datum, (Var, Rec))]
    body = compile_stmts(stmt.body, code)
    if stmt.handlers is not None:
        body = _guarded(body, stmt.handlers, code)
    label = stmt.label

    def run(frame: Frame) -> ReturnCode | None:
        if prepared:
            frame.phase = _INITIALIZING
            for line, initialize in prepared:
                frame.line = line
                initialize(frame)
            frame.line, frame.phase = 0, ""
        rc = body(frame)
        if rc is not None and rc.label is not None and isinstance(rc, RcExit) and rc.label == label:
            return None
        return rc

    return run


def _initial(datum: Var | Rec, code: Code) -> tuple[int, Any]:
    """The line and the function that gives a variable of a block its first value."""
    number = datum.number
    default = datum.default
    if default is not None:
        piece = PlpgsqlExpr(code, default)

        def by_default(frame: Frame) -> None:
            frame[number] = None
            value = piece.run(frame)
            assign(frame, number, value, piece.type, piece.typmod)

        return datum.line, by_default
    if isinstance(datum, Rec):
        record = datum
        if tests_null(record.type.oid):
            return datum.line, lambda frame: move_row(frame, record, (), None)
        return datum.line, lambda frame: frame.__setitem__(number, None)
    variable = datum

    def to_null(frame: Frame) -> None:
        value = default_value(frame, variable.type)
        if value is None and variable.not_null:
            raise null_value(variable)
        frame[number] = value

    return datum.line, to_null


def _guarded(body: ExecStmt, handlers: Handlers, code: Code) -> ExecStmt:
    """The body in a subtransaction, which is undone before a handler runs."""
    prepared = [(handler.conditions, compile_stmts(handler.body, code)) for handler in handlers.list]

    def run(frame: Frame) -> ReturnCode | None:
        session = frame.session
        transaction = session.transaction
        statement, depth = frame.statement, len(session.contexts)
        session.settle()  # what was done before is not undone with the body
        transaction.begin_subtransaction()
        try:
            rc = body(frame)
            transaction.release_subtransaction()
            return rc
        except (PgError, RecursionError) as problem:
            error = problem if isinstance(problem, PgError) else stack_depth_exceeded()
            _undo(frame)
            del session.contexts[depth:]
            if error.report.severity == "FATAL":
                raise error from None
            handler = next((run for conditions, run in prepared if _handles(conditions, error)), None)
            if handler is None:
                raise located(frame, error) from None
            located(frame, error)
        except BaseException:
            _undo(frame)
            raise
        if error.sqlstate == "57014":
            timeouts.caught(error)
        frame.line, frame.phase, frame.statement = 0, "", statement
        before, frame.error = frame.error, error
        frame[handlers.sqlstate], frame[handlers.sqlerrm] = error.sqlstate, error.message
        try:
            return handler(frame)
        finally:
            frame.error = before

    return run


def _undo(frame: Frame) -> None:
    session = frame.session
    with interrupts.hold_interrupts():
        session.transaction.rollback_subtransaction()
        actions, session.at_error = session.at_error, []
        for action in actions:
            action()
        frame.code.refresh()


def located(frame: Frame, error: PgError) -> PgError:
    """The error with the frame's line of CONTEXT, which it gets once."""
    if error.raised_in is not frame:
        error.with_context(frame.where())
        error.raised_in = frame
    return error


def _handles(conditions: Sequence[tuple[str, frozenset[str]]], error: PgError) -> bool:
    """Whether a handler's conditions take an error (exception_matches_conditions)."""
    sqlstate = error.sqlstate
    for _, wanted in conditions:
        if not wanted:
            if sqlstate not in _NOT_OTHERS:
                return True
        elif any(matches(sqlstate, each) for each in wanted):
            return True
    return False


# --- RAISE, ASSERT ----------------------------------------------------------------------------------------------------


@compile_stmt.register
def _(stmt: Raise, code: Code) -> ExecStmt:
    parameters = [PlpgsqlExpr(code, sql) for sql in stmt.parameters]
    options = [(name, PlpgsqlExpr(code, sql)) for name, sql in stmt.options]
    if stmt.condition is None and stmt.message is None and not options:

        def again(frame: Frame) -> None:
            if frame.error is not None:
                raise frame.error
            message = "RAISE without parameters cannot be used outside an exception handler"
            raise PgError("0Z002", message)

        return again

    def run(frame: Frame) -> None:
        report = _report(frame, stmt, parameters, options)
        if report.severity != "ERROR":
            frame.session.report(replace(report, context=_context(frame)))
            return
        error = PgError(report.sqlstate, report.message)
        error.report = report
        raise error

    return run


def _report(frame: Frame, stmt: Raise, parameters: list[PlpgsqlExpr], options: list[tuple[str, PlpgsqlExpr]]) -> Report:
    """The message and its fields (exec_stmt_raise)."""
    sqlstate: str | None = None
    name: str | None = None
    if stmt.condition is not None:
        sqlstate, name = _sqlstate_of(stmt.condition), stmt.condition
    message = _formatted(frame, stmt.message, parameters) if stmt.message is not None else None
    given: dict[str, str] = {}
    for option, piece in options:
        value = piece.run(frame)
        if value is None:
            raise PgError("22004", "RAISE statement option cannot be null")
        text = write_text(value, piece.type, frame.session.text_style)
        if option == "errcode":
            if sqlstate is not None:
                raise _already("ERRCODE")
            sqlstate, name = _sqlstate_of(text), text
        elif option == "message":
            if message is not None:
                raise _already("MESSAGE")
            message = text
        elif option in given:
            raise _already(option.upper())
        else:
            given[option] = text
    if sqlstate is None and stmt.severity == "ERROR":
        sqlstate = "P0001"
    if message is None:
        message = name if name is not None else sqlstate
    plain = {"WARNING": "01000"}.get(stmt.severity, "00000")
    return Report(
        stmt.severity,
        sqlstate or plain,
        plain if message is None else message,
        given.get("detail"),
        given.get("hint"),
        schema=given.get("schema"),
        table=given.get("table"),
        column=given.get("column"),
        datatype=given.get("datatype"),
        constraint=given.get("constraint"),
    )


def _sqlstate_of(text: str) -> str:
    """The SQLSTATE of a condition's name, or the SQLSTATE itself (plpgsql_recognize_err_condition)."""
    if is_sqlstate(text):
        return text
    return sqlstates_of(text)[0]


def _already(option: str) -> PgError:
    return PgError("42601", f"RAISE option already specified: {option}")


def _formatted(frame: Frame, text: str, parameters: list[PlpgsqlExpr]) -> str:
    """The format with each % replaced by a parameter; %% is one %."""
    message: list[str] = []
    values = iter(parameters)
    parts = text.split("%")
    at = 0
    while at < len(parts):
        message.append(parts[at])
        at += 1
        if at == len(parts):
            break
        if not parts[at] and at < len(parts) - 1:
            message.append("%")
            at += 1
            continue
        piece = next(values)
        value = piece.run(frame)
        message.append("<NULL>" if value is None else write_text(value, piece.type, frame.session.text_style))
    return "".join(message)


def _context(frame: Frame) -> str:
    """The lines of CONTEXT of the running statement."""
    return "\n".join(line() for line in reversed(frame.session.contexts))


@compile_stmt.register
def _(stmt: Assert, code: Code) -> ExecStmt:
    test = condition(code, stmt.condition)
    message = PlpgsqlExpr(code, stmt.message) if stmt.message is not None else None

    def run(frame: Frame) -> None:
        if not frame.session.settings.value("plpgsql.check_asserts") or test.run(frame):
            return
        said = "assertion failed"
        if message is not None:
            value = message.run(frame)
            if value is not None:
                said = write_text(value, message.type, frame.session.text_style)
        raise PgError("P0004", said)

    return run


# --- diagnostics ------------------------------------------------------------------------------------------------------


@compile_stmt.register
def _(stmt: GetDiagnostics, code: Code) -> ExecStmt:
    def run(frame: Frame) -> None:
        for number, kind in stmt.items:
            if kind == "row_count":
                assign(frame, number, frame.row_count, oids.INT8)
            elif kind == "pg_context":
                assign(frame, number, _context(frame), oids.TEXT)
            else:
                assign(frame, number, code.function.oid, oids.OID)

    return run


@compile_stmt.register
def _(stmt: GetStackedDiagnostics, code: Code) -> ExecStmt:
    def run(frame: Frame) -> None:
        if frame.error is None:
            raise PgError("0Z002", "GET STACKED DIAGNOSTICS cannot be used outside an exception handler")
        for number, kind in stmt.items:
            assign(frame, number, _stacked(frame, frame.error.report, kind), oids.TEXT)

    return run


def _stacked(frame: Frame, report: Report, kind: str) -> str:
    if kind == "pg_exception_context":
        outer = [line() for line in reversed(frame.session.contexts[:-1])]
        return "\n".join([*([report.context] if report.context else []), *outer])
    return {
        "pg_exception_detail": report.detail,
        "pg_exception_hint": report.hint,
        "returned_sqlstate": report.sqlstate,
        "column_name": report.column,
        "constraint_name": report.constraint,
        "pg_datatype_name": report.datatype,
        "message_text": report.message,
        "table_name": report.table,
        "schema_name": report.schema,
    }[kind] or ""
