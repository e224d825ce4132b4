"""Dependencies on a role: the objects it owns, privileges it has or granted, memberships it granted (pg_shdepend.c).

PostgreSQL keeps them in pg_shdepend; here they follow from the owners and access control lists themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pgrepl.catalog import classes, tables
from pgrepl.catalog.classes import FIRST_NORMAL_OID, ObjectAddress
from pgrepl.catalog.objects import describe_object
from pgrepl.catalog.store import NOT_NULL, rows
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgrepl.catalog.session import Session

_MOST_REPORTED = 100
OWNER, ACL = "o", "a"


class RoleDependency(NamedTuple):
    """A row of pg_shdepend that refers to a role; database 0: the object belongs to the whole instance."""

    database: int
    address: ObjectAddress
    kind: str  # OWNER or ACL


def role_dependencies(session: Session, role: int) -> list[RoleDependency]:
    """The dependencies on a role, in the order of OIDs, as checkSharedDependencies sorts them."""
    found = [*_owned(session, role), *_with_privileges(session, role)]
    found.sort(key=lambda d: (d.address.objid, d.address.classid, d.address.subid & 0xFFFF_FFFF, d.kind))
    return found


def _owned(session: Session, role: int) -> Iterator[RoleDependency]:
    for relation in rows(session, tables.pg_class, relowner=role):
        if relation.relkind not in "iIc":  # an index has its table's owner, a composite type its own
            yield RoleDependency(relation.datid, ObjectAddress(classes.PG_CLASS, relation.oid), OWNER)
    for schema in rows(session, tables.pg_namespace, nspowner=role):
        yield RoleDependency(schema.datid, ObjectAddress(classes.PG_NAMESPACE, schema.oid), OWNER)
    for routine in rows(session, tables.pg_proc, proowner=role):
        yield RoleDependency(routine.datid, ObjectAddress(classes.PG_PROC, routine.oid), OWNER)
    for collation in rows(session, tables.pg_collation, collowner=role):
        yield RoleDependency(collation.datid, ObjectAddress(classes.PG_COLLATION, collation.oid), OWNER)
    for operator in rows(session, tables.pg_operator, oprowner=role):
        yield RoleDependency(operator.datid, ObjectAddress(classes.PG_OPERATOR, operator.oid), OWNER)
    for type_ in rows(session, tables.pg_type, typowner=role):
        if not type_.typelem:  # an array has the owner of its element
            yield RoleDependency(type_.datid, ObjectAddress(classes.PG_TYPE, type_.oid), OWNER)
    for entry in rows(session, tables.pg_default_acl, defaclrole=role):
        yield RoleDependency(entry.datid, ObjectAddress(classes.PG_DEFAULT_ACL, entry.oid), OWNER)
    for publication in rows(session, tables.pg_publication, pubowner=role):
        yield RoleDependency(publication.datid, ObjectAddress(classes.PG_PUBLICATION, publication.oid), OWNER)
    for subscription in rows(session, tables.pg_subscription, subowner=role):
        yield RoleDependency(0, ObjectAddress(classes.PG_SUBSCRIPTION, subscription.oid), OWNER)
    for database in rows(session, tables.pg_database, datdba=role):
        yield RoleDependency(0, ObjectAddress(classes.PG_DATABASE, database.oid), OWNER)


def _with_privileges(session: Session, role: int) -> Iterator[RoleDependency]:
    for relation in rows(session, tables.pg_class, relacl=NOT_NULL):
        if _mentions(relation.relacl, role, relation.relowner):
            yield RoleDependency(relation.datid, ObjectAddress(classes.PG_CLASS, relation.oid), ACL)
    columns = rows(session, tables.pg_attribute, attacl=NOT_NULL)
    tables_of = {c.oid: c for c in rows(session, tables.pg_class, oid={c.attrelid for c in columns})}
    for column in columns:
        table = tables_of.get(column.attrelid)
        if table is not None and _mentions(column.attacl, role, table.relowner):
            yield RoleDependency(table.datid, ObjectAddress(classes.PG_CLASS, column.attrelid, column.attnum), ACL)
    for schema in rows(session, tables.pg_namespace, nspacl=NOT_NULL):
        if _mentions(schema.nspacl, role, schema.nspowner):
            yield RoleDependency(schema.datid, ObjectAddress(classes.PG_NAMESPACE, schema.oid), ACL)
    for routine in rows(session, tables.pg_proc, proacl=NOT_NULL):
        if _mentions(routine.proacl, role, routine.proowner):
            yield RoleDependency(routine.datid, ObjectAddress(classes.PG_PROC, routine.oid), ACL)
    for type_ in rows(session, tables.pg_type, typacl=NOT_NULL):
        if _mentions(type_.typacl, role, type_.typowner):
            yield RoleDependency(type_.datid, ObjectAddress(classes.PG_TYPE, type_.oid), ACL)
    for entry in rows(session, tables.pg_default_acl):
        if _mentions(entry.defaclacl, role, entry.defaclrole):
            yield RoleDependency(entry.datid, ObjectAddress(classes.PG_DEFAULT_ACL, entry.oid), ACL)
    for database in rows(session, tables.pg_database, datacl=NOT_NULL):
        if _mentions(database.datacl, role, database.datdba):
            yield RoleDependency(0, ObjectAddress(classes.PG_DATABASE, database.oid), ACL)
    for membership in rows(session, tables.pg_auth_members, grantor=role):
        yield RoleDependency(0, ObjectAddress(classes.PG_AUTH_MEMBERS, membership.oid), ACL)


def _mentions(stored: Sequence[str] | None, role: int, owner: int) -> bool:
    """Is the role a grantee or grantor of the list, and not the owner?"""
    if stored is None or role == owner:
        return False
    grantee, grantor = f"{role}=", f"/{role}"
    return any(item.startswith(grantee) or item.endswith(grantor) for item in stored)


def check_not_pinned(role: int, session: Session) -> None:
    if role < FIRST_NORMAL_OID:
        described = describe_object(session, ObjectAddress(classes.PG_AUTHID, role))
        raise PgError("2BP01", f"cannot drop {described} because it is required by the database system")


def describe_role_dependencies(session: Session, role: int) -> str | None:
    """The DETAIL of a refused DROP ROLE, or None (checkSharedDependencies)."""
    check_not_pinned(role, session)
    here = session.database_oid
    lines: list[str] = []
    elsewhere: dict[int, int] = {}
    more = more_databases = 0
    for database, address, kind in role_dependencies(session, role):
        if database not in (0, here):
            elsewhere[database] = elsewhere.get(database, 0) + 1
        elif len(lines) == _MOST_REPORTED:
            more += 1
        else:
            word = "owner of" if kind == OWNER else "privileges for"
            lines.append(f"{word} {describe_object(session, address)}")
    for database, count in elsewhere.items():
        if len(lines) == _MOST_REPORTED:
            more_databases += 1
            continue
        described = describe_object(session, ObjectAddress(classes.PG_DATABASE, database))
        lines.append(f"{count} object{'s' if count > 1 else ''} in {described}")
    if not lines:
        return None
    if more:
        lines.append(f"and {more} other object{'s' if more > 1 else ''} (see server log for list)")
    if more_databases:
        plural = "s" if more_databases > 1 else ""
        lines.append(f"and objects in {more_databases} other database{plural} (see server log for list)")
    return "\n".join(lines)
