"""DROP FUNCTION | PROCEDURE | ROUTINE (RemoveObjects)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.acl import check_owner, is_owner
from pgrepl.catalog.classes import PG_PROC, ObjectAddress
from pgrepl.catalog.namespace import schema_row
from pgrepl.errors import PgError
from pgrepl.expr.typenames import type_name_text
from pgrepl.query.result import Result
from pgrepl.sql.nodes import DropFunctionStmt, RoutineName
from pgrepl.sql.tags import command_tag
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.routine.find import find_routine_or_none

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.catalog.tables import pg_proc


def drop_function(stmt: DropFunctionStmt, session: Session) -> Result:
    addresses = []
    for wanted in stmt.routines:
        found = find_routine_or_none(session, stmt.kind, wanted)
        if isinstance(found, PgError):
            if not stmt.missing_ok:
                raise found
            session.notice("NOTICE", f"{_missing(stmt, wanted, found)}, skipping")
            continue
        check_may_drop(session, found)
        addresses.append(ObjectAddress(PG_PROC, found.oid))
    if addresses:
        drop_objects(session, addresses, cascade=stmt.cascade)
    return Result(command_tag(stmt))


def _missing(stmt: DropFunctionStmt, wanted: RoutineName, problem: PgError) -> str:
    """As does_not_exist_skipping: types as they were written."""
    if problem.sqlstate != "42883":
        return problem.message
    types = [type_name_text(p.type_name) for p in wanted.parameters or () if p.is_input]
    return f"{stmt.kind.value} {'.'.join(wanted.name)}({','.join(types)}) does not exist"


def check_may_drop(session: Session, routine: pg_proc) -> None:
    """The owner of the schema may drop it, too."""
    schema = schema_row(session, routine.pronamespace)
    if schema is None or not is_owner(session, schema.nspowner):
        check_owner(session, routine_word(routine), routine.proname, routine.proowner)


def routine_word(routine: pg_proc) -> str:
    return "procedure" if routine.prokind == "p" else "function"
