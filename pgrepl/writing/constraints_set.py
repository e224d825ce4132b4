"""SET CONSTRAINTS: deferrable constraints are checked at the commit, or now and after each statement
(AfterTriggerSetState)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog import store
from pgrepl.catalog.namespace import explicit_schema, search_path
from pgrepl.catalog.tables import pg_constraint
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.rows.foreign import fire_deferred
from pgrepl.rows.foreign_modes import Modes, modes, set_modes
from pgrepl.sql.nodes import ConstraintsSetStmt

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.sql.nodes import RangeVar


def set_constraints(stmt: ConstraintsSetStmt, session: Session) -> Result:
    if session.transaction.is_outside_block:
        session.notice("WARNING", "SET CONSTRAINTS can only be used in transaction blocks", sqlstate="25P01")
    said = modes(session)
    if stmt.constraints is None:
        said = Modes(stmt.deferred, fired=said.fired)
    else:
        found = [oid for name in stmt.constraints for oid in _named(session, name, stmt.deferred)]
        for oid in found:  # and those of partitions
            found += [row.oid for row in store.rows(session, pg_constraint, conparentid=oid) if row.oid not in found]
        changed = dict(said.single) | dict.fromkeys(found, stmt.deferred)
        said = replace(said, single=tuple(changed.items()))
    set_modes(session, said)
    if not stmt.deferred:
        fire_deferred(session)
    return Result("SET CONSTRAINTS")


def _named(session: Session, name: RangeVar, deferred: bool) -> list[int]:
    """The deferrable constraints of this name in the first schema that has the name."""
    if name.catalog is not None and name.catalog != session.database.name:
        raise PgError(
            "0A000", f'cross-database references are not implemented: "{name.catalog}.{name.schema}.{name.name}"'
        )
    schemas = search_path(session) if name.schema is None else [explicit_schema(session, name.schema)]
    for schema in schemas:
        rows = store.rows(session, pg_constraint, datid=session.database_oid, connamespace=schema, conname=name.name)
        rows = [row for row in rows if row.datid == session.database_oid]
        for row in rows:
            if deferred and not row.condeferrable:
                raise PgError("42809", f'constraint "{name.name}" is not deferrable')
        if rows:
            return [row.oid for row in rows if row.condeferrable]
    raise PgError("42704", f'constraint "{name.name}" does not exist')
