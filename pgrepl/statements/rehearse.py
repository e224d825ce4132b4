"""A rehearsal: statements in a copy of the catalog without rows and files; definitions really, statements about rows by
their analysis only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.catalog.store import bootstrap
from pgrepl.catalog.store.opening import copy_file, open_catalog
from pgrepl.catalog.store.sql import SET_DATA_PATH
from pgrepl.catalog.store.system import FIRST_NORMAL_OID
from pgrepl.expr.analyse.analyze import analyze_modifying, analyze_query
from pgrepl.expr.tree import SubLink, has_modifying_cte
from pgrepl.expr.walk import is_volatile, query_exprs, subqueries, walk
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.lake import sql
from pgrepl.query import run
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
from pgrepl.sql.statements import command_tag
from pgrepl.statements.utility import execute
from pgrepl.statements.view import create_materialized_view, refresh_materialized_view

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.connection import CatalogConnection
    from pgrepl.expr.dml_tree import Modify
    from pgrepl.expr.tree import Query

NAME = "catalog.db"

_OF_FILES = (
    "ducklake_data_file", "ducklake_delete_file", "ducklake_file_column_stats", "ducklake_file_partition_value",
    "ducklake_file_variant_stats", "ducklake_files_scheduled_for_deletion", "ducklake_table_column_stats",
    "pgrepl_file", "pgrepl_inlined",
)  # fmt: skip


def empty_catalog(folder: Path) -> Path:
    path = folder / NAME
    open_catalog(path).close()
    return path


def copy_without_rows(catalog: str, folder: Path) -> Path:
    """A copy of the catalog, as of one moment, in the folder."""
    if "://" in catalog:
        raise unsupported("a rehearsal with a catalog on a database server")
    path = folder / NAME
    copy_file(Path(catalog).absolute(), catalog, path)
    copy = open_catalog(path)  # one of an older format is brought up to date here
    try:
        link = copy.connect()
        try:
            _remove_rows(link, f"{path}.files/")
        finally:
            link.close()
    except PgError as problem:
        raise PgError(problem.sqlstate, f'catalog "{catalog}": {problem.message}', severity="FATAL") from problem
    finally:
        copy.close()
    return path


def _remove_rows(link: CatalogConnection, data_path: str) -> None:
    link.begin(write=True)
    for table, _ in link.execute(sql.EVERY_INLINED_TABLE):
        link.execute(sql.delete_inlined_rows(table, "TRUE"))
    bootstrap.empty(link, _OF_FILES)
    link.execute(sql.NO_ROWS_IN_TABLES)
    bootstrap.forget_processes(link)
    link.execute(SET_DATA_PATH, (data_path,))
    link.commit()


# --- execute ----------------------------------------------------------------------------------------------------------


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
            tag = "INSERT 0 0" if isinstance(stmt, InsertStmt) else f"{command_tag(stmt)} 0"
            return Result(tag, columns or None, [])
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
        from pgrepl.statements.routine.call import compiled_do, prepare_call

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
    query = analyze_query(session, stmt)
    run.check(session, query)
    run.check_functions(session, query)
    for cte in query.ctes:
        if cte.modify is not None:
            _plan(cte.modify, session)
    return query


def _planned(stmt: InsertStmt | UpdateStmt | DeleteStmt | MergeStmt, session: Session) -> tuple[ResultColumn, ...]:
    """The columns that RETURNING gives."""
    written = analyze_modifying(session, stmt)
    for cte in written.ctes:
        if cte.modify is not None:
            _plan(cte.modify, session)
    _plan(written, session)
    return result_columns(session, written.returning)


def _plan(modify: Modify, session: Session) -> None:
    from pgrepl.writing.planning import plan

    plan(session, modify)


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
    for level in _levels(query):
        if has_modifying_cte(level.ctes):
            return False
        if any(rte.relid >= FIRST_NORMAL_OID for rte in level.rtable) or any(map(is_volatile, query_exprs(level))):
            return False
    return True


def _levels(query: Query) -> Iterator[Query]:
    """The query and all queries in it."""
    yield query
    for nested in subqueries(query):
        yield from _levels(nested)
    for expr in query_exprs(query):
        for part in walk(expr):
            if isinstance(part, SubLink) and part.query is not None:
                yield from _levels(part.query)
