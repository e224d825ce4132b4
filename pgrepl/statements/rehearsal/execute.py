"""The execution of statements in a rehearsal: definitions really, statements about rows by their analysis only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.classes import FIRST_NORMAL_OID
from pgrepl.errors import PgError
from pgrepl.query.result import Result, ResultColumn, listed_columns, result_columns
from pgrepl.replication.subscriber.connection import NotContacted
from pgrepl.sql.nodes import (
    MODIFYING,
    CallStmt,
    ColumnRef,
    CopyStmt,
    CreateTableAsStmt,
    DeleteStmt,
    DoStmt,
    ExplainStmt,
    FuncCall,
    InsertStmt,
    MergeStmt,
    ObjectType,
    RefreshMatViewStmt,
    ResTarget,
    SelectStmt,
    Statement,
    UpdateStmt,
)
from pgrepl.sql.tags import command_tag
from pgrepl.statements.materialized_view import create_materialized_view, refresh_materialized_view
from pgrepl.statements.utility import execute

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.dml.plan import Modify
    from pgrepl.expr.tree import Query


class Rehearsal:
    """Carries out statements of one session. `wants_rows`: the rows of the next query steer what comes after it."""

    def __init__(self) -> None:
        self.wants_rows = False
        self.unknown: tuple[ResultColumn, ...] | None = None  # columns of the last query, whose rows are not known
        self.notes: list[str] = []  # what was not carried out

    def execute(self, stmt: Statement, session: Session) -> Result:
        self.unknown = None
        if isinstance(stmt, ExplainStmt):
            return self._explain(stmt, session)
        if isinstance(stmt, CopyStmt):
            return _copy(stmt, session)
        if isinstance(stmt, SelectStmt) and stmt.into is None:
            return self._select(stmt, session)
        if isinstance(stmt, SelectStmt):
            assert stmt.into is not None
            stmt = CreateTableAsStmt(stmt.into, (), replace(stmt, into=None))
        if isinstance(stmt, CreateTableAsStmt) and stmt.kind is ObjectType.MATVIEW:
            return create_materialized_view(stmt, session, fill=False)
        if isinstance(stmt, RefreshMatViewStmt):
            return refresh_materialized_view(stmt, session, fill=False)
        if isinstance(stmt, CreateTableAsStmt) and isinstance(stmt.query, SelectStmt):
            analyzed(stmt.query, session)
            stmt = replace(stmt, with_data=False)
        if isinstance(stmt, MODIFYING):
            columns = _planned(stmt, session)
            self.unknown = columns or None
            return Result(_tag(stmt), columns or None, [])
        if isinstance(stmt, (CallStmt, DoStmt)):
            return self._unrun(stmt, session)
        try:
            return execute(stmt, session)
        except NotContacted as withheld:
            self.notes.append(withheld.message)
            return Result(command_tag(stmt))

    def _select(self, stmt: SelectStmt, session: Session) -> Result:
        query = analyzed(stmt, session)
        if _sets_parameters(stmt) or (self.wants_rows and _is_known(query)):
            return execute(stmt, session)
        self.unknown = listed_columns(query.targets)
        return Result("SELECT 0", self.unknown, [])

    def _unrun(self, stmt: CallStmt | DoStmt, session: Session) -> Result:
        """CALL and DO are checked, but what they would do is not known without doing it."""
        from pgrepl.statements.routine.do import compiled_do
        from pgrepl.statements.routine.procedure_call import prepare_call

        if isinstance(stmt, DoStmt):
            compiled_do(stmt, session)
        else:
            prepare_call(session, stmt)
        self.notes.append(f"{command_tag(stmt)} was checked, not run: what it would change is not known")
        return Result(command_tag(stmt))

    def _explain(self, stmt: ExplainStmt, session: Session) -> Result:
        from pgrepl.statements.explain import described_column
        from pgrepl.statements.explain_options import read_options

        read_options(stmt.options)
        inner = stmt.query.query if isinstance(stmt.query, CreateTableAsStmt) else stmt.query
        if isinstance(inner, SelectStmt):
            analyzed(replace(inner, into=None), session)
        elif isinstance(inner, MODIFYING):
            _planned(inner, session)
        self.unknown = (described_column(session, stmt),)
        return Result("EXPLAIN", self.unknown, [])


def analyzed(stmt: SelectStmt, session: Session) -> Query:
    """The query's typed tree; its privileges have been checked, and statements in its WITH list planned."""
    from pgrepl.expr.analyze import analyze_query
    from pgrepl.query import permissions

    query = analyze_query(session, stmt)
    permissions.check(session, query)
    permissions.check_functions(session, query)
    for cte in query.ctes:
        if cte.modify is not None:
            _plan(cte.modify, session)
    return query


def _planned(stmt: InsertStmt | UpdateStmt | DeleteStmt | MergeStmt, session: Session) -> tuple[ResultColumn, ...]:
    """The columns that RETURNING gives."""
    from pgrepl.expr.analyze import analyze_modifying

    written = analyze_modifying(session, stmt)
    for cte in written.ctes:
        if cte.modify is not None:
            _plan(cte.modify, session)
    _plan(written, session)
    return result_columns(session, written.returning)


def _plan(modify: Modify, session: Session) -> None:
    from pgrepl.writing.planning import plan

    plan(session, modify)


def _tag(stmt: Statement) -> str:
    return "INSERT 0 0" if isinstance(stmt, InsertStmt) else f"{command_tag(stmt)} 0"


def _copy(stmt: CopyStmt, session: Session) -> Result:
    query = stmt.query
    if stmt.is_from:
        from pgrepl.writing.copy import copy_from

        copy_from.check(stmt, session)
    elif isinstance(query, MODIFYING):
        if not query.returning:
            raise PgError("0A000", "COPY query must have a RETURNING clause")
        _planned(query, session)
    else:
        from pgrepl.writing.copy import copy_to

        copy_to.prepared(stmt, session)
    return Result("COPY 0")


def _sets_parameters(stmt: SelectStmt) -> bool:
    """Is it SELECT set_config(…), which later statements depend on, and nothing else?"""
    return (
        bool(stmt.targets)
        and not stmt.from_
        and all(
            isinstance(target, ResTarget)
            and isinstance(target.value, FuncCall)
            and target.value.name[-1] == "set_config"
            and not any(isinstance(argument, (ColumnRef, FuncCall)) for argument in target.value.args)
            for target in stmt.targets
        )
    )


def _is_known(query: Query) -> bool:
    """Do the query's rows depend on nothing but definitions, so that they are the same here?"""
    from pgrepl.expr.tree import has_modifying_cte
    from pgrepl.expr.walk import is_volatile, query_exprs

    for each in _levels(query):
        if has_modifying_cte(each.ctes):
            return False
        if any(rte.relid >= FIRST_NORMAL_OID for rte in each.rtable) or any(map(is_volatile, query_exprs(each))):
            return False
    return True


def _levels(query: Query) -> Iterator[Query]:
    """The query and all queries in it."""
    from pgrepl.expr.tree import SubLink
    from pgrepl.expr.walk import query_exprs, subqueries, walk

    yield query
    for nested in subqueries(query):
        yield from _levels(nested)
    for expr in query_exprs(query):
        for part in walk(expr):
            if isinstance(part, SubLink) and part.query is not None:
                yield from _levels(part.query)
