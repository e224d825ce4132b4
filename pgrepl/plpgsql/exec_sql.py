"""SQL statements, EXECUTE, PERFORM, loops over queries, and RETURN."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pgrepl.expr.analyse import lookup
from pgrepl.ground.errors import PgError
from pgrepl.plpgsql.assignment import cast, check_alike, move_row, row_columns
from pgrepl.plpgsql.datums import Column, Datum, Mode, Rec, Row, Var
from pgrepl.plpgsql.dynamic import Dynamic
from pgrepl.plpgsql.exec_control import over
from pgrepl.plpgsql.expr import PlpgsqlExpr, compile_stmt, compile_stmts
from pgrepl.plpgsql.frame import RC_RETURN, Code, ExecStmt, Frame, ReturnCode
from pgrepl.plpgsql.nodes import Execute, ForExecute, ForQuery, Perform, Return, ReturnNext, ReturnQuery, Sql
from pgrepl.plpgsql.sql import SpiCursor, SpiResult, in_sql, no_rows
from pgrepl.query.portal import CursorRows, Portal
from pgrepl.types import oids
from pgrepl.types.style import Record
from pgrepl.types.text import write_text

_ALL = None
_OTHER_ROW = "returned record type does not match expected record type"


@compile_stmt.register
def _(stmt: Sql, code: Code) -> ExecStmt:
    piece = PlpgsqlExpr(code, stmt.query)
    most = (2 if stmt.strict else 1) if stmt.target is not None else _ALL

    def run(frame: Frame) -> None:
        answer = piece.answer(frame, most)
        if answer.selects or answer.changes:
            frame[code.function.found] = answer.count > 0
        frame.row_count = answer.count
        if stmt.target is not None:
            parameters = (lambda: _names_and_values(frame, piece)) if code.function.print_strict else None
            into(frame, stmt.target, answer, stmt.strict, parameters)
        elif answer.columns is not None:
            hint = "If you want to discard the results of a SELECT, use PERFORM instead."
            message = "query has no destination for result data"
            raise PgError("42601", message, hint=hint if answer.selects else None)

    return run


def into(
    frame: Frame, target: Rec | Row, answer: SpiResult, strict: bool, parameters: Any = None, *, dynamic: bool = False
) -> None:
    """The first row into the target, and NULL if there is none; STRICT requires exactly one."""
    if answer.columns is None:
        raise PgError("42601", "INTO used with a command that cannot return data")
    count = len(answer.rows)
    if count == 0 and strict:
        raise PgError("P0002", "query returned no rows", detail=_parameters(parameters))
    if count > 1 and (strict or answer.changes):
        hint = "Make sure the query returns a single row, or use LIMIT 1."
        raise PgError(
            "P0003", "query returned more than one row", detail=_parameters(parameters), hint=None if dynamic else hint
        )
    move_row(frame, target, answer.columns, answer.rows[0] if count else None)


def _parameters(said: Any) -> str | None:
    """The DETAIL line with the parameters, for #print_strict_params."""
    pairs = said() if said is not None else None
    if not pairs:
        return None
    return "parameters: " + ", ".join(f"{name} = {_quoted(text)}" for name, text in pairs)


def _quoted(text: str | None) -> str:
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"


def _names_and_values(frame: Frame, piece: PlpgsqlExpr) -> list[tuple[str, str | None]]:
    """The variables that the statement names, in the order of their declaration (format_expr_params)."""
    found: list[tuple[str, str | None]] = []
    for number in piece.variables(frame):
        datum = frame.code.function.datums[number]
        if isinstance(datum, Var):
            value = frame[number]
            text = None if value is None else write_text(value, datum.type.oid, frame.session.text_style)
            found.append((datum.name, text))
    return found


@compile_stmt.register
def _(stmt: Perform, code: Code) -> ExecStmt:
    piece = PlpgsqlExpr(code, stmt.query)

    def run(frame: Frame) -> None:
        answer = piece.answer(frame)
        frame.row_count = answer.count
        frame[code.function.found] = answer.count > 0

    return run


@compile_stmt.register
def _(stmt: Execute, code: Code) -> ExecStmt:
    dynamic = Dynamic(code, stmt.query, stmt.parameters)

    def run(frame: Frame) -> None:
        answer = dynamic.answer(frame)
        frame.row_count = answer.count
        if stmt.target is None:
            return
        said = (lambda: dynamic.given(frame)) if code.function.print_strict else None
        into(frame, stmt.target, answer, stmt.strict, said, dynamic=True)

    return run


# --- loops over queries -----------------------------------------------------------------------------------------------


@compile_stmt.register
def _(stmt: ForQuery, code: Code) -> ExecStmt:
    piece = PlpgsqlExpr(code, stmt.query)
    body = compile_stmts(stmt.body, code)

    def run(frame: Frame) -> ReturnCode | None:
        return over_rows(frame, piece.loop(frame), stmt.target, body, stmt.label)

    return run


@compile_stmt.register
def _(stmt: ForExecute, code: Code) -> ExecStmt:
    dynamic = Dynamic(code, stmt.query, stmt.parameters)
    body = compile_stmts(stmt.body, code)

    def run(frame: Frame) -> ReturnCode | None:
        return over_rows(frame, dynamic.loop(frame), stmt.target, body, stmt.label)

    return run


_PREFETCHED = 10, 50  # rows: at first, and then


def over_rows(
    frame: Frame, opened: SpiCursor, target: Rec | Row, body: ExecStmt, label: str | None, portal: Portal | None = None
) -> ReturnCode | None:
    """The body for each row (exec_for_query). PostgreSQL reads the rows by a portal, some at once within a function.
    `portal`: that of FOR over a cursor, which moves row by row."""
    columns, rows, pinned = opened.columns, opened.rows, frame.session.transaction.pinned
    first = 1
    if portal is None:
        frame.session.portal_count += 1
        first = _PREFETCHED[0] if frame.atomic else 1
    pinned.append(rows)
    try:
        if not rows.upto(first):
            move_row(frame, target, columns, None)
        found: Iterable[Sequence[Any]] = rows
        if portal is not None:
            found = portal.walked()
        elif not rows.all_known:
            found = _read(rows, first, _PREFETCHED[1] if frame.atomic else 1)
        if isinstance(target, Rec) and target.type.oid == oids.RECORD:
            number, types, names = target.number, tuple([c[1] for c in columns]), tuple([c[0] for c in columns])
            return over(frame, found, lambda row: frame.__setitem__(number, Record(row, types, names)), body, label)
        return over(frame, found, lambda row: move_row(frame, target, columns, row), body, label)
    finally:
        pinned.remove(rows)


def _read(rows: CursorRows, first: int, then: int) -> Iterator[Sequence[Any]]:
    """The rows, some of them at once: so far an error in a row lets the loop come."""
    done, wanted = 0, first
    while True:
        total = rows.upto(wanted)
        yield from rows[done:total]
        if total < wanted:
            return
        done, wanted = total, total + then


# --- RETURN -----------------------------------------------------------------------------------------------------------


@compile_stmt.register
def _(stmt: Return, code: Code) -> ExecStmt:
    piece = PlpgsqlExpr(code, stmt.value) if stmt.value is not None else None
    datum = code.function.datums[stmt.variable] if stmt.variable >= 0 else None
    if piece is None and isinstance(datum, Rec):
        number, typoid, typmod = datum.number, datum.type.oid, datum.type.typmod

        def of_record(frame: Frame) -> ReturnCode:
            frame.returned = frame[number], typoid, typmod
            return RC_RETURN

        return of_record

    def run(frame: Frame) -> ReturnCode:
        if piece is not None:
            value = piece.run(frame)
            frame.returned = (value, piece.type, piece.typmod)
        elif datum is not None:
            frame.returned = value_of(frame, datum)
        else:
            frame.returned = None
            return RC_RETURN
        if code.function.returns_record and frame.returned[0] is not None:
            check_is_row(frame.returned[1])
        return RC_RETURN

    return run


def check_is_row(typoid: int) -> None:
    if not (typoid == oids.RECORD or lookup.is_complex(typoid)):
        raise PgError("42804", "cannot return non-composite value from function returning composite type")


def value_of(frame: Frame, datum: Datum) -> tuple[Any, int, int]:
    """A variable's value with its type (exec_eval_datum)."""
    if isinstance(datum, Row):
        parts = [value_of(frame, frame.code.function.datums[number]) for number in datum.targets]
        row = Record([p[0] for p in parts], [p[1] for p in parts], datum.names)
        return row, oids.RECORD, -1
    assert isinstance(datum, (Var, Rec))
    return frame[datum.number], datum.type.oid, datum.type.typmod


@compile_stmt.register
def _(stmt: ReturnNext, code: Code) -> ExecStmt:
    piece = PlpgsqlExpr(code, stmt.value) if stmt.value is not None else None
    datum = code.function.datums[stmt.variable] if stmt.variable >= 0 else None

    def run(frame: Frame) -> None:
        _check_takes_rows(frame)
        if piece is not None:
            value = piece.run(frame)
            add_value(frame, value, piece.type, piece.typmod, _OTHER_ROW)
        elif datum is not None:
            add_value(frame, *value_of(frame, datum), "wrong record type supplied in RETURN NEXT")
        else:
            raise PgError("42601", "RETURN NEXT must have a parameter")

    return run


def _check_takes_rows(frame: Frame) -> None:
    """Whether the call says which columns the rows have (exec_init_tuple_store)."""
    if frame.code.function.result.oid == oids.RECORD and not frame.code.columns:
        raise PgError("0A000", "materialize mode required, but it is not allowed in this context")


def add_value(frame: Frame, value: Any, source: int, typmod: int, message: str) -> None:
    """A row of the function's result (exec_stmt_return_next)."""
    result = frame.code.columns
    function = frame.code.function
    if not function.returns_record:
        if len(result) != 1:
            raise PgError("42804", "wrong result type supplied in RETURN NEXT")
        _, typoid, wanted = result[0]
        frame.rows.append((cast(frame.code, value, source, typmod, typoid, wanted),))
        return
    if value is None:
        frame.rows.append((None,) * len(result))
        return
    check_is_row(source)
    add_rows(frame, row_columns(frame, value, source), (value,), message)


def add_rows(frame: Frame, columns: Sequence[Column], rows: Iterable[Any], message: str) -> None:
    """Rows in the form of the function's result (convert_tuples_by_position)."""
    check_alike(frame.code, columns, [typoid for _, typoid, _ in frame.code.columns], message)
    frame.rows += map(tuple, rows)


@compile_stmt.register
def _(stmt: ReturnQuery, code: Code) -> ExecStmt:
    dynamic = Dynamic(code, stmt.query, stmt.parameters) if stmt.is_dynamic else None
    piece = None if stmt.is_dynamic else PlpgsqlExpr(code, stmt.query)

    def run(frame: Frame) -> None:
        _check_takes_rows(frame)
        answer = dynamic.answer(frame, gives_rows=True) if dynamic is not None else _plain(piece, frame)
        assert answer.columns is not None
        message = "structure of query does not match function result type"
        try:
            add_rows(frame, answer.columns, answer.rows, message)
        except PgError as error:
            raise in_sql(error, answer.text or stmt.query.text, Mode.STATEMENT.value) from None
        frame.row_count = len(answer.rows)
        frame[code.function.found] = bool(answer.rows)

    return run


def _plain(piece: PlpgsqlExpr | None, frame: Frame) -> SpiResult:
    assert piece is not None
    answer = piece.answer(frame)
    if answer.columns is None:
        raise in_sql(no_rows(piece.tree), piece.sql.text, Mode.STATEMENT.value)
    return answer
