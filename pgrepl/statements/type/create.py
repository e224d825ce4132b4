"""The rows of a new type in pg_type: the type itself and the array over it (TypeCreate)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog import tables
from pgrepl.catalog.acl import ObjectKind
from pgrepl.catalog.classes import CATALOG_NAMESPACE, PG_NAMESPACE, PG_TYPE, TOAST_NAMESPACE, ObjectAddress
from pgrepl.catalog.default_privileges import user_default_acl
from pgrepl.catalog.depend import Dependency, record_dependency
from pgrepl.catalog.namespace import schema_for_creation, schema_name
from pgrepl.catalog.store import insert, new_oid, update
from pgrepl.catalog.user_types import is_type_name_taken, type_in_schema
from pgrepl.errors import PgError
from pgrepl.sql.nodes import RangeVar
from pgrepl.statements.dependencies import record_collations

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_MOST_BYTES = 63  # of a name


def namespace_of_new(session: Session, name: RangeVar) -> int:
    """The schema of a new type, as QualifiedNameGetCreationNamespace finds it."""
    if name.catalog is not None and name.catalog != session.database.name:
        dotted = f"{name.catalog}.{name.schema}.{name.name}"
        raise PgError("0A000", f"cross-database references are not implemented: {dotted}")
    return schema_for_creation(session, name.schema)


def check_name_is_free(session: Session, namespace: int, name: str, hint: str | None = None) -> None:
    """A new type needs a name of its own; an array type in its way gets another one (moveArrayTypeName)."""
    if not is_type_name_taken(session, namespace, name):
        return
    row = type_in_schema(session, namespace, name)
    if row is None or not row.typelem:
        raise PgError("42710", f'type "{name}" already exists', hint=hint)
    update(session, tables.pg_type, {"oid": row.oid}, typname=array_type_name(session, namespace, name))


def array_type_name(session: Session, namespace: int, name: str) -> str:
    """An unused name for the array over a type (makeArrayTypeName)."""
    number = 0
    while True:
        suffix = f"_{number}" if number else ""
        room = _MOST_BYTES - 1 - len(suffix)
        made = "_" + name.encode()[:room].decode(errors="ignore") + suffix
        if not is_type_name_taken(session, namespace, made):
            return made
        number += 1


_PLAIN: dict[str, Any] = {
    "typrelid": 0, "typelem": 0, "typarray": 0, "typnotnull": False, "typbasetype": 0, "typtypmod": -1, "typndims": 0,
    "typcollation": 0, "typdefaultbin": None, "typacl": None,
}  # fmt: skip


def insert_type(session: Session, namespace: int, name: str, *, oid: int = 0, owner: int = 0, **values: Any) -> int:
    """A type and the array over it; returns the type's OID."""
    if namespace in (CATALOG_NAMESPACE, TOAST_NAMESPACE):
        raise PgError(
            "42501",
            f'permission denied to create "{schema_name(session, namespace)}.{name}"',
            detail="System catalog modifications are currently disallowed.",
        )
    oid = oid or new_oid(session)
    array = new_oid(session)
    common = {
        **_PLAIN, "datid": session.database_oid, "typnamespace": namespace, "typowner": owner or session.role,
    }  # fmt: skip
    acl = user_default_acl(session, ObjectKind.TYPE, common["typowner"], namespace)
    values = {**values, "oid": oid, "typname": name, "typarray": array, "typacl": acl}
    insert(session, tables.pg_type, **{**common, **values})
    insert(
        session,
        tables.pg_type,
        **{
            **common, "oid": array, "typname": array_type_name(session, namespace, name), "typtype": "b",
            "typelem": oid, "typcollation": values.get("typcollation", 0),
        },
    )  # fmt: skip
    address = ObjectAddress(PG_TYPE, oid)
    record_dependency(session, address, ObjectAddress(PG_NAMESPACE, namespace))
    record_dependency(session, ObjectAddress(PG_TYPE, array), address, Dependency.INTERNAL)
    for each in (oid, array):
        record_collations(session, ObjectAddress(PG_TYPE, each), [values.get("typcollation", 0)])
    return oid
