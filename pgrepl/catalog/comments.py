"""Comments on objects: those of a database (pg_description) and those that all databases share (pg_shdescription)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.classes import ObjectAddress
from pgrepl.catalog.store import insert, one
from pgrepl.catalog.tables import pg_description, pg_shdescription

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def comment_on(session: Session, classid: int, oid: int, column: int = 0) -> str | None:
    row = one(session, pg_description, datid=session.database.oid, objoid=oid, classoid=classid, objsubid=column)
    return None if row is None else str(row.description)


def shared_comment_on(session: Session, classid: int, oid: int) -> str | None:
    """The comment on a database or a role."""
    row = one(session, pg_shdescription, objoid=oid, classoid=classid)
    return None if row is None else str(row.description)


def put_comment(session: Session, address: ObjectAddress, text: str) -> None:
    """Store the comment on an object that had none."""
    insert(
        session,
        pg_description,
        datid=session.database.oid,
        classoid=address.classid,
        objoid=address.objid,
        objsubid=address.subid,
        description=text,
    )
