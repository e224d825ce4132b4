"""What objects with an owner and a schema have in common when they are dropped, get another owner or move
(AlterObjectOwner_internal, AlterObjectNamespace_internal)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import store
from pgrepl.catalog.acl import ObjectKind, check_owner, has_privilege, is_owner
from pgrepl.catalog.classes import PG_NAMESPACE, TOAST_NAMESPACE, ObjectAddress
from pgrepl.catalog.namespace import is_temporary, schema_name, schema_row
from pgrepl.catalog.roles import check_can_set_role, is_superuser
from pgrepl.catalog.tables import pg_depend
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def check_may_drop(session: Session, word: str, name: str, owner: int, namespace: int) -> None:
    """The owner of the schema may drop it, too."""
    schema = schema_row(session, namespace)
    if schema is None or not is_owner(session, schema.nspowner):
        check_owner(session, word, name, owner)


def check_may_give(session: Session, word: str, name: str, owner: int, namespace: int, new_owner: int) -> None:
    """The role must own the object, and the new owner may create objects in its schema."""
    if is_superuser(session):
        return
    check_owner(session, word, name, owner)
    check_can_set_role(session, session.role, new_owner)
    schema = schema_row(session, namespace)
    assert schema is not None
    if not has_privilege(session, ObjectKind.SCHEMA, schema, "CREATE", new_owner):
        raise PgError("42501", f"permission denied for schema {schema.nspname}")


def check_may_move(session: Session, before: int, namespace: int) -> None:
    """As CheckSetNamespace does."""
    if is_temporary(schema_name(session, namespace)) or is_temporary(schema_name(session, before)):
        raise PgError("0A000", "cannot move objects into or out of temporary schemas")
    if TOAST_NAMESPACE in (namespace, before):
        raise PgError("0A000", "cannot move objects into or out of TOAST schema")


def depend_on_schema(session: Session, address: ObjectAddress, namespace: int) -> None:
    """The object that has moved depends on its new schema."""
    where = {
        "datid": session.database_oid, "classid": address.classid, "objid": address.objid, "objsubid": 0,
        "refclassid": PG_NAMESPACE,
    }  # fmt: skip
    store.update(session, pg_depend, where, refobjid=namespace)
