"""SQL statements, EXECUTE, PERFORM, loops over queries, RETURN; and cursors: OPEN, FETCH, MOVE, CLOSE, FOR."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pgrepl.expr.analyse import lookup
from pgrepl.ground.errors import PgError
from pgrepl.plpgsql import nodes
from pgrepl.plpgsql.assignment import cast, check_alike, move_row, row_columns
from pgrepl.plpgsql.datums import Column, Datum, Mode, Rec, Row, SqlText, Var
from pgrepl.plpgsql.dynamic import Dynamic
from pgrepl.plpgsql.exec_control import over
from pgrepl.plpgsql.expr import PlpgsqlExpr, compile_stmt, compile_stmts, required
from pgrepl.plpgsql.frame import RC_RETURN, Code, ExecStmt, Frame, ReturnCode
from pgrepl.plpgsql.nodes import Open
from pgrepl.plpgsql.sql import SpiCursor, SpiResult, in_sql, no_rows
from pgrepl.query.portal import CursorRows, Declared, Portal, close_portal, find_portal, open_portal
from pgrepl.types import oids
from pgrepl.types.style import Record
from pgrepl.types.text import write_text

_ALL = None
_OTHER_ROW = "returned record type does not match expected record type"


@compile_stmt.register
def _(stmt: nodes.Sql, code: Code) -> ExecStmt:
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
    pairs: list[tuple[str, str | None]] = []
    for number in piece.variables(frame):
        datum = frame.code.function.datums[number]
        if isinstance(datum, Var):
            value = frame[number]
            text = None if value is None else write_text(value, datum.type.oid, frame.session.text_style)
            pairs.append((datum.name, text))
    return pairs


@compile_stmt.register
def _(stmt: nodes.Perform, code: Code) -> ExecStmt:
    piece = PlpgsqlExpr(code, stmt.query)

    def run(frame: Frame) -> None:
        answer = piece.answer(frame)
        frame.row_count = answer.count
        frame[code.function.found] = answer.count > 0

    return run


@compile_stmt.register
def _(stmt: nodes.Execute, code: Code) -> ExecStmt:
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


@compile_stmt.register(nodes.ForQuery)
@compile_stmt.register(nodes.ForExecute)
def _(stmt: nodes.ForQuery | nodes.ForExecute, code: Code) -> ExecStmt:
    query: PlpgsqlExpr | Dynamic
    if isinstance(stmt, nodes.ForQuery):
        query = PlpgsqlExpr(code, stmt.query)
    else:
        query = Dynamic(code, stmt.query, stmt.parameters)
    body = compile_stmts(stmt.body, code)
    return lambda frame: over_rows(frame, query.loop(frame), stmt.target, body, stmt.label)


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
        walked: Iterable[Sequence[Any]] = rows
        if portal is not None:
            walked = portal.walked()
        elif not rows.all_known:
            walked = _read(rows, first, _PREFETCHED[1] if frame.atomic else 1)
        if isinstance(target, Rec) and target.type.oid == oids.RECORD:
            number, types, names = target.number, tuple([c[1] for c in columns]), tuple([c[0] for c in columns])
            return over(frame, walked, lambda row: frame.__setitem__(number, Record(row, types, names)), body, label)
        return over(frame, walked, lambda row: move_row(frame, target, columns, row), body, label)
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
def _(stmt: nodes.Return, code: Code) -> ExecStmt:
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
def _(stmt: nodes.ReturnNext, code: Code) -> ExecStmt:
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
def _(stmt: nodes.ReturnQuery, code: Code) -> ExecStmt:
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


class _Opening:
    """Opens a bound cursor, with its arguments."""

    def __init__(self, code: Code, cursor: Var, arguments: SqlText | None) -> None:
        assert cursor.query is not None
        self.cursor = cursor
        self.query = PlpgsqlExpr(code, cursor.query)
        self._arguments = PlpgsqlExpr(code, arguments) if arguments is not None else None

    def cursor_of(self, frame: Frame, scroll: bool | None) -> SpiCursor:
        if self._arguments is not None:
            assert self.cursor.parameters is not None
            given = self._arguments.answer(frame, 1)
            assert given.columns is not None
            move_row(frame, self.cursor.parameters, given.columns, given.rows[0] if given.rows else None)
        return self.query.open(frame, scroll)


def _open(frame: Frame, cursor: Var, opened: SpiCursor) -> Portal:
    """Open the cursor. A variable without a value gets the portal's name."""
    name = frame[cursor.number]
    declared = Declared(opened.text, standing=opened.standing)
    portal = open_portal(frame.session, name, opened.columns, opened.rows, scrolls=opened.scrolls, declared=declared)
    if name is None:
        if cursor.constant:
            raise PgError("22005", f'variable "{cursor.name}" is declared CONSTANT')
        frame[cursor.number] = portal.name
    return portal


def _check_free(frame: Frame, cursor: Var) -> None:
    name = frame[cursor.number]
    if name is not None and (not name or name in frame.session.transaction.portals):
        raise PgError("42P03", f'cursor "{name}" already in use')


@compile_stmt.register
def _(stmt: Open, code: Code) -> ExecStmt:
    cursor = stmt.cursor
    if stmt.query is None:
        opening = _Opening(code, cursor, stmt.arguments)

        def bound(frame: Frame) -> None:
            _check_free(frame, cursor)
            _open(frame, cursor, opening.cursor_of(frame, stmt.scroll))

        return bound
    if stmt.is_dynamic:
        dynamic = Dynamic(code, stmt.query, stmt.parameters)

        def by_text(frame: Frame) -> None:
            _check_free(frame, cursor)
            _open(frame, cursor, dynamic.open(frame, stmt.scroll))

        return by_text
    piece = PlpgsqlExpr(code, stmt.query)

    def free(frame: Frame) -> None:
        _check_free(frame, cursor)
        _open(frame, cursor, piece.open(frame, stmt.scroll))

    return free


def _portal(frame: Frame, cursor: Var) -> Portal:
    name = required(frame[cursor.number], f'cursor variable "{cursor.name}" is null')
    return find_portal(frame.session, name)


class _Count:
    """The count of a direction of FETCH or MOVE."""

    def __init__(self, code: Code, direction: nodes.Direction) -> None:
        self.word = direction.word
        self._count = direction.count
        self._piece = PlpgsqlExpr(code, direction.expression, oids.INT4) if direction.expression is not None else None

    def of(self, frame: Frame) -> int | None:
        if self._piece is None:
            return self._count
        count: int = required(self._piece.run(frame), "relative or absolute cursor position is null")
        return count


@compile_stmt.register
def _(stmt: nodes.Fetch, code: Code) -> ExecStmt:
    count = _Count(code, stmt.direction)

    def run(frame: Frame) -> None:
        portal = _portal(frame, stmt.cursor)
        rows = portal.fetch(count.word, count.of(frame))
        move_row(frame, stmt.target, portal.columns, rows[0] if rows else None)
        frame.row_count = len(rows)
        frame[code.function.found] = bool(rows)

    return run


@compile_stmt.register
def _(stmt: nodes.Move, code: Code) -> ExecStmt:
    count = _Count(code, stmt.direction)

    def run(frame: Frame) -> None:
        rows = _portal(frame, stmt.cursor).fetch(count.word, count.of(frame))
        frame.row_count = len(rows)
        frame[code.function.found] = bool(rows)

    return run


@compile_stmt.register
def _(stmt: nodes.Close, code: Code) -> ExecStmt:
    def run(frame: Frame) -> None:
        close_portal(frame.session, _portal(frame, stmt.cursor).name)

    return run


@compile_stmt.register
def _(stmt: nodes.ForCursor, code: Code) -> ExecStmt:
    cursor = stmt.cursor
    opening = _Opening(code, cursor, stmt.arguments)
    body = compile_stmts(stmt.body, code)

    def run(frame: Frame) -> ReturnCode | None:
        _check_free(frame, cursor)
        name = frame[cursor.number]
        opened = opening.cursor_of(frame, cursor.scroll)
        portal = _open(frame, cursor, opened)
        try:
            rc = over_rows(frame, opened, stmt.target, body, stmt.label, portal)
        finally:
            frame.session.transaction.portals.pop(portal.name, None)
        if name is None:
            frame[cursor.number] = None
        return rc

    return run
