"""The schema and the persistence of a new relation."""

from __future__ import annotations

from pgrepl.catalog.namespace import (
    TEMPORARY,
    creates_temporary,
    is_temporary,
    schema_for_creation,
    schema_name,
    temporary_schema,
)
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.sql.nodes import RangeVar


def creation_schema(session: Session, name: RangeVar, *, location: bool = True) -> tuple[int, str]:
    """The schema's OID and the relation's persistence, as RangeVarGetAndCheckCreationNamespace finds them."""
    try:
        namespace = _namespace(session, name)
        return namespace, _persistence(session, name.persistence, namespace)
    except PgError as problem:
        raise problem.at(name.location if location else None) from None


def _namespace(session: Session, name: RangeVar) -> int:
    if name.catalog is not None and name.catalog != session.database.name:
        raise PgError(
            "0A000",
            f'cross-database references are not implemented: "{name.catalog}.{name.schema}.{name.name}"',
        )
    unqualified = name.schema is None and (name.persistence == "t" or creates_temporary(session))
    if unqualified or name.schema == TEMPORARY:
        from pgrepl.statements.temporary import require_temporary_schema

        return require_temporary_schema(session)
    return schema_for_creation(session, name.schema)


def _persistence(session: Session, wanted: str, namespace: int) -> str:
    """As RangeVarAdjustRelationPersistence: relations in the session's temporary schema are temporary."""
    own = temporary_schema(session)
    if namespace == own:
        if wanted == "u":
            raise PgError("42P16", "only temporary relations may be created in temporary schemas")
        return "t"
    if wanted == "t":
        raise PgError("42P16", "cannot create temporary relation in non-temporary schema")
    if is_temporary(schema_name(session, namespace)):
        if wanted == "u":
            raise PgError("42P16", "only temporary relations may be created in temporary schemas")
        raise PgError("42P16", "cannot create relations in temporary schemas of other sessions")
    return wanted
