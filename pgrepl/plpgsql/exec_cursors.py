"""OPEN, FETCH, MOVE, CLOSE, and FOR over a cursor."""

from __future__ import annotations

from pgrepl.ground.errors import PgError
from pgrepl.plpgsql.assignment import move_row
from pgrepl.plpgsql.datums import SqlText, Var
from pgrepl.plpgsql.dynamic import Dynamic
from pgrepl.plpgsql.exec_sql import over_rows
from pgrepl.plpgsql.expr import PlpgsqlExpr, compile_stmt, compile_stmts, required
from pgrepl.plpgsql.frame import Code, ExecStmt, Frame, ReturnCode
from pgrepl.plpgsql.nodes import Close, Direction, Fetch, ForCursor, Move, Open
from pgrepl.plpgsql.sql import SpiCursor
from pgrepl.query.portal import Declared, Portal, close_portal, find_portal, open_portal
from pgrepl.types import oids


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

    def __init__(self, code: Code, direction: Direction) -> None:
        self.word = direction.word
        self._count = direction.count
        self._piece = PlpgsqlExpr(code, direction.expression, oids.INT4) if direction.expression is not None else None

    def of(self, frame: Frame) -> int | None:
        if self._piece is None:
            return self._count
        count: int = required(self._piece.run(frame), "relative or absolute cursor position is null")
        return count


@compile_stmt.register
def _(stmt: Fetch, code: Code) -> ExecStmt:
    count = _Count(code, stmt.direction)

    def run(frame: Frame) -> None:
        portal = _portal(frame, stmt.cursor)
        rows = portal.fetch(count.word, count.of(frame))
        move_row(frame, stmt.target, portal.columns, rows[0] if rows else None)
        frame.row_count = len(rows)
        frame[code.function.found] = bool(rows)

    return run


@compile_stmt.register
def _(stmt: Move, code: Code) -> ExecStmt:
    count = _Count(code, stmt.direction)

    def run(frame: Frame) -> None:
        rows = _portal(frame, stmt.cursor).fetch(count.word, count.of(frame))
        frame.row_count = len(rows)
        frame[code.function.found] = bool(rows)

    return run


@compile_stmt.register
def _(stmt: Close, code: Code) -> ExecStmt:
    def run(frame: Frame) -> None:
        close_portal(frame.session, _portal(frame, stmt.cursor).name)

    return run


@compile_stmt.register
def _(stmt: ForCursor, code: Code) -> ExecStmt:
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
