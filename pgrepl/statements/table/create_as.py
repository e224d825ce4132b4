"""CREATE TABLE … AS and SELECT … INTO: a table with the columns of a query, and its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import oid_in_schema, relation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError, unsupported
from pgrepl.expr import typefacts
from pgrepl.expr.analyze import analyze_query
from pgrepl.expr.tree import Query
from pgrepl.query.result import Result
from pgrepl.sql.nodes import CreateTableAsStmt, ObjectType, SelectStmt
from pgrepl.statements.table.columns import NewColumn, column_of_type
from pgrepl.statements.table.create import define_columns
from pgrepl.statements.table.creation import creation_schema
from pgrepl.writing.create_as import append

if TYPE_CHECKING:
    from pgrepl.query.rowset import LocalRows, SparkRows


def create_table_as(stmt: CreateTableAsStmt, session: Session) -> Result:
    """As ExecCreateTableAs does."""
    if stmt.kind is not ObjectType.TABLE:
        raise unsupported(f"CREATE {stmt.kind.value}")
    if not isinstance(stmt.query, SelectStmt):
        raise unsupported("CREATE TABLE AS EXECUTE")
    query = analyze_query(session, stmt.query)
    name = replace(stmt.relation, location=-1)
    namespace, persistence = creation_schema(session, name)
    if oid_in_schema(session, namespace, name.name) is not None:
        if not stmt.if_not_exists:
            raise PgError("42P07", f'relation "{name.name}" already exists')
        session.notice("NOTICE", f'relation "{name.name}" already exists, skipping', sqlstate="42P07")
        return Result("CREATE TABLE AS")
    rows = _rows(session, query) if stmt.with_data else None
    table = define_columns(session, stmt, namespace, persistence, _columns(session, query, stmt.columns))
    if rows is None:
        return Result("CREATE TABLE AS")
    return Result(f"SELECT {append(session, relation(session, table), rows)}")


def _columns(session: Session, query: Query, names: tuple[str, ...]) -> list[NewColumn]:
    if len(names) > len(query.columns):
        raise PgError("42601", "too many column names were specified")
    made = []
    for number, column in enumerate(query.columns):
        name = names[number] if number < len(names) else column.name
        if not column.collation and typefacts.is_collatable(column.type):
            type_ = typefacts.type_text(session, column.type)
            raise PgError(
                "42P22",
                f'no collation was derived for column "{name}" with collatable type {type_}',
                hint="Use the COLLATE clause to set the collation explicitly.",
            )
        made.append(column_of_type(name, column.type, column.typmod, column.collation))
    return made


def _rows(session: Session, query: Query) -> LocalRows | SparkRows:
    from pgrepl.query import permissions
    from pgrepl.query.rowset import LocalRows, rows_of

    permissions.check(session, query)
    permissions.check_functions(session, query)
    if any(cte.modify is not None for cte in query.ctes):
        from pgrepl.writing.selecting import modifying_rows

        return LocalRows(query.columns, modifying_rows(session, query))
    return rows_of(session, query)
