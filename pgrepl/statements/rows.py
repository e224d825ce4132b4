"""Statements about rows: SELECT, INSERT, UPDATE, DELETE, MERGE, TRUNCATE, COPY, SET CONSTRAINTS. Each is handed to the
room that knows how, which loads when it is wanted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.transaction import require_writable
from pgrepl.query.result import Result
from pgrepl.sql.nodes import (
    ConstraintsSetStmt,
    CopyStmt,
    CreateTableAsStmt,
    DeleteStmt,
    InsertStmt,
    MergeStmt,
    SelectStmt,
    TruncateStmt,
    UpdateStmt,
)
from pgrepl.statements.base import execute

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.query.run import Found


@execute.register(SelectStmt)
def select(stmt: SelectStmt, session: Session) -> Result:
    if stmt.into is not None:
        require_writable(session, "SELECT INTO")
        return execute(CreateTableAsStmt(stmt.into, (), replace(stmt, into=None)), session)
    from pgrepl.query import run

    return run.select(stmt, session, _modifying)


def _modifying(stmt: SelectStmt, session: Session) -> Found:
    from pgrepl.writing.selecting import select_modifying

    return select_modifying(session, stmt)


@execute.register(InsertStmt)
@execute.register(UpdateStmt)
@execute.register(DeleteStmt)
@execute.register(MergeStmt)
def modify_rows(stmt: InsertStmt | UpdateStmt | DeleteStmt | MergeStmt, session: Session) -> Result:
    from pgrepl.writing import run

    return run.modify_rows(stmt, session)


@execute.register(TruncateStmt)
def truncate(stmt: TruncateStmt, session: Session) -> Result:
    from pgrepl.writing import truncate

    return truncate.truncate(stmt, session)


@execute.register(CopyStmt)
def copy(stmt: CopyStmt, session: Session) -> Result:
    if stmt.is_from:
        from pgrepl.writing.copy.copy_from import copy_from

        return copy_from(stmt, session)
    from pgrepl.writing.copy.copy_to import copy_to

    return copy_to(stmt, session)


@execute.register(ConstraintsSetStmt)
def set_constraints(stmt: ConstraintsSetStmt, session: Session) -> Result:
    from pgrepl.writing import constraints_set

    return constraints_set.set_constraints(stmt, session)
