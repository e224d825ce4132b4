"""CREATE, ALTER, DROP and RENAME of roles (user.c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.passwords import encrypt_password, is_md5, verify_password
from pgrepl.catalog.facts.privileges import describe_role_dependencies
from pgrepl.catalog.facts.roles import (
    has_admin_privs_of_role,
    has_attribute,
    is_admin_of_role,
    is_reserved_name,
    is_superuser,
    resolve_role,
    role_by_name,
    role_or_none,
    role_row,
)
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, new_oid, one, update
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER, PG_AUTHID
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.location import conflicting
from pgrepl.sql.nodes import AlterRoleStmt, CreateRoleStmt, DefElem, DropRoleStmt, RenameStmt, RoleSpec
from pgrepl.statements.roles.membership import GrantOptions, add_members, check_may_grant, remove_members
from pgrepl.types.oids import TIMESTAMPTZ
from pgrepl.types.style import TextStyle
from pgrepl.types.text import read_text, write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

# option: column of pg_authid
_ATTRIBUTES = {
    "superuser": "rolsuper",
    "inherit": "rolinherit",
    "createrole": "rolcreaterole",
    "createdb": "rolcreatedb",
    "canlogin": "rolcanlogin",
    "isreplication": "rolreplication",
    "bypassrls": "rolbypassrls",
}
# attributes only a role that has them may give, with the word of the message
_GUARDED = {"createdb": "CREATEDB", "isreplication": "REPLICATION", "bypassrls": "BYPASSRLS"}


def _options(session: Session, options: Sequence[DefElem]) -> dict[str, DefElem]:
    given: dict[str, DefElem] = {}
    for option in options:
        if option.name == "sysid":
            session.notice("NOTICE", "SYSID can no longer be specified")
            continue
        if option.name in given:
            conflicting(option)
        given[option.name] = option
    limit = given.get("connectionlimit")
    if limit is not None and isinstance(limit.value, int) and limit.value < -1:
        raise PgError("22023", f"invalid connection limit: {limit.value}")
    return given


def _refused(verb: str, detail: str) -> PgError:
    return PgError("42501", f"permission denied to {verb} role", detail=detail)


def _reserved(name: str) -> PgError:
    return PgError("42939", f'role name "{name}" is reserved', detail='Role names starting with "pg_" are reserved.')


def check_not_reserved(role: RoleSpec) -> None:
    """Raises for a role whose name is reserved (check_rolespec_name)."""
    if role.name is not None and is_reserved_name(role.name):
        raise PgError("42939", f'role name "{role.name}" is reserved', detail="Cannot alter reserved roles.")


def _valid_until(session: Session, option: DefElem | None) -> str | None:
    """The moment in UTC, in ISO form."""
    if option is None or option.value is None:
        return None
    moment = read_text(str(option.value), TIMESTAMPTZ, -1, session.text_style)
    return write_text(moment, TIMESTAMPTZ, TextStyle(timezone="UTC"))


def _secret(session: Session, name: str, password: str) -> str | None:
    """The password as it is stored; None for an empty one."""
    if password == "" or _is_empty_secret(name, password):
        session.notice("NOTICE", "empty string is not a valid password, clearing password")
        return None
    settings = session.settings
    return encrypt_password(
        settings.get("password_encryption"), name, password, int(settings.value("scram_iterations"))
    )


def _is_empty_secret(name: str, password: str) -> bool:
    return password.startswith(("md5", "SCRAM-")) and verify_password(name, password, "")


# --- CREATE -----------------------------------------------------------------------------------------------------------


def create_role(stmt: CreateRoleStmt, session: Session) -> Result:
    given = _options(session, stmt.options)
    values: dict[str, Any] = dict.fromkeys(_ATTRIBUTES.values(), False)
    values["rolinherit"] = True
    values["rolcanlogin"] = stmt.kind == "USER"
    values.update({column: given[name].value for name, column in _ATTRIBUTES.items() if name in given})
    _check_may_create(session, values)
    if is_reserved_name(stmt.name):
        raise _reserved(stmt.name)
    if role_or_none(session, stmt.name) is not None:
        raise PgError("42710", f'role "{stmt.name}" already exists')
    limit = given.get("connectionlimit")
    values["rolconnlimit"] = -1 if limit is None else limit.value
    values["rolvaliduntil"] = _valid_until(session, given.get("validUntil"))
    password = given.get("password")
    plain = None if password is None else password.value
    values["rolpassword"] = None if plain is None else _secret(session, stmt.name, str(plain))
    oid = new_oid(session)
    insert(session, tables.pg_authid, oid=oid, rolname=stmt.name, **values)
    _memberships(session, oid, given)
    return Result("CREATE ROLE")


def _check_may_create(session: Session, values: dict[str, Any]) -> None:
    role = session.role
    if is_superuser(session, role):
        return
    if not has_attribute(session, role, "rolcreaterole"):
        raise _refused("create", "Only roles with the CREATEROLE attribute may create roles.")
    wanted = [("SUPERUSER", "rolsuper")] + [(word, _ATTRIBUTES[name]) for name, word in _GUARDED.items()]
    for word, column in wanted:
        if values[column] and (column == "rolsuper" or not has_attribute(session, role, column)):
            raise _refused(
                "create", f"Only roles with the {word} attribute may create roles with the {word} attribute."
            )


def _memberships(session: Session, oid: int, given: dict[str, DefElem]) -> None:
    """IN ROLE, ROLE and ADMIN, and the creator's own ADMIN OPTION."""
    creator = session.role
    for spec in _specs(given, "addroleto"):
        target = resolve_role(session, spec)
        check_may_grant(session, creator, target, grant=True)
        add_members(session, creator, target, [oid], None, GrantOptions())
    if not is_superuser(session, creator):
        own = GrantOptions(admin=True, inherit=False, set=False)
        add_members(session, BOOTSTRAP_SUPERUSER, oid, [creator], BOOTSTRAP_SUPERUSER, own)
        self_grant = session.settings.get("createrole_self_grant").lower()
        if self_grant:
            chosen = GrantOptions(admin=False, inherit="inherit" in self_grant, set="set" in self_grant)
            add_members(session, creator, oid, [creator], creator, chosen)
    for name, options in (("rolemembers", GrantOptions()), ("adminmembers", GrantOptions(admin=True))):
        members = [resolve_role(session, spec) for spec in _specs(given, name)]
        add_members(session, creator, oid, members, None, options)


def _specs(given: dict[str, DefElem], name: str) -> list[RoleSpec]:
    option = given.get(name)
    if option is None or not isinstance(option.value, tuple):
        return []
    return [spec for spec in option.value if isinstance(spec, RoleSpec)]


# --- ALTER ------------------------------------------------------------------------------------------------------------


def alter_role(stmt: AlterRoleStmt, session: Session) -> Result:
    check_not_reserved(stmt.role)
    given = _options(session, stmt.options)
    role = role_row(session, resolve_role(session, stmt.role))
    assert role is not None
    _check_may_alter(session, role, given)
    values: dict[str, Any] = {}
    if "validUntil" in given:
        values["rolvaliduntil"] = _valid_until(session, given["validUntil"])
    if "superuser" in given and not given["superuser"].value and role.oid == BOOTSTRAP_SUPERUSER:
        raise PgError(
            "0A000",
            "permission denied to alter role",
            detail="The bootstrap superuser must have the SUPERUSER attribute.",
        )
    values.update({column: given[name].value for name, column in _ATTRIBUTES.items() if name in given})
    if "connectionlimit" in given:
        values["rolconnlimit"] = given["connectionlimit"].value
    if "password" in given:
        plain = given["password"].value
        values["rolpassword"] = None if plain is None else _secret(session, role.rolname, str(plain))
    if values:
        update(session, tables.pg_authid, {"oid": role.oid}, **values)
    if "rolemembers" in given:
        members = [resolve_role(session, spec) for spec in _specs(given, "rolemembers")]
        if stmt.action > 0:
            add_members(session, session.role, role.oid, members, None, GrantOptions())
        else:
            remove_members(session, session.role, role.oid, members, None, None, cascade=False)
    return Result("ALTER ROLE")


def _check_may_alter(session: Session, role: tables.pg_authid, given: dict[str, DefElem]) -> None:
    current = session.role
    is_super = is_superuser(session, current)
    if role.rolsuper and not is_super:
        raise _refused("alter", "Only roles with the SUPERUSER attribute may alter roles with the SUPERUSER attribute.")
    if "superuser" in given and not is_super:
        raise _refused("alter", "Only roles with the SUPERUSER attribute may change the SUPERUSER attribute.")
    if not has_attribute(session, current, "rolcreaterole") or not is_admin_of_role(session, current, role.oid):
        if given.keys() - {"password", "superuser", "rolemembers"}:
            raise _refused("alter", _needs_admin(role.rolname, "alter this role"))
        if "password" in given and role.oid != current:
            raise _refused(
                "alter",
                "To change another role's password, the current user must have the CREATEROLE attribute "
                "and the ADMIN option on the role.",
            )
    elif not is_super:
        for name, word in _GUARDED.items():
            if name in given and not has_attribute(session, current, _ATTRIBUTES[name]):
                raise _refused("alter", f"Only roles with the {word} attribute may change the {word} attribute.")
    if "rolemembers" in given and not has_admin_privs_of_role(session, current, role.oid):
        raise _refused("alter", f'Only roles with the ADMIN option on role "{role.rolname}" may add or drop members.')


def _needs_admin(name: str, what: str) -> str:
    return f'Only roles with the CREATEROLE attribute and the ADMIN option on role "{name}" may {what}.'


def rename_role(stmt: RenameStmt, session: Session) -> Result:
    """ALTER ROLE … RENAME TO (RenameRole)."""
    role = role_by_name(session, stmt.name)
    if role.oid == session.user:
        raise PgError("0A000", "session user cannot be renamed")
    if role.oid == session.role:
        raise PgError("0A000", "current user cannot be renamed")
    for name in (role.rolname, stmt.new_name):
        if is_reserved_name(name):
            raise _reserved(name)
    if role_or_none(session, stmt.new_name) is not None:
        raise PgError("42710", f'role "{stmt.new_name}" already exists')
    if role.rolsuper:
        if not is_superuser(session):
            raise _refused(
                "rename", "Only roles with the SUPERUSER attribute may rename roles with the SUPERUSER attribute."
            )
    elif not has_attribute(session, session.role, "rolcreaterole") or not is_admin_of_role(
        session, session.role, role.oid
    ):
        raise _refused("rename", _needs_admin(role.rolname, "rename this role"))
    values: dict[str, Any] = {"rolname": stmt.new_name}
    if role.rolpassword is not None and is_md5(role.rolpassword):
        session.notice("NOTICE", "MD5 password cleared because of role rename")
        values["rolpassword"] = None
    update(session, tables.pg_authid, {"oid": role.oid}, **values)
    return Result("ALTER ROLE")


# --- DROP -------------------------------------------------------------------------------------------------------------


def drop_role(stmt: DropRoleStmt, session: Session) -> Result:
    """As DropRole: the memberships of all roles are deleted first, so that their order in the list does not matter."""
    if not has_attribute(session, session.role, "rolcreaterole"):
        raise _refused(
            "drop", "Only roles with the CREATEROLE attribute and the ADMIN option on the target roles may drop roles."
        )
    dropped: list[int] = []
    for spec in stmt.roles:
        if spec.name is None:
            raise PgError("22023", "cannot use special role specifier in DROP ROLE")
        role = role_or_none(session, spec.name)
        if role is None:
            if not stmt.missing_ok:
                raise PgError("42704", f'role "{spec.name}" does not exist')
            session.notice("NOTICE", f'role "{spec.name}" does not exist, skipping')
            continue
        _check_may_drop(session, role)
        delete(session, tables.pg_auth_members, roleid=role.oid)
        delete(session, tables.pg_auth_members, member=role.oid)
        if role.oid not in dropped:
            dropped.append(role.oid)
    for oid in dropped:
        role = one(session, tables.pg_authid, oid=oid)
        assert role is not None
        detail = describe_role_dependencies(session, oid)
        if detail is not None:
            raise PgError(
                "2BP01", f'role "{role.rolname}" cannot be dropped because some objects depend on it', detail=detail
            )
        delete(session, tables.pg_authid, oid=oid)
        delete(session, tables.pg_shdescription, objoid=oid, classoid=PG_AUTHID)
        delete(session, tables.pg_db_role_setting, setrole=oid)
    return Result("DROP ROLE")


def _check_may_drop(session: Session, role: tables.pg_authid) -> None:
    if role.oid == session.role:
        raise PgError("55006", "current user cannot be dropped")
    if role.oid == session.user:
        raise PgError("55006", "session user cannot be dropped")
    if role.rolsuper and not is_superuser(session):
        raise _refused("drop", "Only roles with the SUPERUSER attribute may drop roles with the SUPERUSER attribute.")
    if not is_admin_of_role(session, session.role, role.oid):
        raise _refused("drop", _needs_admin(role.rolname, "drop this role"))
