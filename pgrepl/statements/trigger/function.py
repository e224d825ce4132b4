"""The function that a trigger calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.acl import check_execute
from pgrepl.catalog.routines import is_user_routine, routine_row
from pgrepl.errors import PgError
from pgrepl.expr.calls import procs_named
from pgrepl.expr.scope import Scope
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def trigger_function(session: Session, name: tuple[str, ...]) -> int:
    """The OID of the function without parameters that has this name; it must return trigger."""
    found = next((proc for proc in procs_named(Scope(session), name) if not proc.nargs and proc.kind == "f"), None)
    written = ".".join(name)
    if found is not None and is_user_routine(found.oid):
        row = routine_row(session, found.oid)
        assert row is not None
        check_execute(session, row)
    if found is None:
        raise PgError("42883", f"function {written}() does not exist")
    if found.rettype != oids.TRIGGER:
        raise PgError("42P17", f"function {written} must return type trigger")
    return found.oid
