"""DECLARE, FETCH, MOVE and CLOSE (portalcmds.c)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.expr import folding
from pgrepl.expr.analyze import analyze_query
from pgrepl.expr.tree import Query, has_modifying_cte
from pgrepl.query import permissions
from pgrepl.query.cursor_rows import cursor_rows, scrolls
from pgrepl.query.portal import Declared, Portal, close_all, close_portal, find_portal, open_portal
from pgrepl.query.result import NO_ORIGIN, Result, ResultColumn, listed_columns, told_columns
from pgrepl.query.rowset import LocalRows
from pgrepl.query.run import as_values, texts_for, with_table_locks
from pgrepl.query.shape import locks_rows
from pgrepl.sql.nodes import ClosePortalStmt, DeclareCursorStmt, FetchStmt
from pgrepl.types.names import format_type

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def declare_cursor(stmt: DeclareCursorStmt, session: Session) -> Result:
    """As PerformCursorOpen does."""
    query = _analyzed(session, stmt)
    folding.check(session, query)
    if not stmt.name:
        raise PgError("34000", "invalid cursor name: must not be empty")
    if not stmt.holds:
        session.transaction.require_some_block("DECLARE CURSOR")
    if stmt.name in session.transaction.portals:
        raise PgError("42P03", f'cursor "{stmt.name}" already exists')
    if locks_rows(query):
        query = with_table_locks(session, stmt.query, query)
    permissions.check(session, query)
    permissions.check_functions(session, query)
    standing, rows = cursor_rows(session, query, waits=session.parameters is None and not session.is_nested)
    shown = listed_columns(query.targets)
    origins = [column.origin for column in shown]
    declared = Declared(session.query, binary=stmt.binary, holds=stmt.holds, standing=standing, origins=origins)
    columns = [(column.name, column.type, column.typmod) for column in shown]
    open_portal(session, stmt.name, columns, rows, scrolls=scrolls(query, stmt.scroll), declared=declared)
    return Result("DECLARE CURSOR")


def _analyzed(session: Session, stmt: DeclareCursorStmt) -> Query:
    """As transformDeclareCursorStmt does."""
    for both, one, other in (
        (stmt.scroll_and_not, "SCROLL", "NO SCROLL"),
        (stmt.asensitive and stmt.insensitive, "ASENSITIVE", "INSENSITIVE"),
    ):
        if both:
            raise PgError("42P11", f"cannot specify both {one} and {other}")
    query = analyze_query(session, stmt.query)
    if has_modifying_cte(query.ctes):
        raise PgError("0A000", "DECLARE CURSOR must not contain data-modifying statements in WITH")
    if query.row_marks:
        words = f"FOR {query.row_marks[0].strength}"
        if stmt.holds:
            detail = "Holdable cursors must be READ ONLY."
            raise PgError("0A000", f"DECLARE CURSOR WITH HOLD ... {words} is not supported", detail=detail)
        if stmt.scroll:
            detail = "Scrollable cursors must be READ ONLY."
            raise PgError("0A000", f"DECLARE SCROLL CURSOR ... {words} is not supported", detail=detail)
        if stmt.insensitive:
            detail = "Insensitive cursors must be READ ONLY."
            raise PgError("42P11", f"DECLARE INSENSITIVE CURSOR ... {words} is not valid", detail=detail)
    return query


# --- FETCH, MOVE, CLOSE -----------------------------------------------------------------------------------------------


def fetch(stmt: FetchStmt, session: Session) -> Result:
    """As PerformPortalFetch does."""
    if not stmt.name:
        raise PgError("34000", "invalid cursor name: must not be empty")
    portal = find_portal(session, stmt.name)
    if stmt.moves:
        if stmt.count == 0 and stmt.word != "absolute" and not portal.has_failed:
            return Result(f"MOVE {int(portal.current is not None)}")
        return Result(f"MOVE {len(portal.fetch(stmt.word, stmt.count))}")
    rows = [tuple(row) for row in portal.fetch(stmt.word, stmt.count)]
    columns = fetched_columns(session, portal)
    tag = f"FETCH {len(rows)}"
    if session.keeps_values:
        return Result(tag, columns, values=LocalRows((), rows))
    types = [column.type for column in columns]
    binary = portal.declared.binary
    if binary and not session.reads_binary:
        return Result(tag, columns, _as_bytes(rows, types))
    texts = as_values if binary and not session.result_formats else texts_for(session, types)
    return Result(tag, columns, texts(rows), binary=binary)


def _as_bytes(rows: Sequence[tuple[Any, ...]], types: Sequence[int]) -> list[tuple[str | None, ...]]:
    """The values of a BINARY cursor as a client shows them that takes them for text: up to the first zero byte."""
    from pgrepl.types.binary import sends

    found = []
    for row in rows:
        texts: list[str | None] = []
        for value, typoid in zip(row, types, strict=True):
            send = sends(typoid)
            if send is None:
                raise PgError("42883", f"no binary output function available for type {format_type(typoid)}")
            shown = None if value is None else send(value).partition(b"\0")[0].decode("utf-8", "replace")
            texts.append(shown)
        found.append(tuple(texts))
    return found


def fetched_columns(session: Session, portal: Portal) -> tuple[ResultColumn, ...]:
    origins = portal.declared.origins or repeat(NO_ORIGIN)
    found = [ResultColumn(*column, origin) for column, origin in zip(portal.columns, origins, strict=False)]
    return told_columns(session, found)


def close(stmt: ClosePortalStmt, session: Session) -> Result:
    if stmt.name is None:
        close_all(session)
        return Result("CLOSE CURSOR ALL")
    if not stmt.name:
        raise PgError("34000", "invalid cursor name: must not be empty")
    close_portal(session, stmt.name)
    return Result("CLOSE CURSOR")
