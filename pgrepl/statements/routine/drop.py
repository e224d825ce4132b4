"""DROP FUNCTION | PROCEDURE | ROUTINE (RemoveObjects)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_PROC, ObjectAddress
from pgrepl.errors import PgError
from pgrepl.expr.typenames import type_name_text
from pgrepl.query.result import Result
from pgrepl.sql.nodes import DropFunctionStmt, RoutineName
from pgrepl.sql.tags import command_tag
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.in_schema import check_may_drop
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
        check_may_drop(session, routine_word(found), found.proname, found.proowner, found.pronamespace)
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


def routine_word(routine: pg_proc) -> str:
    return "procedure" if routine.prokind == "p" else "function"
