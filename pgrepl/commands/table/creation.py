"""Where a new relation goes: its schema, and whether it lasts."""

from __future__ import annotations

from pgrepl.catalog.namespace import schema_for_creation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError, unsupported
from pgrepl.sql.nodes import RangeVar


def creation_schema(session: Session, name: RangeVar, *, what: str = "TABLE", location: bool = True) -> tuple[int, str]:
    """The schema's OID and the relation's persistence, as RangeVarGetAndCheckCreationNamespace finds them."""
    where = name.location if location else -1
    if name.catalog is not None and name.catalog != session.database.name:
        raise PgError(
            "0A000",
            f'cross-database references are not implemented: "{name.catalog}.{name.schema}.{name.name}"',
            location=where,
        )
    if name.schema == "pg_temp" or (name.persistence == "t" and name.schema is None):
        raise unsupported(f"CREATE TEMPORARY {what}")
    namespace = schema_for_creation(session, name.schema, where)
    if name.persistence == "t":
        raise PgError("42P16", "cannot create temporary relation in non-temporary schema", location=where)
    return namespace, name.persistence
