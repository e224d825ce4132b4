"""Comments on objects: those of a database (pg_description) and those that all databases share (pg_shdescription)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.classes import (
    PG_AM,
    PG_EXTENSION,
    PG_LANGUAGE,
    PLPGSQL_EXTENSION,
    PLPGSQL_LANGUAGE,
    ObjectAddress,
)
from pgrepl.catalog.store import insert, one
from pgrepl.catalog.tables import pg_description, pg_shdescription

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

PLPGSQL = "PL/pgSQL procedural language"
OF_INITDB: dict[tuple[int, int], str] = {
    (PG_LANGUAGE, 12): "built-in functions",
    (PG_LANGUAGE, 13): "dynamically-loaded C functions",
    (PG_LANGUAGE, 14): "SQL-language functions",
    (PG_LANGUAGE, PLPGSQL_LANGUAGE): PLPGSQL,
    (PG_EXTENSION, PLPGSQL_EXTENSION): PLPGSQL,
    (PG_AM, 2): "heap table access method",
    (PG_AM, 403): "b-tree index access method",
    (PG_AM, 405): "hash index access method",
    (PG_AM, 783): "GiST index access method",
    (PG_AM, 2742): "GIN index access method",
    (PG_AM, 4000): "SP-GiST index access method",
    (PG_AM, 3580): "block range index (BRIN) access method",
}  # (table, OID): comments that initdb makes


def comment_on(session: Session, classid: int, oid: int, column: int = 0) -> str | None:
    if (classid, oid) in OF_INITDB:
        return OF_INITDB[classid, oid]
    row = one(session, pg_description, datid=session.database_oid, objoid=oid, classoid=classid, objsubid=column)
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
        datid=session.database_oid,
        classoid=address.classid,
        objoid=address.objid,
        objsubid=address.subid,
        description=text,
    )
