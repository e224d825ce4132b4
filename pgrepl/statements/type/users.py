"""The columns that use a type, which a change of the type would have to rewrite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_CLASS, PG_TYPE, ObjectAddress
from pgrepl.catalog.depend import dependents_of
from pgrepl.catalog.relation import relation
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def refuse_users(session: Session, typoid: int, name: str) -> None:
    """No column of a table may be of the type, or of an array or row type that contains it
    (find_composite_type_dependencies)."""
    for row in dependents_of(session, ObjectAddress(PG_TYPE, typoid)):
        if row.classid == PG_TYPE:
            refuse_users(session, row.objid, name)
        elif row.classid == PG_CLASS and row.objsubid > 0:
            found = relation(session, row.objid)
            if found.kind in "rmp":
                attribute = found.attributes[row.objsubid - 1].name
                message = f'cannot alter type "{name}" because column "{found.name}.{attribute}" uses it'
                raise PgError("0A000", message)
            if found.type:
                refuse_users(session, found.type, name)
