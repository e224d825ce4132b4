"""Roles: finding them, and who may act as whom (PostgreSQL's acl.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER, ROLE_DATABASE_OWNER
from pgrepl.catalog.store import Row, one, rows
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.sql.nodes.utility import RoleSpec

PUBLIC = 0  # the grantee that is everybody


def role_by_name(session: Session, name: str) -> Row:
    row = role_or_none(session, name)
    if row is None:
        raise PgError("42704", f'role "{name}" does not exist')
    return row


def role_or_none(session: Session, name: str) -> Row | None:
    return one(session, tables.pg_authid, rolname=name)


def role_row(session: Session, oid: int) -> Row | None:
    return one(session, tables.pg_authid, oid=oid)


def role_name(session: Session, oid: int) -> str:
    """As GetUserNameFromId."""
    row = role_row(session, oid)
    if row is None:
        raise PgError("42704", f"invalid role OID: {oid}")
    return str(row.rolname)


def role_display(session: Session, oid: int) -> str:
    """As pg_get_userbyid."""
    row = role_row(session, oid)
    return str(row.rolname) if row is not None else f"unknown (OID={oid})"


def resolve_role(session: Session, spec: RoleSpec, *, public_ok: bool = False) -> int:
    """The OID of a role specification (get_rolespec_oid); PUBLIC is 0 where it may stand."""
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


def is_superuser(session: Session, role: int | None = None) -> bool:
    row = role_row(session, session.role if role is None else role)
    return row is not None and bool(row.rolsuper)


def has_createrole(session: Session, role: int) -> bool:
    row = role_row(session, role)
    return row is not None and bool(row.rolsuper or row.rolcreaterole)


def _reachable(session: Session, role: int, option: str | None) -> frozenset[int]:
    """All roles `role` is in, itself included, over memberships that carry the option (roles_is_member_of)."""
    key = ("roles", role, option)
    known = session.derived.get(key)
    if known is not None:
        return known  # type: ignore[no-any-return]
    database_owner = one(session, tables.pg_database, oid=session.database.oid)
    found = [role]
    for member in found:
        for row in rows(session, tables.pg_auth_members, member=member):
            if (option is None or getattr(row, option)) and row.roleid not in found:
                found.append(row.roleid)
        if database_owner is not None and member == database_owner.datdba and ROLE_DATABASE_OWNER not in found:
            found.append(ROLE_DATABASE_OWNER)
    answer = session.derived[key] = frozenset(found)
    return answer


def inherited_roles(session: Session, role: int) -> frozenset[int]:
    """The roles whose privileges `role` has without SET ROLE."""
    return _reachable(session, role, "inherit_option")


def has_privs_of_role(session: Session, member: int, role: int) -> bool:
    return member == role or is_superuser(session, member) or role in inherited_roles(session, member)


def member_can_set_role(session: Session, member: int, role: int) -> bool:
    return member == role or is_superuser(session, member) or role in _reachable(session, member, "set_option")


def check_can_set_role(session: Session, member: int, role: int) -> None:
    if not member_can_set_role(session, member, role):
        raise PgError("42501", f'must be able to SET ROLE "{role_name(session, role)}"')


def is_member_of_role(session: Session, member: int, role: int) -> bool:
    return member == role or is_superuser(session, member) or role in _reachable(session, member, None)


def is_member_of_role_nosuper(session: Session, member: int, role: int) -> bool:
    return member == role or role in _reachable(session, member, None)


def is_admin_of_role(session: Session, member: int, role: int) -> bool:
    """May `member` grant `role` to others? Inherited ADMIN OPTION counts (is_admin_of_role)."""
    if is_superuser(session, member):
        return True
    if member == role:
        return False
    return _admin_through(session, member, role, None) is not None


def select_best_admin(session: Session, member: int, role: int) -> int | None:
    """The role among those whose privileges `member` has that holds ADMIN OPTION on `role`; nearest first."""
    if member == role:
        return None
    return _admin_through(session, member, role, "inherit_option")


def _admin_through(session: Session, member: int, role: int, option: str | None) -> int | None:
    found = [member]
    for current in found:
        for row in rows(session, tables.pg_auth_members, member=current):
            if row.roleid == role and row.admin_option:
                return current
            if (option is None or getattr(row, option)) and row.roleid not in found:
                found.append(row.roleid)
    return None


def is_reserved_name(name: str) -> bool:
    return name.startswith("pg_")


def is_bootstrap_superuser(role: int) -> bool:
    return role == BOOTSTRAP_SUPERUSER
