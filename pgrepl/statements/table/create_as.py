"""CREATE TABLE … AS and SELECT … INTO: a table with the columns of a query, and its rows."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.catalog.relation import oid_in_schema, relation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr.analyze import analyze_query
from pgrepl.expr.tree import Query
from pgrepl.query.result import Result
from pgrepl.sql.nodes import CreateTableAsStmt, ExecuteStmt, ObjectType, SelectStmt, Statement
from pgrepl.statements.table.as_query import columns_of, query_rows
from pgrepl.statements.table.create import define_columns
from pgrepl.statements.table.creation import creation_schema
from pgrepl.writing.create_as import append


def create_table_as(stmt: CreateTableAsStmt, session: Session) -> Result:
    """As ExecCreateTableAs does."""
    if stmt.kind is ObjectType.MATVIEW:
        from pgrepl.statements.materialized_view import create_materialized_view

        return create_materialized_view(stmt, session)
    query = _analyzed(session, stmt.query)
    name = replace(stmt.relation, location=-1)
    namespace, persistence = creation_schema(session, name)
    if oid_in_schema(session, namespace, name.name) is not None:
        if not stmt.if_not_exists:
            raise PgError("42P07", f'relation "{name.name}" already exists')
        session.notice("NOTICE", f'relation "{name.name}" already exists, skipping', sqlstate="42P07")
        return Result("CREATE TABLE AS")
    rows = query_rows(session, query) if stmt.with_data else None
    table = define_columns(session, stmt, namespace, persistence, columns_of(session, query, stmt.columns))
    if rows is None:
        return Result("CREATE TABLE AS" if isinstance(stmt.query, SelectStmt) else "SELECT 0")
    return Result(f"SELECT {append(session, relation(session, table), rows)}")


def _analyzed(session: Session, stmt: Statement) -> Query:
    if isinstance(stmt, SelectStmt):
        return analyze_query(session, stmt)
    from pgrepl.statements.prepared import binding

    assert isinstance(stmt, ExecuteStmt)
    with binding(session, stmt) as prepared:
        if not isinstance(prepared, SelectStmt):
            raise PgError("42809", "prepared statement is not a SELECT")
        return analyze_query(session, prepared)
