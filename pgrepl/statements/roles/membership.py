"""GRANT and REVOKE of roles: members, options and grantors (user.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.roles import (
    has_admin_privs_of_role,
    has_privs_of_role,
    is_member_of_role_nosuper,
    is_superuser,
    resolve_role,
    role_by_name,
    role_name,
    role_row,
    select_best_admin,
)
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, new_oid, rows, update
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER, ROLE_DATABASE_OWNER
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.location import get_string
from pgrepl.sql.nodes import DefElem, GrantRoleStmt
from pgrepl.types.numbers import parse_bool

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


@dataclass(frozen=True, slots=True)
class GrantOptions:
    """WITH ADMIN, INHERIT, SET; None: not given. SET defaults to true, INHERIT to the member's own attribute."""

    admin: bool | None = None
    inherit: bool | None = None
    set: bool | None = None


class _Plan(Enum):
    """The change that a REVOKE makes to a row of pg_auth_members."""

    NOTHING = 0
    DELETE = 1
    CLEAR_ADMIN = 2
    CLEAR_INHERIT = 3
    CLEAR_SET = 4


def grant_role(stmt: GrantRoleStmt, session: Session) -> Result:
    """GRANT and REVOKE of roles (GrantRole)."""
    options = _options(stmt.options)
    grantor = None if stmt.grantor is None else resolve_role(session, stmt.grantor)
    members = [resolve_role(session, spec) for spec in stmt.grantees]
    for name, columns, _location in stmt.granted:
        if columns:
            raise PgError("0LP01", "column names cannot be included in GRANT/REVOKE ROLE")
        role = role_by_name(session, name).oid
        check_may_grant(session, session.role, role, grant=stmt.is_grant)
        if stmt.is_grant:
            add_members(session, session.role, role, members, grantor, options)
        else:
            remove_members(session, session.role, role, members, grantor, options, cascade=stmt.cascade)
    return Result("GRANT ROLE" if stmt.is_grant else "REVOKE ROLE")


def _options(given: Sequence[DefElem]) -> GrantOptions:
    values: dict[str, bool] = {}
    for option in given:
        if option.name not in ("admin", "inherit", "set"):
            raise PgError("42601", f'unrecognized role option "{option.name}"', location=option.location)
        text = get_string(option)
        value = parse_bool(text)
        if value is None:
            raise PgError(
                "22023", f'unrecognized value for role option "{option.name}": "{text}"', location=option.location
            )
        values[option.name] = value
    return GrantOptions(**values)


def check_may_grant(session: Session, current: int, role: int, *, grant: bool) -> None:
    """Raises unless the current role may grant a role (check_role_membership_authorization)."""
    name = role_name(session, role)
    if grant and role == ROLE_DATABASE_OWNER:
        raise PgError("XX000", f'role "{name}" cannot have explicit members')
    verb = "grant" if grant else "revoke"
    if is_superuser(session, role):
        if not is_superuser(session, current):
            raise PgError(
                "42501",
                f'permission denied to {verb} role "{name}"',
                detail=f"Only roles with the SUPERUSER attribute may {verb} roles with the SUPERUSER attribute.",
            )
    elif not has_admin_privs_of_role(session, current, role):
        raise PgError(
            "42501",
            f'permission denied to {verb} role "{name}"',
            detail=f'Only roles with the ADMIN option on role "{name}" may {verb} this role.',
        )


def _grantor(session: Session, current: int, role: int, given: int | None, *, grant: bool) -> int:
    """The role that is recorded as grantor (check_role_grantor)."""
    if given is None:
        if is_superuser(session, current):
            return BOOTSTRAP_SUPERUSER
        best = select_best_admin(session, current, role)
        if best is None:
            raise PgError("XX000", "no possible grantors")
        return best
    name = role_name(session, given)
    if not has_privs_of_role(session, current, given):
        if grant:
            raise PgError(
                "42501",
                f'permission denied to grant privileges as role "{name}"',
                detail=f'Only roles with privileges of role "{name}" may grant privileges as this role.',
            )
        raise PgError(
            "42501",
            f'permission denied to revoke privileges granted by role "{name}"',
            detail=f'Only roles with privileges of role "{name}" may revoke privileges granted by this role.',
        )
    if grant and given != BOOTSTRAP_SUPERUSER and select_best_admin(session, given, role) != given:
        raise PgError(
            "42501",
            f'permission denied to grant privileges as role "{name}"',
            detail=f'The grantor must have the ADMIN option on role "{role_name(session, role)}".',
        )
    return given


def _members(session: Session, role: int) -> list[tables.pg_auth_members]:
    members = rows(session, tables.pg_auth_members, roleid=role)
    members.sort(key=lambda r: (r.member, r.grantor))
    return members


# --- GRANT ------------------------------------------------------------------------------------------------------------


def add_members(
    session: Session, current: int, role: int, members: Sequence[int], grantor: int | None, options: GrantOptions
) -> None:
    """Makes roles members of a role (AddRoleMems)."""
    grantor = _grantor(session, current, role, grantor, grant=True)
    for member in members:
        if member == ROLE_DATABASE_OWNER:
            raise PgError("XX000", f'role "{role_name(session, member)}" cannot be a member of any role')
        if is_member_of_role_nosuper(session, role, member):
            raise PgError(
                "0LP01", f'role "{role_name(session, role)}" is a member of role "{role_name(session, member)}"'
            )
    if options.admin and grantor != BOOTSTRAP_SUPERUSER:
        _check_not_circular(session, role, members, grantor)
    for member in members:
        _add_member(session, role, member, grantor, options)


def _check_not_circular(session: Session, role: int, members: Sequence[int], grantor: int) -> None:
    """Chains of ADMIN OPTION must end: a role cannot grant it back to the role it has it from."""
    existing = _members(session, role)
    plans = [_Plan.NOTHING] * len(existing)
    for member in members:
        if member == BOOTSTRAP_SUPERUSER:
            raise _granted_back()
        for index, row in enumerate(existing):
            if row.member == member:
                _plan(existing, plans, index, admin_only=False, cascade=True)
    left = zip(existing, plans, strict=True)
    if not any(plan is _Plan.NOTHING and row.member == grantor and row.admin_option for row, plan in left):
        raise _granted_back()


def _granted_back() -> PgError:
    return PgError("0LP01", "ADMIN option cannot be granted back to your own grantor")


def _add_member(session: Session, role: int, member: int, grantor: int, options: GrantOptions) -> None:
    given = {"admin_option": options.admin, "inherit_option": options.inherit, "set_option": options.set}
    existing = rows(session, tables.pg_auth_members, roleid=role, member=member, grantor=grantor)
    if existing:
        changes = {k: v for k, v in given.items() if v is not None and getattr(existing[0], k) != v}
        if not changes:
            session.notice(
                "NOTICE",
                f'role "{role_name(session, member)}" has already been granted membership in role '
                f'"{role_name(session, role)}" by role "{role_name(session, grantor)}"',
            )
            return
        update(session, tables.pg_auth_members, {"oid": existing[0].oid}, **changes)
        return
    row = role_row(session, member)
    assert row is not None
    values: dict[str, Any] = {
        "admin_option": bool(options.admin),
        "inherit_option": row.rolinherit if options.inherit is None else options.inherit,
        "set_option": True if options.set is None else options.set,
    }
    oid = new_oid(session)
    insert(session, tables.pg_auth_members, oid=oid, roleid=role, member=member, grantor=grantor, **values)


# --- REVOKE -----------------------------------------------------------------------------------------------------------


def remove_members(
    session: Session,
    current: int,
    role: int,
    members: Sequence[int],
    grantor: int | None,
    options: GrantOptions | None,
    *,
    cascade: bool,
) -> None:
    """As DelRoleMems: plan first, as dependent grants may forbid it; then change the rows."""
    grantor = _grantor(session, current, role, grantor, grant=False)
    existing = _members(session, role)
    plans = [_Plan.NOTHING] * len(existing)
    for member in members:
        if not _plan_revoke(existing, plans, member, grantor, options or GrantOptions(), cascade):
            session.notice(
                "WARNING",
                f'role "{role_name(session, member)}" has not been granted membership in role '
                f'"{role_name(session, role)}" by role "{role_name(session, grantor)}"',
            )
    cleared = {_Plan.CLEAR_ADMIN: "admin_option", _Plan.CLEAR_INHERIT: "inherit_option", _Plan.CLEAR_SET: "set_option"}
    for row, plan in zip(existing, plans, strict=True):
        if plan is _Plan.DELETE:
            delete(session, tables.pg_auth_members, oid=row.oid)
        elif plan is not _Plan.NOTHING:
            update(session, tables.pg_auth_members, {"oid": row.oid}, **{cleared[plan]: False})


def _plan_revoke(
    existing: Sequence[tables.pg_auth_members],
    plans: list[_Plan],
    member: int,
    grantor: int,
    options: GrantOptions,
    cascade: bool,
) -> bool:
    for index, row in enumerate(existing):
        if row.member != member or row.grantor != grantor:
            continue
        if options.inherit is not None:
            plans[index] = _Plan.CLEAR_INHERIT
        elif options.set is not None:
            plans[index] = _Plan.CLEAR_SET
        else:
            _plan(existing, plans, index, admin_only=options.admin is not None, cascade=cascade)
        return True
    return False


def _plan(
    existing: Sequence[tables.pg_auth_members], plans: list[_Plan], index: int, *, admin_only: bool, cascade: bool
) -> None:
    """Plan to revoke one row, and the grants that its ADMIN OPTION allowed (plan_recursive_revoke)."""
    row = existing[index]
    if plans[index] is _Plan.DELETE or (plans[index] is _Plan.CLEAR_ADMIN and admin_only):
        return
    if not admin_only:
        plans[index] = _Plan.DELETE
    elif row.admin_option:
        plans[index] = _Plan.CLEAR_ADMIN
    if not row.admin_option:
        return
    others = zip(existing, plans, strict=True)
    if any(o.member == row.member and o.admin_option and plan is _Plan.NOTHING for o, plan in others):
        return
    for other, dependent in enumerate(existing):
        if dependent.grantor == row.member and plans[other] is not _Plan.DELETE:
            if not cascade:
                raise PgError("2BP01", "dependent privileges exist", hint="Use CASCADE to revoke them too.")
            _plan(existing, plans, other, admin_only=False, cascade=cascade)
