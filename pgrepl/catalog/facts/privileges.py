"""Access control lists: GRANT, REVOKE, a new owner (acl.c), default privileges, and what depends on a role.

PostgreSQL keeps the last in pg_shdepend; here it follows from owners and access control lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pgrepl.catalog.facts.acl import (
    PROPERTIES,
    Acl,
    AclItem,
    ObjectKind,
    ObjectProperty,
    aclmask,
    default_acl,
    parse_acl,
    store_acl,
)
from pgrepl.catalog.facts.objects import describe_object
from pgrepl.catalog.facts.roles import PUBLIC, inherited_in_order, is_superuser
from pgrepl.catalog.store import system, tables
from pgrepl.catalog.store.store import NOT_NULL, one, rows
from pgrepl.catalog.store.system import FIRST_NORMAL_OID, ObjectAddress
from pgrepl.catalog.store.tables import pg_default_acl
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.declarative import SystemRow


def grant(
    session: Session, acl: Acl, owner: int, grantor: int, grantees: Sequence[int], privileges: int, *, option: bool
) -> Acl:
    """GRANT [WITH GRANT OPTION]."""
    for grantee in grantees:
        if option and grantee == PUBLIC:
            raise PgError("0LP01", "grant options can only be granted to roles")
        change = AclItem(grantee, grantor, privileges, privileges if option else 0)
        if change.options:
            _check_circularity(session, acl, change, owner)
        acl = _replaced(acl, change, lambda old, new: (old[0] | new[0], old[1] | new[1]))
    return acl


def revoke(
    session: Session,
    acl: Acl,
    owner: int,
    grantor: int,
    grantees: Sequence[int],
    privileges: int,
    *,
    option_only: bool,
    cascade: bool,
) -> Acl:
    """REVOKE [GRANT OPTION FOR] … [CASCADE]. Privileges that were granted by a lost grant option are revoked, too."""
    for grantee in grantees:
        change = AclItem(grantee, grantor, 0 if option_only else privileges, privileges)
        acl = _revoked(session, acl, change, owner, cascade)
    return acl


def _replaced(acl: Acl, change: AclItem, combine: object) -> Acl:
    """The list with the item of this grantee and grantor combined with the change, dropped if nothing is left."""
    assert callable(combine)
    old = next((i for i in acl if i[:2] == change[:2]), None)
    before = (0, 0) if old is None else (old.privileges, old.options)
    privileges, options = combine(before, (change.privileges, change.options))
    fresh = AclItem(change.grantee, change.grantor, privileges, options)
    if old is None:
        return (*acl, fresh) if privileges or options else acl
    if not privileges and not options:
        return tuple(i for i in acl if i is not old)
    return tuple(fresh if i is old else i for i in acl)


def _revoked(session: Session, acl: Acl, change: AclItem, owner: int, cascade: bool) -> Acl:
    old = next((i for i in acl if i[:2] == change[:2]), None)
    acl = _replaced(acl, change, lambda had, less: (had[0] & ~less[0], had[1] & ~less[1]))
    lost = 0 if old is None else old.options & change.options
    return _without_dependents(session, acl, change.grantee, lost, owner, cascade) if lost else acl


def _without_dependents(session: Session, acl: Acl, grantee: int, lost: int, owner: int, cascade: bool) -> Acl:
    """The list without the privileges that depend on lost grant options (recursive_revoke). The owner never loses an
    option; another role may still have it from a second grantor."""
    if grantee == owner:
        return acl
    lost &= ~(aclmask(session, acl, grantee, owner, lost << 16) >> 16)
    while lost:
        dependent = next((i for i in acl if i.grantor == grantee and i.privileges & lost), None)
        if dependent is None:
            break
        if not cascade:
            raise PgError("2BP01", "dependent privileges exist", hint="Use CASCADE to revoke them too.")
        acl = _revoked(session, acl, AclItem(dependent.grantee, grantee, lost, lost), owner, cascade)
    return acl


def _check_circularity(session: Session, acl: Acl, change: AclItem, owner: int) -> None:
    """An error unless the grantor still has its options without those of the grantee and their dependents
    (check_circularity)."""
    if change.grantor == owner:
        return
    while True:
        given = next((i for i in acl if i.grantee == change.grantee and i.options), None)
        if given is None:
            break
        acl = _revoked(session, acl, given, owner, cascade=True)
    own = aclmask(session, acl, change.grantor, owner, change.options << 16) >> 16
    if change.options & ~own:
        raise PgError("0LP01", "grant options cannot be granted back to your own grantor")


def best_grantor(session: Session, role: int, privileges: int, acl: Acl, owner: int) -> tuple[int, int]:
    """The role to grant as, and the grant options that it has (select_best_grantor)."""
    if role == owner or is_superuser(session, role):
        return owner, privileges
    best, most = (role, 0), 0
    for other in inherited_in_order(session, role):
        options = privileges if other == owner else 0
        for item in acl:
            if item.grantee == other:
                options |= item.options & privileges
        if options == privileges:
            return other, options
        if bin(options).count("1") > most:
            best, most = (other, options), bin(options).count("1")
    return best


def with_new_owner(stored: Sequence[str] | None, old: int, new: int) -> list[str] | None:
    """The stored list after ALTER … OWNER TO: the new owner stands where the old one stood (aclnewowner)."""
    acl = parse_acl(stored)
    if acl is None:
        return None
    merged: dict[tuple[int, int], AclItem] = {}
    for item in acl:
        grantee = new if item.grantee == old else item.grantee
        grantor = new if item.grantor == old else item.grantor
        known = merged.get((grantee, grantor))
        privileges, options = item.privileges, item.options
        if known is not None:
            privileges, options = privileges | known.privileges, options | known.options
        merged[grantee, grantor] = AclItem(grantee, grantor, privileges, options)
    return store_acl(merged.values())


def effective_acl(kind: ObjectKind, owner: int, stored: Sequence[str] | None) -> Acl:
    """The stored list, or else the default."""
    acl = parse_acl(stored)
    return default_acl(kind, owner) if acl is None else acl


# --- default privileges -----------------------------------------------------------------------------------------------


OBJECT_TYPES = {
    ObjectKind.TABLE: "r",
    ObjectKind.SEQUENCE: "S",
    ObjectKind.FUNCTION: "f",
    ObjectKind.TYPE: "T",
    ObjectKind.SCHEMA: "n",
}
KINDS = {letter: kind for kind, letter in OBJECT_TYPES.items()}
EVERYWHERE = 0  # the namespace of a global entry


def user_default_acl(session: Session, kind: ObjectKind, owner: int, namespace: int) -> list[str] | None:
    """The list of a new object, None for the built-in one (get_user_default_acl). What a schema's entry grants is added
    to what the global entry, or else PostgreSQL, grants."""
    entries = rows(
        session, pg_default_acl, datid=session.database_oid, defaclrole=owner, defaclobjtype=OBJECT_TYPES[kind]
    )  # fmt: skip
    if not entries:
        return None
    by_schema = {entry.defaclnamespace: entry for entry in entries}
    everywhere = by_schema.get(EVERYWHERE)
    here = by_schema.get(namespace) if namespace else None
    usual = default_acl(kind, owner)
    merged = usual if everywhere is None else parse_acl(everywhere.defaclacl) or ()
    if here is not None:
        merged = _merged(merged, parse_acl(here.defaclacl) or ())
    result = in_order(merged)
    return None if result == in_order(usual) else store_acl(result)


def default_entries(session: Session) -> list[pg_default_acl]:
    """The entries of the database, the oldest first."""
    return sorted(rows(session, pg_default_acl, datid=session.database_oid), key=lambda entry: int(entry.oid))


def default_entry(session: Session, role: int, namespace: int, kind: ObjectKind) -> pg_default_acl | None:
    return one(
        session,
        pg_default_acl,
        datid=session.database_oid,
        defaclrole=role,
        defaclnamespace=namespace,
        defaclobjtype=OBJECT_TYPES[kind],
    )


def built_in(kind: ObjectKind, role: int, namespace: int) -> Acl:
    """The list that an entry changes: of a schema, nothing (SetDefaultACL)."""
    return () if namespace else default_acl(kind, role)


def in_order(acl: Acl) -> Acl:
    """A list's entries in the order in which PostgreSQL compares lists (aclitemsort)."""
    return tuple(sorted(acl, key=lambda item: (item.grantee, item.grantor, item.options, item.privileges)))


def _merged(acl: Acl, more: Acl) -> Acl:
    """One list with the entries of both (aclmerge)."""
    items = {item[:2]: item for item in acl}
    for item in more:
        known = items.get(item[:2])
        privileges, options = (known.privileges, known.options) if known is not None else (0, 0)
        items[item[:2]] = AclItem(*item[:2], privileges | item.privileges, options | item.options)
    return tuple(items.values())


# --- shdepend ---------------------------------------------------------------------------------------------------------


_MOST_REPORTED = 100
OWNER, ACL = "o", "a"


class RoleDependency(NamedTuple):
    """A row of pg_shdepend that refers to a role; database 0: the object belongs to the whole instance."""

    database: int
    address: ObjectAddress
    kind: str  # OWNER or ACL


def role_dependencies(session: Session, role: int) -> list[RoleDependency]:
    """The dependencies on a role, in the order of OIDs, as checkSharedDependencies sorts them."""
    dependencies = [*_owned(session, role), *_with_privileges(session, role)]
    dependencies.sort(key=lambda d: (d.address.objid, d.address.classid, d.address.subid & 0xFFFF_FFFF, d.kind))
    return dependencies


def _owned(session: Session, role: int) -> Iterator[RoleDependency]:
    for classid, columns in PROPERTIES.items():
        for row in rows(session, columns.table, **{columns.owner: role}):
            # an index has its table's owner, a composite type its own, an array that of its element
            if not (classid == system.PG_CLASS and row.relkind in "iIc") and not (
                classid == system.PG_TYPE and row.typelem
            ):
                yield _dependency(columns, ObjectAddress(classid, row.oid), row, OWNER)


def _with_privileges(session: Session, role: int) -> Iterator[RoleDependency]:
    for classid, columns in PROPERTIES.items():
        for row in rows(session, columns.table, **{columns.acl: NOT_NULL}) if columns.acl else ():
            if _mentions(getattr(row, columns.acl), role, getattr(row, columns.owner)):
                yield _dependency(columns, ObjectAddress(classid, row.oid), row, ACL)
    attributes = rows(session, tables.pg_attribute, attacl=NOT_NULL)
    tables_of = {c.oid: c for c in rows(session, tables.pg_class, oid={c.attrelid for c in attributes})}
    for attribute in attributes:
        table = tables_of.get(attribute.attrelid)
        if table is not None and _mentions(attribute.attacl, role, table.relowner):
            address = ObjectAddress(system.PG_CLASS, attribute.attrelid, attribute.attnum)
            yield RoleDependency(table.datid, address, ACL)
    for membership in rows(session, tables.pg_auth_members, grantor=role):
        yield RoleDependency(0, ObjectAddress(system.PG_AUTH_MEMBERS, membership.oid), ACL)


def _dependency(columns: ObjectProperty, address: ObjectAddress, row: SystemRow, kind: str) -> RoleDependency:
    return RoleDependency(0 if columns.is_shared else getattr(row, columns.database), address, kind)


def _mentions(stored: Sequence[str] | None, role: int, owner: int) -> bool:
    """Is the role a grantee or grantor of the list, and not the owner?"""
    if stored is None or role == owner:
        return False
    grantee, grantor = f"{role}=", f"/{role}"
    return any(item.startswith(grantee) or item.endswith(grantor) for item in stored)


def check_not_pinned(role: int, session: Session) -> None:
    if role < FIRST_NORMAL_OID:
        described = describe_object(session, ObjectAddress(system.PG_AUTHID, role))
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
        described = describe_object(session, ObjectAddress(system.PG_DATABASE, database))
        lines.append(f"{count} object{'s' if count > 1 else ''} in {described}")
    if not lines:
        return None
    if more:
        lines.append(f"and {more} other object{'s' if more > 1 else ''} (see server log for list)")
    if more_databases:
        plural = "s" if more_databases > 1 else ""
        lines.append(f"and objects in {more_databases} other database{plural} (see server log for list)")
    return "\n".join(lines)
