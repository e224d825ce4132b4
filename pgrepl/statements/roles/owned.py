"""ALTER DEFAULT PRIVILEGES (aclchk.c), REASSIGN OWNED and DROP OWNED (user.c, pg_shdepend.c)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import ALL_RIGHTS, PROPERTIES, ObjectKind, parse_acl, store_acl
from pgrepl.catalog.facts.depend import Dependency, record_dependency
from pgrepl.catalog.facts.namespace import schema_by_name
from pgrepl.catalog.facts.objects import describe_object
from pgrepl.catalog.facts.privileges import (
    ACL,
    EVERYWHERE,
    KINDS,
    OBJECT_TYPES,
    OWNER,
    built_in,
    default_entry,
    in_order,
    role_dependencies,
)
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.roles import has_privs_of_role, resolve_role, role_name
from pgrepl.catalog.store import system
from pgrepl.catalog.store.store import insert, new_oid, update
from pgrepl.catalog.store.system import FIRST_NORMAL_OID, PG_DEFAULT_ACL, PG_NAMESPACE, ObjectAddress
from pgrepl.catalog.store.tables import pg_default_acl
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.location import conflicting
from pgrepl.sql.nodes import AlterDefaultPrivilegesStmt, DefElem, DropOwnedStmt, GrantStmt, ReassignOwnedStmt
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.replication.create_subscription import change_subscription_owner
from pgrepl.statements.replication.foreign import change_server_owner
from pgrepl.statements.replication.publication import change_publication_owner
from pgrepl.statements.roles.database import change_database_owner
from pgrepl.statements.roles.grant import (
    KINDS_OF_OBJECTS,
    InternalGrant,
    changed_acl,
    grant_on_object,
    grant_on_relation,
    privilege_mask,
)
from pgrepl.statements.roles.schema import change_schema_owner
from pgrepl.statements.routine.alter import change_routine_owner
from pgrepl.statements.table.relations import reassign_relation
from pgrepl.statements.type.change import change_type_owner
from pgrepl.statements.type.collation import change_collation_owner
from pgrepl.statements.type.operator import change_operator_owner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgrepl.catalog.session.session import Session


def alter_default_privileges(stmt: AlterDefaultPrivilegesStmt, session: Session) -> Result:
    """ALTER DEFAULT PRIVILEGES (ExecAlterDefaultPrivilegesStmt)."""
    given: dict[str, DefElem] = {}
    for option in stmt.options:
        if option.name in given:
            conflicting(option)
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
    """Changes default privileges in the schemas that are named (SetDefaultACLsInSchemas)."""
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


# --- owned ------------------------------------------------------------------------------------------------------------


def reassign_owned(stmt: ReassignOwnedStmt, session: Session) -> Result:
    roles = [resolve_role(session, spec) for spec in stmt.roles]
    for role in roles:
        _check_privileges(session, role, "reassign objects", "reassign objects owned by it")
    new_owner = resolve_role(session, stmt.new_role)
    _check_privileges(session, new_owner, "reassign objects", "reassign objects to it")
    for role in roles:
        _check_not_pinned(session, role, "reassign ownership of")
        for database, address, kind in role_dependencies(session, role):
            if address.classid == system.PG_DEFAULT_ACL:
                continue  # DROP OWNED is for these
            if kind == OWNER and database in (0, session.database_oid):
                _change_owner(session, address, new_owner)
    return Result("REASSIGN OWNED")


def drop_owned(stmt: DropOwnedStmt, session: Session) -> Result:
    """As DropOwnedObjects: drop the objects of this database, revoke privileges on others and on databases."""
    roles = [resolve_role(session, spec) for spec in stmt.roles]
    for role in roles:
        _check_privileges(session, role, "drop objects", "drop objects owned by it")
    doomed: list[ObjectAddress] = []
    for role in roles:
        _check_not_pinned(session, role, "drop")
        for database, address, kind in role_dependencies(session, role):
            if database not in (0, session.database_oid):
                continue
            if kind == ACL and address.classid != system.PG_AUTH_MEMBERS:
                _revoke_all(session, role, address)
            elif (database or address.classid == system.PG_AUTH_MEMBERS) and address not in doomed:
                doomed.append(address)
    doomed.sort(key=lambda a: (-a.objid, a.classid, a.subid))
    drop_objects(session, doomed, cascade=stmt.cascade)
    return Result("DROP OWNED")


def _change_owner(session: Session, address: ObjectAddress, new_owner: int) -> None:
    if address.classid == system.PG_USER_MAPPING:  # is of its user
        return
    change = _OWNER_CHANGES.get(address.classid)
    if change is None:
        raise PgError("XX000", f"unexpected classid {address.classid}")
    change(session, PROPERTIES[address.classid].row(session, address.objid), new_owner)


# the functions behind ALTER … OWNER TO, by class
_OWNER_CHANGES: dict[int, Callable[[Session, Any, int], None]] = {
    system.PG_CLASS: reassign_relation,
    system.PG_COLLATION: change_collation_owner,
    system.PG_NAMESPACE: change_schema_owner,
    system.PG_TYPE: change_type_owner,
    system.PG_DATABASE: change_database_owner,
    system.PG_OPERATOR: change_operator_owner,
    system.PG_PROC: change_routine_owner,
    system.PG_PUBLICATION: change_publication_owner,
    system.PG_SUBSCRIPTION: change_subscription_owner,
    system.PG_FOREIGN_SERVER: change_server_owner,
}


def _check_privileges(session: Session, role: int, verb: str, what: str) -> None:
    if not has_privs_of_role(session, session.role, role):
        raise PgError(
            "42501",
            f"permission denied to {verb}",
            detail=f'Only roles with privileges of role "{role_name(session, role)}" may {what}.',
        )


def _check_not_pinned(session: Session, role: int, verb: str) -> None:
    if role < FIRST_NORMAL_OID:
        described = describe_object(session, ObjectAddress(system.PG_AUTHID, role))
        raise PgError(
            "2BP01", f"cannot {verb} objects owned by {described} because they are required by the database system"
        )


def _revoke_all(session: Session, role: int, address: ObjectAddress) -> None:
    """Takes a role's privileges on an object away (RemoveRoleFromObjectACL)."""
    change = InternalGrant(is_grant=False, grantees=(role,), all_privileges=True, privileges=0, cascade=True)
    if address.classid == system.PG_CLASS:
        grant_on_relation(session, relation(session, address.objid), change)
    elif address.classid == system.PG_DEFAULT_ACL:
        revoke_default(session, PROPERTIES[address.classid].row(session, address.objid), change)
    else:
        columns = PROPERTIES[address.classid]
        assert columns.kind is not None
        grant_on_object(session, columns.kind, columns.row(session, address.objid), change)
