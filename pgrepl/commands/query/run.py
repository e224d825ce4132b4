"""SELECT and VALUES as statements: analyse, play, and give the rows in their text form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pgrepl.catalog.session import Session
from pgrepl.commands.base import Result, ResultColumn, execute
from pgrepl.commands.query import permissions
from pgrepl.commands.query.env import Env
from pgrepl.commands.query.execute import compile_query
from pgrepl.expr.context import Context
from pgrepl.expr.query import analyze_query
from pgrepl.expr.rewrite import expand_views
from pgrepl.expr.tree import Query
from pgrepl.expr.typefacts import base_and_typmod
from pgrepl.sql.nodes import CreateTableAsStmt, SelectStmt
from pgrepl.types.text import TextStyle, writer


@execute.register(SelectStmt)
def select(stmt: SelectStmt, session: Session) -> Result:
    if stmt.into is not None:
        return execute(CreateTableAsStmt(stmt.into, (), replace(stmt, into=None)), session)
    query = analyze_query(session, stmt)
    permissions.check(session, query)
    permissions.check_functions(session, query)
    rows = play(session, query)
    columns = tuple(ResultColumn(c.name, *base_and_typmod(c.type, c.typmod)) for c in query.columns)
    return Result(f"SELECT {len(rows)}", columns, as_text(rows, [c.type for c in query.columns], session.text_style))


def play(session: Session, query: Query) -> list[tuple[Any, ...]]:
    """The rows of an analysed query."""
    return compile_query(expand_views(session, query), Context(session))(Env([], None))


def run_system_view(session: Session, text: SelectStmt) -> list[tuple[Any, ...]]:
    """A view of our own is read with the rights of the system."""
    return play(session, analyze_query(session, text))


def as_text(rows: list[tuple[Any, ...]], types: list[int], style: TextStyle) -> list[tuple[str | None, ...]]:
    writers = [writer(t) for t in types]
    return [
        tuple([None if v is None else write(v, style) for write, v in zip(writers, row, strict=True)]) for row in rows
    ]
