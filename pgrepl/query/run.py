"""SELECT and VALUES as statements: analyse, execute, and return the rows as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pgrepl.catalog.lock_modes import RelationMode
from pgrepl.catalog.relation import relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.transaction import require_writable
from pgrepl.expr import folding
from pgrepl.expr.analyze import analyze_query
from pgrepl.expr.rewrite import expand_views
from pgrepl.expr.tree import Const, Query, has_modifying_cte
from pgrepl.expr.walk import has_effects
from pgrepl.query import permissions
from pgrepl.query.result import Result, ResultColumn, ValueText, result_columns
from pgrepl.query.rowset import LocalRows, PassingRows, SparkRows, passing_rows
from pgrepl.query.shape import levels, locks_rows
from pgrepl.query.tables import is_user_table
from pgrepl.sql.nodes import SelectStmt
from pgrepl.types.text import TextStyle, writer

Found = tuple[Query, list[tuple[Any, ...]]]
TextRow = tuple["str | None", ...]


class KeptPlan:
    """What a query that runs again has come to (statements/plan_cache.py): it has been checked, and without parameters
    its views have been expanded. With parameters that waits for their values, which may be all that a function
    needs."""

    def __init__(self, *, has_parameters: bool, has_constants: bool) -> None:
        """`has_constants`: parts of it are constant once its parameters have values."""
        self._has_parameters = has_parameters
        self._has_constants = has_constants
        self._state: tuple[object, ...] = ()
        self._expanded: Query
        self._columns: tuple[ResultColumn, ...] = ()
        self._waits = False
        self._row: tuple[Any, ...] | None = None  # the only one, of constants

    def keep(self, session: Session, expanded: Query, columns: tuple[ResultColumn, ...], *, waits: bool) -> None:
        self._expanded, self._columns, self._waits = expanded, columns, waits
        self._row = None if self._has_parameters else _constant_row(expanded)
        self._state = _state(session)

    def select(self, stmt: SelectStmt, session: Session) -> Result | None:
        """The result; None: it has to be checked, as the role or a setting is another one."""
        if self._state != _state(session):
            return None
        expanded, waits = self._expanded, self._waits
        if self._row is not None and session.instruments is None:
            return _result(session, expanded, LocalRows(expanded.columns, [self._row]), self._columns, waits=False)
        if self._has_parameters:
            query = analyze_query(session, stmt)
            if self._has_constants:
                folding.check(session, query)
            expanded = expand_views(session, query)
            waits = not has_effects(expanded)
        rows = passing_rows(session, expanded, expanded=True)
        return _result(session, expanded, rows, self._columns, waits=waits)


def _constant_row(query: Query) -> tuple[Any, ...] | None:
    """The row of a query that is nothing but constants."""
    exprs = [target.expr for target in query.targets]
    if query != Query(query.targets) or not all(isinstance(expr, Const) for expr in exprs):
        return None
    return tuple([expr.value for expr in exprs if isinstance(expr, Const)])


def _state(session: Session) -> tuple[object, ...]:
    """What checks depend on beside the definitions."""
    return session.role, session.is_nested, session.settings.state


def select(stmt: SelectStmt, session: Session, modifying: Callable[[SelectStmt, Session], Found]) -> Result:
    """`modifying` executes a query with INSERT, UPDATE or DELETE in its WITH list."""
    if stmt.plan is not None:
        result: Result | None = stmt.plan.select(stmt, session)
        if result is not None:
            return result
    query = analyze_query(session, stmt)
    folding.check(session, query)
    marked = [query.rtable[mark.varno - 1].relid for mark in query.row_marks]
    if any(relid and relation(session, relid).persistence != "t" for relid in marked):
        require_writable(session, f"SELECT FOR {query.row_marks[0].strength}")
    locking = locks_rows(query)
    waits = not locking
    if locking:
        query = with_table_locks(session, stmt, query)
    if has_modifying_cte(query.ctes):
        query, changed = modifying(stmt, session)
        rows: LocalRows | PassingRows | SparkRows = LocalRows(query.columns, changed)
    else:
        permissions.check(session, query)
        permissions.check_functions(session, query)
        expanded = expand_views(session, query)
        rows = passing_rows(session, expanded, expanded=True)
        # functions with effects run within the statement: the rows cannot wait for the client
        waits = waits and not has_effects(expanded)
    columns = result_columns(session, query.targets)
    if stmt.plan is not None:
        stmt.plan.keep(session, expanded, columns, waits=waits)
    return _result(session, query, rows, columns, waits=waits)


def _result(
    session: Session,
    query: Query,
    rows: LocalRows | PassingRows | SparkRows,
    columns: tuple[ResultColumn, ...],
    *,
    waits: bool,
) -> Result:
    """`waits`: the rows may be computed when the client reads them."""
    if session.keeps_values:
        if isinstance(rows, SparkRows):
            return Result("SELECT", columns, values=rows)
        kept = LocalRows(query.columns, list(rows))
        return Result(f"SELECT {len(kept.rows)}", columns, values=kept)
    texts = map(texts_for(session, [c.type for c in query.columns]), rows.batches(whole=not session.streams))
    if session.streams and waits:
        from pgrepl.query.streamed import StreamedRows

        return Result("SELECT", columns, StreamedRows(session, texts))
    found = [row for batch in texts for row in batch]
    return Result(f"SELECT {len(found)}", columns, found)


def with_table_locks(session: Session, stmt: SelectStmt, query: Query) -> Query:
    """Lock the tables of locking clauses first, so that the query sees all commits until then."""
    from pgrepl.rows.locking import lock_tables

    session.catalog.check_writable()
    transaction = session.transaction
    if not transaction.can_keep_pending:
        return query
    transaction.prefers_pending = True
    while True:
        tables = [
            level.rtable[mark.varno - 1].relid
            for level in levels(query)
            for mark in level.row_marks
            if is_user_table(level.rtable[mark.varno - 1])
        ]
        if not lock_tables(session, dict.fromkeys(tables), RelationMode.ROW_SHARE):
            return query
        query = analyze_query(session, stmt)


def play(session: Session, query: Query) -> list[tuple[Any, ...]]:
    """The rows of an analysed query."""
    return [row for batch in passing_rows(session, query).batches(whole=True) for row in batch]


def texts_for(session: Session, types: Sequence[int]) -> Callable[[Iterable[tuple[Any, ...]]], list[TextRow]]:
    """What makes the texts of rows, as the client is to get them. A value that is sent in binary format goes along."""
    formats, style = session.result_formats, session.text_style
    if 1 not in formats:
        return lambda rows: as_text(rows, types, style)
    if 0 not in formats:
        return as_values
    writers = [writer(t) for t in types]

    def both(rows: Iterable[tuple[Any, ...]]) -> list[TextRow]:
        return [
            tuple([None if v is None else ValueText(write(v, style), v) for write, v in zip(writers, row, strict=True)])
            for row in rows
        ]

    return both


def as_text(rows: Iterable[tuple[Any, ...]], types: Sequence[int], style: TextStyle) -> list[TextRow]:
    writers = [writer(t) for t in types]
    return [
        tuple([None if v is None else write(v, style) for write, v in zip(writers, row, strict=True)]) for row in rows
    ]


def as_values(rows: Iterable[tuple[Any, ...]]) -> list[TextRow]:
    """Rows that are sent in binary format only: nobody reads their text, unless it is the value."""
    return [tuple([None if v is None else ValueText(v if isinstance(v, str) else "", v) for v in row]) for row in rows]
