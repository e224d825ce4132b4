"""DECLARE, FETCH, MOVE and CLOSE (portalcmds.c)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import relation
from pgrepl.errors import PgError
from pgrepl.expr import folding
from pgrepl.expr.analyze import analyze_query
from pgrepl.expr.tree import Query, RangeRef, Rte, RteKind, has_modifying_cte
from pgrepl.expr.walk import returns_set
from pgrepl.query import permissions
from pgrepl.query.portal import CursorRows, Declared, Portal, close_all, close_portal, find_portal, open_portal
from pgrepl.query.result import NO_ORIGIN, Result, ResultColumn, result_columns
from pgrepl.query.rowset import LocalRows
from pgrepl.query.run import as_values, texts_for, with_table_locks
from pgrepl.query.shape import locks_rows
from pgrepl.query.standing import placed_rows
from pgrepl.query.tables import is_user_table
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
    standing, found = placed_rows(session, query)
    rows = CursorRows(found)
    if _may_wait(session, query):
        rows.upto(1)  # which fixes what is read
    else:
        rows.finish()
    scrolls = stmt.scroll if stmt.scroll is not None else not query.row_marks and goes_backward(query)
    shown = result_columns(query.targets)
    origins = [column.origin for column in shown]
    declared = Declared(session.query, binary=stmt.binary, holds=stmt.holds, standing=standing, origins=origins)
    columns = [(column.name, column.type, column.typmod) for column in shown]
    open_portal(session, stmt.name, columns, rows, scrolls=scrolls, declared=declared)
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


def _may_wait(session: Session, query: Query) -> bool:
    """Whether the rows may be computed later: they come from one table or function, which is opened at the first."""
    if len(query.rtable) != 1 or query.has_sublinks or query.ctes or query.row_marks:
        return False
    (entry,) = query.rtable
    if is_user_table(entry):
        return entry.relkind in ("r", "m") and not relation(session, entry.relid).has_subclass
    return entry.kind is RteKind.FUNCTION


# --- backward ---------------------------------------------------------------------------------------------------------


def goes_backward(query: Query) -> bool:
    """Whether the plan can be run backward, so that the cursor scrolls without SCROLL (ExecSupportsBackwardScan)."""
    if query.set_operation is not None or (query.ctes and any(cte.recursive for cte in query.ctes)):
        return False
    if query.sort:
        return True
    if (
        query.group or query.grouping_sets or query.having is not None or query.windows or query.has_aggregates
        or query.distinct is not None or any(returns_set(target.expr) for target in query.targets)
    ):  # fmt: skip
        return False
    only = query.from_[0] if len(query.from_) == 1 else None
    if not isinstance(only, RangeRef):
        return False
    entry: Rte = query.rtable[only.varno - 1]
    if entry.kind is RteKind.SUBQUERY:
        return entry.subquery is not None and goes_backward(entry.subquery)
    return True


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
    columns = fetched_columns(portal)
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


def fetched_columns(portal: Portal) -> tuple[ResultColumn, ...]:
    origins = portal.declared.origins or repeat(NO_ORIGIN)
    return tuple([ResultColumn(*column, origin) for column, origin in zip(portal.columns, origins, strict=False)])


def close(stmt: ClosePortalStmt, session: Session) -> Result:
    if stmt.name is None:
        close_all(session)
        return Result("CLOSE CURSOR ALL")
    if not stmt.name:
        raise PgError("34000", "invalid cursor name: must not be empty")
    close_portal(session, stmt.name)
    return Result("CLOSE CURSOR")
