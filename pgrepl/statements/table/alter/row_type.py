"""A table whose row type is the type of another table's column cannot change its rows."""

from __future__ import annotations

from pgrepl.catalog.classes import PG_CLASS, PG_TYPE, ObjectAddress
from pgrepl.catalog.depend import dependents_of
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError


def refuse_used_row_type(session: Session, rel: Relation, row_type: int = 0) -> None:
    """As find_composite_type_dependencies does. Views of the type, or of views of it, count if a table has a column of
    theirs."""
    row_type = row_type or rel.type
    for row in dependents_of(session, ObjectAddress(PG_TYPE, row_type)):
        if row.classid != PG_CLASS:
            continue
        user = relation(session, row.objid)
        attribute = next((a for a in user.columns if a.num == row.objsubid or a.type == row_type), None)
        if attribute is None:
            continue
        if user.kind in "rmp":
            raise PgError(
                "0A000",
                f'cannot alter table "{rel.name}" because column "{user.name}.{attribute.name}" uses its row type',
            )
        if user.type:
            refuse_used_row_type(session, rel, user.type)
