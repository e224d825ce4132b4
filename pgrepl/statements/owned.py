"""REASSIGN OWNED and DROP OWNED: everything of a role at once (user.c, pg_shdepend.c)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pgrepl.catalog import classes, tables
from pgrepl.catalog.acl import ObjectKind
from pgrepl.catalog.classes import FIRST_NORMAL_OID, ObjectAddress
from pgrepl.catalog.objects import describe_object
from pgrepl.catalog.relation import relation
from pgrepl.catalog.roles import has_privs_of_role, resolve_role, role_name
from pgrepl.catalog.shdepend import ACL, OWNER, role_dependencies
from pgrepl.catalog.store import one
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import DropOwnedStmt, ReassignOwnedStmt
from pgrepl.statements.collation import reassign_collation
from pgrepl.statements.database import change_database_owner
from pgrepl.statements.default_privileges import revoke_default
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.grant import InternalGrant, grant_on_object, grant_on_relation
from pgrepl.statements.operator.alter import reassign_operator
from pgrepl.statements.publication.drop import reassign_publication
from pgrepl.statements.routine.alter import reassign_routine
from pgrepl.statements.schema import change_schema_owner
from pgrepl.statements.subscription.owner import reassign_subscription
from pgrepl.statements.table.owner import reassign_relation
from pgrepl.statements.type.change import change_type_owner

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def reassign_owned(stmt: ReassignOwnedStmt, session: Session) -> Result:
    """As ReassignOwnedObjects."""
    roles = [resolve_role(session, spec) for spec in stmt.roles]
    for role in roles:
        _check_privileges(session, role, "reassign objects", "reassign objects owned by it")
    new_owner = resolve_role(session, stmt.new_role)
    _check_privileges(session, new_owner, "reassign objects", "reassign objects to it")
    for role in roles:
        _check_not_pinned(session, role, "reassign ownership of")
        for database, address, kind in role_dependencies(session, role):
            if address.classid == classes.PG_DEFAULT_ACL:
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
            if kind == ACL and address.classid != classes.PG_AUTH_MEMBERS:
                _revoke_all(session, role, address)
            elif (database or address.classid == classes.PG_AUTH_MEMBERS) and address not in doomed:
                doomed.append(address)
    doomed.sort(key=lambda a: (-a.objid, a.classid, a.subid))
    drop_objects(session, doomed, cascade=stmt.cascade)
    return Result("DROP OWNED")


def _change_owner(session: Session, address: ObjectAddress, new_owner: int) -> None:
    change = _OWNER_CHANGES.get(address.classid)
    if change is None:
        raise PgError("XX000", f"unexpected classid {address.classid}")
    change(session, address.objid, new_owner)


# the functions behind ALTER … OWNER TO, by class
_OWNER_CHANGES: dict[int, Callable[[Session, int, int], None]] = {
    classes.PG_CLASS: reassign_relation,
    classes.PG_COLLATION: reassign_collation,
    classes.PG_NAMESPACE: change_schema_owner,
    classes.PG_TYPE: change_type_owner,
    classes.PG_DATABASE: change_database_owner,
    classes.PG_OPERATOR: reassign_operator,
    classes.PG_PROC: reassign_routine,
    classes.PG_PUBLICATION: reassign_publication,
    classes.PG_SUBSCRIPTION: reassign_subscription,
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
        described = describe_object(session, ObjectAddress(classes.PG_AUTHID, role))
        raise PgError(
            "2BP01",
            f"cannot {verb} objects owned by {described} because they are required by the database system",
        )


def _revoke_all(session: Session, role: int, address: ObjectAddress) -> None:
    """As RemoveRoleFromObjectACL."""
    change = InternalGrant(is_grant=False, grantees=(role,), all_privileges=True, privileges=0, cascade=True)
    if address.classid == classes.PG_CLASS:
        grant_on_relation(session, relation(session, address.objid), change)
    elif address.classid == classes.PG_NAMESPACE:
        schema = one(session, tables.pg_namespace, datid=session.database_oid, oid=address.objid)
        assert schema is not None
        grant_on_object(session, ObjectKind.SCHEMA, schema, change)
    elif address.classid == classes.PG_PROC:
        routine = one(session, tables.pg_proc, oid=address.objid)
        assert routine is not None
        grant_on_object(session, ObjectKind.FUNCTION, routine, change)
    elif address.classid == classes.PG_DEFAULT_ACL:
        entry = one(session, tables.pg_default_acl, oid=address.objid)
        assert entry is not None
        revoke_default(session, entry, change)
    elif address.classid == classes.PG_TYPE:
        type_ = one(session, tables.pg_type, oid=address.objid)
        assert type_ is not None
        grant_on_object(session, ObjectKind.TYPE, type_, change)
    else:
        database = one(session, tables.pg_database, oid=address.objid)
        assert database is not None
        grant_on_object(session, ObjectKind.DATABASE, database, change)
