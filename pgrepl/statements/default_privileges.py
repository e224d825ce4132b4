"""ALTER DEFAULT PRIVILEGES (aclchk.c)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.acl import ALL_RIGHTS, ObjectKind, parse_acl, store_acl
from pgrepl.catalog.classes import PG_DEFAULT_ACL, PG_NAMESPACE, ObjectAddress
from pgrepl.catalog.default_privileges import EVERYWHERE, KINDS, OBJECT_TYPES, built_in, default_entry, in_order
from pgrepl.catalog.depend import Dependency, record_dependency
from pgrepl.catalog.namespace import schema_by_name
from pgrepl.catalog.roles import has_privs_of_role, resolve_role
from pgrepl.catalog.store import insert, new_oid, update
from pgrepl.catalog.tables import pg_default_acl
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterDefaultPrivilegesStmt, DefElem, GrantStmt
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.grant import KINDS_OF_OBJECTS, InternalGrant, changed_acl, privilege_mask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgrepl.catalog.session import Session


def alter_default_privileges(stmt: AlterDefaultPrivilegesStmt, session: Session) -> Result:
    """As ExecAlterDefaultPrivilegesStmt."""
    given: dict[str, DefElem] = {}
    for option in stmt.options:
        if option.name in given:
            raise PgError("42601", "conflicting or redundant options", location=option.location)
        given[option.name] = option
    action = stmt.action
    grantees = tuple(resolve_role(session, spec, public_ok=True) for spec in action.grantees)
    kind = KINDS_OF_OBJECTS[action.kind]
    change = InternalGrant(
        action.is_grant,
        grantees,
        not action.privileges,
        _privileges(action, kind),
        option=action.grant_option,
        cascade=action.cascade,
    )
    schemas = given["schemas"].value if "schemas" in given else None
    assert schemas is None or isinstance(schemas, tuple)
    if "roles" not in given:
        _change_in_schemas(session, session.role, schemas, kind, change)
        return Result("ALTER DEFAULT PRIVILEGES")
    roles = given["roles"].value
    assert isinstance(roles, tuple)
    for spec in roles:
        role = resolve_role(session, spec)
        if not has_privs_of_role(session, session.role, role):
            raise PgError("42501", "permission denied to change default privileges")
        _change_in_schemas(session, role, schemas, kind, change)
    return Result("ALTER DEFAULT PRIVILEGES")


def _privileges(action: GrantStmt, kind: ObjectKind) -> int:
    if any(privilege.columns for privilege in action.privileges):
        raise PgError("0LP01", "default privileges cannot be set for columns")
    word = "relation" if kind is ObjectKind.TABLE else kind.value
    return privilege_mask(action.privileges, ALL_RIGHTS[kind], word)


def _change_in_schemas(
    session: Session, role: int, schemas: Sequence[str] | None, kind: ObjectKind, change: InternalGrant
) -> None:
    """As SetDefaultACLsInSchemas."""
    if schemas is None:
        set_default_acl(session, role, EVERYWHERE, kind, change)
        return
    for name in schemas:
        set_default_acl(session, role, schema_by_name(session, name).oid, kind, change)


def set_default_acl(session: Session, role: int, namespace: int, kind: ObjectKind, change: InternalGrant) -> None:
    """As SetDefaultACL: an entry that says no more than the built-in privileges is deleted."""
    if kind is ObjectKind.SCHEMA and namespace:
        raise PgError("0LP01", "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS")
    if change.all_privileges and not change.privileges:
        change = replace(change, privileges=ALL_RIGHTS[kind])
    usual = built_in(kind, role, namespace)
    entry = default_entry(session, role, namespace, kind)
    old = usual if entry is None else parse_acl(entry.defaclacl) or ()
    new = in_order(changed_acl(session, old, role, role, change.privileges, change))
    if new == in_order(usual):
        if entry is not None:
            drop_objects(session, [ObjectAddress(PG_DEFAULT_ACL, entry.oid)], cascade=False)
    elif entry is not None:
        update(session, pg_default_acl, {"oid": entry.oid}, defaclacl=store_acl(new))
    else:
        oid = new_oid(session)
        insert(
            session,
            pg_default_acl,
            datid=session.database_oid,
            oid=oid,
            defaclrole=role,
            defaclnamespace=namespace,
            defaclobjtype=OBJECT_TYPES[kind],
            defaclacl=store_acl(new),
        )
        if namespace:
            address = ObjectAddress(PG_DEFAULT_ACL, oid)
            record_dependency(session, address, ObjectAddress(PG_NAMESPACE, namespace), Dependency.AUTO)


def revoke_default(session: Session, entry: pg_default_acl, change: InternalGrant) -> None:
    """REVOKE what an entry says, for DROP OWNED (RemoveRoleFromObjectACL)."""
    set_default_acl(session, entry.defaclrole, entry.defaclnamespace, KINDS[entry.defaclobjtype], change)
