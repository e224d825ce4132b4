"""The columns and rows that a query gives to a new table or materialized view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.tree import Query, has_modifying_cte
from pgrepl.statements.table.columns import NewColumn, column_of_type

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.query.rowset import LocalRows, SparkRows


def columns_of(session: Session, query: Query, names: tuple[str, ...]) -> list[NewColumn]:
    """The columns that the query gives, under the names of the column list."""
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


def query_rows(session: Session, query: Query) -> LocalRows | SparkRows:
    """The rows of the query, which the current role may read."""
    from pgrepl.query import permissions
    from pgrepl.query.rowset import LocalRows, rows_of

    permissions.check(session, query)
    permissions.check_functions(session, query)
    if has_modifying_cte(query.ctes):
        from pgrepl.writing.selecting import modifying_rows

        return LocalRows(query.columns, modifying_rows(session, query))
    return rows_of(session, query)
