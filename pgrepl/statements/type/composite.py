"""CREATE TYPE … AS (…): a composite type is a relation without rows, and its row type (DefineCompositeType)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_CLASS, PG_TYPE, ObjectAddress
from pgrepl.catalog.depend import Dependency, record_dependency
from pgrepl.catalog.relation import relation
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import CompositeTypeStmt
from pgrepl.statements.table.columns import NewColumn, finish, refuse_duplicates, set_type
from pgrepl.statements.table.heap import create_relation
from pgrepl.statements.type.create import check_name_is_free, insert_type, namespace_of_new

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def create_composite_type(stmt: CompositeTypeStmt, session: Session) -> Result:
    name = stmt.relation.name
    namespace = namespace_of_new(session, stmt.relation)
    check_name_is_free(session, namespace, name)
    columns = []
    for definition in stmt.columns:
        column = NewColumn(definition.name)
        assert definition.type_name is not None
        try:
            set_type(session, column, definition.type_name, definition.collation)
        except PgError as error:
            error.report = replace(error.report, position=None)  # the statement's text is not known there
            raise
        columns.append(column)
    refuse_duplicates(columns)
    finish(session, columns)
    oid = create_relation(session, name, namespace, "c", columns)
    row_type = relation(session, oid).type
    insert_type(session, namespace, name, oid=row_type, typtype="c", typrelid=oid)
    record_dependency(session, ObjectAddress(PG_CLASS, oid), ObjectAddress(PG_TYPE, row_type), Dependency.INTERNAL)
    return Result("CREATE TYPE")
