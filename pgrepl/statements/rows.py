"""Statements about rows: passed to `query`, `table.create_as` and `writing`, which load on first use."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.session.transaction import require_writable
from pgrepl.query import run
from pgrepl.query.result import Result
from pgrepl.sql.nodes import CopyStmt, CreateTableAsStmt, SelectStmt

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.query.run import Found
    from pgrepl.sql.nodes import ConstraintsSetStmt, TruncateStmt
    from pgrepl.writing.run import Statement


def select(stmt: SelectStmt, session: Session) -> Result:
    if stmt.into is not None:
        from pgrepl.statements.view import create_table_as

        require_writable(session, "SELECT INTO")
        return create_table_as(CreateTableAsStmt(stmt.into, (), replace(stmt, into=None)), session)
    return run.select(stmt, session, _modifying)


def _modifying(stmt: SelectStmt, session: Session) -> Found:
    from pgrepl.writing.run import select_modifying

    return select_modifying(session, stmt)


def modify_rows(stmt: Statement, session: Session) -> Result:
    from pgrepl.writing import run

    return run.modify_rows(stmt, session)


def truncate(stmt: TruncateStmt, session: Session) -> Result:
    from pgrepl.writing import tables

    return tables.truncate(stmt, session)


def set_constraints(stmt: ConstraintsSetStmt, session: Session) -> Result:
    from pgrepl.writing import tables

    return tables.set_constraints(stmt, session)


def copy(stmt: CopyStmt, session: Session) -> Result:
    if stmt.is_from:
        from pgrepl.writing.copy.copy_from import copy_from

        return copy_from(stmt, session)
    from pgrepl.writing.copy.copy_to import copy_to

    return copy_to(stmt, session)
