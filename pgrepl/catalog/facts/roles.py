"""Look-ups of roles and their memberships (PostgreSQL's acl.c), and of databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import ROLE_DATABASE_OWNER, ROLE_SIGNAL_AUTOVACUUM
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.context import CatalogSession
    from pgrepl.sql.nodes.utility import RoleSpec

Role: TypeAlias = tables.pg_authid
PUBLIC = 0  # the grantee that stands for all roles


def roles(session: CatalogSession) -> list[tables.pg_authid]:
    return sorted(shown_roles(session), key=lambda row: str(row.rolname))


def shown_roles(session: CatalogSession) -> Iterator[tables.pg_authid]:
    """The roles of pg_authid: 17 does not have all of 18's."""
    for row in rows(session, tables.pg_authid):
        if row.oid != ROLE_SIGNAL_AUTOVACUUM or session.settings.release >= 18:
            yield row


def memberships(session: CatalogSession) -> list[tables.pg_auth_members]:
    return rows(session, tables.pg_auth_members)


def settings_of_roles(session: CatalogSession) -> list[tables.pg_db_role_setting]:
    """Settings of roles, of databases, and of roles in databases."""
    return rows(session, tables.pg_db_role_setting)


def role_by_name(session: CatalogSession, name: str) -> tables.pg_authid:
    row = role_or_none(session, name)
    if row is None:
        raise PgError("42704", f'role "{name}" does not exist')
    return row


def role_or_none(session: CatalogSession, name: str) -> tables.pg_authid | None:
    return one(session, tables.pg_authid, rolname=name)


def role_row(session: CatalogSession, oid: int) -> tables.pg_authid | None:
    return one(session, tables.pg_authid, oid=oid)


def role_name(session: CatalogSession, oid: int) -> str:
    """A role's name; its OID must be valid (GetUserNameFromId)."""
    row = role_row(session, oid)
    if row is None:
        raise PgError("42704", f"invalid role OID: {oid}")
    return str(row.rolname)


def role_display(session: CatalogSession, oid: int) -> str:
    """A role's name, or what is shown of an OID that is none (pg_get_userbyid)."""
    row = role_row(session, oid)
    return str(row.rolname) if row is not None else f"unknown (OID={oid})"


def resolve_role(session: CatalogSession, spec: RoleSpec, *, public_ok: bool = False) -> int:
    """The OID of a role specification (get_rolespec_oid); 0 for PUBLIC, if `public_ok`."""
    if spec.word in ("current_role", "current_user"):
        return session.role
    if spec.word == "session_user":
        return session.user
    if spec.word == "public":
        if public_ok:
            return PUBLIC
        raise PgError("42704", 'role "public" does not exist')
    assert spec.name is not None
    return int(role_by_name(session, spec.name).oid)


def is_superuser(session: CatalogSession, role: int | None = None) -> bool:
    row = role_row(session, session.role if role is None else role)
    return row is not None and bool(row.rolsuper)


def has_attribute(session: CatalogSession, role: int, column: str) -> bool:
    """Has the role an attribute such as rolcreaterole? A superuser has them all."""
    row = role_row(session, role)
    return row is not None and bool(row.rolsuper or getattr(row, column))


def _walk(
    session: CatalogSession, role: int, option: str | None, admin_of: int | None = None
) -> tuple[list[int], int | None]:
    """All roles that `role` is a member of, itself first, over memberships with the option (roles_is_member_of).

    With `admin_of`, also the first of them that holds ADMIN OPTION on that role.
    """
    database = one(session, tables.pg_database, oid=session.database_oid)
    members = [role]
    admin: int | None = None
    for member in members:
        memberships = rows(session, tables.pg_auth_members, member=member)
        memberships.sort(key=lambda m: (m.roleid, m.grantor))
        for row in memberships:
            if admin is None and row.roleid == admin_of and row.admin_option:
                admin = member
            if (option is None or getattr(row, option)) and row.roleid not in members:
                members.append(row.roleid)
        if database is not None and member == database.datdba and ROLE_DATABASE_OWNER not in members:
            members.append(ROLE_DATABASE_OWNER)
    return members, admin


def _reachable(session: CatalogSession, role: int, option: str | None) -> frozenset[int]:
    key = ("roles", role, option)
    known: frozenset[int] | None = session.derived.get(key)
    if known is None:
        known = session.derived[key] = frozenset(_walk(session, role, option)[0])
    return known


def inherited_roles(session: CatalogSession, role: int) -> frozenset[int]:
    """The roles whose privileges `role` has without SET ROLE."""
    return _reachable(session, role, "inherit_option")


def inherited_in_order(session: CatalogSession, role: int) -> list[int]:
    """The role itself, then the roles whose privileges it has without SET ROLE, nearest first."""
    return _walk(session, role, "inherit_option")[0]


def has_privs_of_role(session: CatalogSession, member: int, role: int) -> bool:
    return member == role or is_superuser(session, member) or role in inherited_roles(session, member)


def member_can_set_role(session: CatalogSession, member: int, role: int) -> bool:
    return member == role or is_superuser(session, member) or role in _reachable(session, member, "set_option")


def check_can_set_role(session: CatalogSession, member: int, role: int) -> None:
    if not member_can_set_role(session, member, role):
        raise PgError("42501", f'must be able to SET ROLE "{role_name(session, role)}"')


def is_member_of_role(session: CatalogSession, member: int, role: int) -> bool:
    return member == role or is_superuser(session, member) or role in _reachable(session, member, None)


def is_member_of_role_nosuper(session: CatalogSession, member: int, role: int) -> bool:
    return member == role or role in _reachable(session, member, None)


def is_admin_of_role(session: CatalogSession, member: int, role: int) -> bool:
    """May `member` grant `role` to others? Inherited ADMIN OPTION counts (is_admin_of_role)."""
    if is_superuser(session, member):
        return True
    if member == role:
        return False
    return _walk(session, member, None, role)[1] is not None


def has_admin_privs_of_role(session: CatalogSession, member: int, role: int) -> bool:
    """May `member` grant `role` without SET ROLE? Only inherited ADMIN OPTION counts."""
    return is_superuser(session, member) or select_best_admin(session, member, role) is not None


def select_best_admin(session: CatalogSession, member: int, role: int) -> int | None:
    """The role among those whose privileges `member` has that holds ADMIN OPTION on `role`; nearest first."""
    if member == role:
        return None
    return _walk(session, member, "inherit_option", role)[1]


def is_reserved_name(name: str) -> bool:
    return name.startswith("pg_")


def databases(session: CatalogSession) -> list[tables.pg_database]:
    return sorted(rows(session, tables.pg_database), key=lambda row: str(row.datname))


def database_or_none(session: CatalogSession, name: str) -> tables.pg_database | None:
    return one(session, tables.pg_database, datname=name)


def database_by_name(session: CatalogSession, name: str) -> tables.pg_database:
    """The row of a database, or the error that it does not exist (get_database_oid)."""
    row = database_or_none(session, name)
    if row is None:
        raise PgError("3D000", f'database "{name}" does not exist')
    return row


def database_name(session: CatalogSession, oid: int | None) -> str | None:
    row = one(session, tables.pg_database, oid=oid) if oid else None
    return None if row is None else str(row.datname)


def current_database(session: CatalogSession) -> tables.pg_database:
    row = one(session, tables.pg_database, oid=session.database_oid)
    assert row is not None
    return row
