"""The columns that use a type, which a change of the type would have to rewrite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.classes import PG_CLASS, PG_TYPE, ObjectAddress
from pgrepl.catalog.depend import dependents_of
from pgrepl.catalog.relation import relation
from pgrepl.catalog.user_types import type_row
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def refuse_users(session: Session, type_: tables.pg_type, name: str) -> None:
    """No column of a table may be of the type, or of an array or composite type that contains it
    (find_composite_type_dependencies)."""
    for row in dependents_of(session, ObjectAddress(PG_TYPE, type_.oid)):
        if row.classid == PG_TYPE:
            other = type_row(session, row.objid)
            if other is not None:
                refuse_users(session, other, name)
        elif row.classid == PG_CLASS and row.objsubid > 0:
            found = relation(session, row.objid)
            if found.kind in "rmp":
                attribute = found.attributes[row.objsubid - 1].name
                message = f'cannot alter type "{name}" because column "{found.name}.{attribute}" uses it'
                raise PgError("0A000", message)
            if found.kind == "c" and (outer := type_row(session, found.type)) is not None:
                refuse_users(session, outer, name)
