"""Roles; DROP, COMMENT ON, RENAME TO and OWNER TO for objects of any kind."""

from __future__ import annotations

from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.names import Names
from pgrepl.sql.nodes import (
    AccessPriv,
    AlterOwnerStmt,
    AlterRoleSetStmt,
    AlterRoleStmt,
    CommentStmt,
    CreateRoleStmt,
    DefElem,
    DropOwnedStmt,
    DropRoleStmt,
    DropStmt,
    GrantRoleStmt,
    ObjectType,
    ReassignOwnedStmt,
    RenameStmt,
    RoleSpec,
    UnsupportedStmt,
    VariableSetStmt,
)

# ------------------------------------------------------------------------------------------------ names


@build
def role_name(location: int, name: str) -> RoleSpec:
    """A role name, or the word PUBLIC. public and none are reserved though they are no key words, quoted or not."""
    if name == "none":
        raise PgError("42939", 'role name "none" is reserved', location=location)
    if name == "public":
        return RoleSpec(word="public", location=location)
    return RoleSpec(name, location=location)


@build
def role_current_role(location: int) -> RoleSpec:
    return RoleSpec(word="current_role", location=location)


@build
def role_current_user(location: int) -> RoleSpec:
    return RoleSpec(word="current_user", location=location)


@build
def role_session_user(location: int) -> RoleSpec:
    return RoleSpec(word="session_user", location=location)


@build
def role_id(location: int, role: RoleSpec) -> str:
    """A role that must be given by name."""
    if role.name is not None:
        return role.name
    if role.word == "public":
        raise PgError("42939", 'role name "public" is reserved', location=location)
    word = str(role.word).upper()
    raise PgError("42939", f"{word} cannot be used as a role name here", location=location)


# ------------------------------------------------------------------------------------------------ statements


def _create(alias: str, kind: str) -> None:
    def create(location: int, name: str, _: None, options: list[DefElem]) -> CreateRoleStmt:
        return CreateRoleStmt(kind, name, tuple(options), location)

    build(alias)(create)


_create("create_role", "ROLE")
_create("create_user", "USER")
_create("create_group", "GROUP")


@build
def alter_role(location: int, role: RoleSpec, _: None, options: list[DefElem]) -> AlterRoleStmt:
    return AlterRoleStmt(role, tuple(options))


@build(at=6)
def alter_group_add(location: int, group: RoleSpec, members: list[RoleSpec]) -> AlterRoleStmt:
    return AlterRoleStmt(group, (DefElem("rolemembers", tuple(members), location),), 1)


@build(at=6)
def alter_group_drop(location: int, group: RoleSpec, members: list[RoleSpec]) -> AlterRoleStmt:
    return AlterRoleStmt(group, (DefElem("rolemembers", tuple(members), location),), -1)


@build
def alter_role_set(location: int, role: RoleSpec, database: str | None, setting: VariableSetStmt) -> AlterRoleSetStmt:
    return AlterRoleSetStmt(role, database, setting)


@build
def alter_all_roles_set(location: int, database: str | None, setting: VariableSetStmt) -> AlterRoleSetStmt:
    return AlterRoleSetStmt(None, database, setting)


@build
def drop_role(location: int, roles: list[RoleSpec]) -> DropRoleStmt:
    return DropRoleStmt(tuple(roles))


@build
def drop_role_if_exists(location: int, roles: list[RoleSpec]) -> DropRoleStmt:
    return DropRoleStmt(tuple(roles), missing_ok=True)


@build
def reassign_owned(location: int, roles: list[RoleSpec], new_role: RoleSpec) -> ReassignOwnedStmt:
    return ReassignOwnedStmt(tuple(roles), new_role)


@build
def drop_owned(location: int, roles: list[RoleSpec], cascade: bool) -> DropOwnedStmt:
    return DropOwnedStmt(tuple(roles), cascade)


# ------------------------------------------------------------------------------------------------ options


def _option(alias: str, name: str) -> None:
    def option(location: int, value: Any) -> DefElem:
        return DefElem(name, tuple(value) if isinstance(value, list) else value, location)

    build(alias)(option)


_option("role_password", "password")
_option("role_connection_limit", "connectionlimit")
_option("role_valid_until", "validUntil")
_option("role_members", "rolemembers")
_option("role_sysid", "sysid")
_option("role_admin_members", "adminmembers")
_option("role_memberships", "addroleto")

_WORDS = {
    "superuser": ("superuser", True),
    "nosuperuser": ("superuser", False),
    "createrole": ("createrole", True),
    "nocreaterole": ("createrole", False),
    "replication": ("isreplication", True),
    "noreplication": ("isreplication", False),
    "createdb": ("createdb", True),
    "nocreatedb": ("createdb", False),
    "login": ("canlogin", True),
    "nologin": ("canlogin", False),
    "bypassrls": ("bypassrls", True),
    "nobypassrls": ("bypassrls", False),
    "noinherit": ("inherit", False),
}
"""The options that are one word and no key word."""


@build
def role_no_password(location: int) -> DefElem:
    return DefElem("password", None, location)


@build
def role_unencrypted_password(location: int, password: str) -> DefElem:
    raise PgError(
        "0A000",
        "UNENCRYPTED PASSWORD is no longer supported",
        hint="Remove UNENCRYPTED to store the password in encrypted form instead.",
        location=location,
    )


@build
def role_inherit(location: int) -> DefElem:
    return DefElem("inherit", True, location)


@build
def role_word(location: int, word: str) -> DefElem:
    if word not in _WORDS:
        raise PgError("42601", f'unrecognized role option "{word}"', location=location)
    name, value = _WORDS[word]
    return DefElem(name, value, location)


# ------------------------------------------------------------------------------------------------ membership


def _granted(privileges: list[tuple[AccessPriv, int]]) -> tuple[tuple[str, tuple[str, ...], int], ...]:
    return tuple((str(privilege.name), privilege.columns, location) for privilege, location in privileges)


@build
def grant_role(
    location: int, privileges: list[tuple[AccessPriv, int]], grantees: list[RoleSpec], grantor: RoleSpec | None
) -> GrantRoleStmt:
    return GrantRoleStmt(True, _granted(privileges), tuple(grantees), grantor=grantor)


@build
def grant_role_with(
    location: int,
    privileges: list[tuple[AccessPriv, int]],
    grantees: list[RoleSpec],
    options: list[DefElem],
    grantor: RoleSpec | None,
) -> GrantRoleStmt:
    return GrantRoleStmt(True, _granted(privileges), tuple(grantees), tuple(options), grantor)


@build
def revoke_role(
    location: int,
    privileges: list[tuple[AccessPriv, int]],
    grantees: list[RoleSpec],
    grantor: RoleSpec | None,
    cascade: bool,
) -> GrantRoleStmt:
    return GrantRoleStmt(False, _granted(privileges), tuple(grantees), grantor=grantor, cascade=cascade)


@build(at=2)
def revoke_role_option(
    location: int,
    option: str,
    privileges: list[tuple[AccessPriv, int]],
    grantees: list[RoleSpec],
    grantor: RoleSpec | None,
    cascade: bool,
) -> GrantRoleStmt:
    options = (DefElem(option, False, location),)
    return GrantRoleStmt(False, _granted(privileges), tuple(grantees), options, grantor, cascade)


@build
def grant_role_option(location: int, name: str, value: bool) -> DefElem:
    return DefElem(name, value, location)


# --- object -----------------------------------------------------------------------------------------------------------


Kind = ObjectType | str
"""A kind of object of the dialect; or, for one outside it, the words of its name."""

# ------------------------------------------------------------------------------------------------ kinds


def _kind(alias: str, kind: Kind) -> None:
    build(alias)(lambda location: kind)


for _inside in (
    ObjectType.TABLE, ObjectType.SEQUENCE, ObjectType.VIEW, ObjectType.INDEX, ObjectType.PUBLICATION, ObjectType.SCHEMA,
    ObjectType.DATABASE, ObjectType.ROLE, ObjectType.SUBSCRIPTION, ObjectType.MATVIEW,
    ObjectType.TRIGGER, ObjectType.COLLATION,
):  # fmt: skip
    _kind(f"kind_{_inside.value.replace(' ', '_')}", _inside)
for _outside in (
    "FOREIGN TABLE", "CONVERSION", "STATISTICS", "TEXT SEARCH PARSER",
    "TEXT SEARCH DICTIONARY", "TEXT SEARCH TEMPLATE", "TEXT SEARCH CONFIGURATION", "ACCESS METHOD", "EVENT TRIGGER",
    "EXTENSION", "FOREIGN DATA WRAPPER", "LANGUAGE", "TABLESPACE", "POLICY", "RULE",
):  # fmt: skip
    _kind(f"kind_{_outside.lower().replace(' ', '_')}", _outside)


_kind("kind_server", ObjectType.FOREIGN_SERVER)


# ------------------------------------------------------------------------------------------------ DROP


def _drop(
    location: int,
    kind: Kind,
    names: list[Names],
    cascade: bool,
    *,
    missing_ok: bool = False,
    concurrently: bool = False,
) -> DropStmt | UnsupportedStmt:
    if isinstance(kind, str):
        return UnsupportedStmt(f"DROP {kind}", location)
    return DropStmt(kind, tuple(names), missing_ok, cascade, concurrently)


@build
def drop(location: int, kind: Kind, names: list[Names], cascade: bool) -> DropStmt | UnsupportedStmt:
    return _drop(location, kind, names, cascade)


@build
def drop_if_exists(location: int, kind: Kind, names: list[Names], cascade: bool) -> DropStmt | UnsupportedStmt:
    return _drop(location, kind, names, cascade, missing_ok=True)


@build
def drop_named(location: int, kind: Kind, names: list[str], cascade: bool) -> DropStmt | UnsupportedStmt:
    return _drop(location, kind, [(name,) for name in names], cascade)


@build
def drop_named_if_exists(location: int, kind: Kind, names: list[str], cascade: bool) -> DropStmt | UnsupportedStmt:
    return _drop(location, kind, [(name,) for name in names], cascade, missing_ok=True)


@build
def drop_index_concurrently(location: int, names: list[Names], cascade: bool) -> DropStmt | UnsupportedStmt:
    return _drop(location, ObjectType.INDEX, names, cascade, concurrently=True)


@build
def drop_index_concurrently_if_exists(location: int, names: list[Names], cascade: bool) -> DropStmt | UnsupportedStmt:
    return _drop(location, ObjectType.INDEX, names, cascade, missing_ok=True, concurrently=True)


@build
def drop_on_relation(
    location: int, kind: Kind, name: str, relation: Names, cascade: bool
) -> DropStmt | UnsupportedStmt:
    return _drop(location, kind, [(*relation, name)], cascade)


@build
def drop_on_relation_if_exists(
    location: int, kind: Kind, name: str, relation: Names, cascade: bool
) -> DropStmt | UnsupportedStmt:
    return _drop(location, kind, [(*relation, name)], cascade, missing_ok=True)


# ------------------------------------------------------------------------------------------------ COMMENT


@build
def comment(location: int, kind: Kind, name: Names, text: str | None) -> CommentStmt | UnsupportedStmt:
    if isinstance(kind, str):
        return UnsupportedStmt(f"COMMENT ON {kind}", location)
    return CommentStmt(kind, name, text, location)


@build
def comment_on_named(location: int, kind: Kind, name: str, text: str | None) -> CommentStmt | UnsupportedStmt:
    return comment(location, kind, (name,), text)


@build
def comment_on_column(location: int, name: Names, text: str | None) -> CommentStmt:
    return CommentStmt(ObjectType.COLUMN, name, text, location)


@build
def comment_on_constraint(location: int, name: str, relation: Names, text: str | None) -> CommentStmt:
    return CommentStmt(ObjectType.TABCONSTRAINT, (*relation, name), text, location)


@build
def comment_on_relation_part(
    location: int, kind: Kind, name: str, relation: Names, text: str | None
) -> CommentStmt | UnsupportedStmt:
    return comment(location, kind, (*relation, name), text)


# ------------------------------------------------------------------------------------------------ RENAME, OWNER


def _rename(alias: str, kind: ObjectType) -> None:
    def rename(location: int, name: str, new_name: str) -> RenameStmt:
        return RenameStmt(kind, new_name, name=name)

    build(alias)(rename)


def _owner(alias: str, kind: ObjectType) -> None:
    def owner(location: int, name: str, new_owner: RoleSpec) -> AlterOwnerStmt:
        return AlterOwnerStmt(kind, (name,), new_owner)

    build(alias)(owner)


for _named in (
    ObjectType.PUBLICATION, ObjectType.SUBSCRIPTION, ObjectType.SCHEMA, ObjectType.DATABASE, ObjectType.FOREIGN_SERVER,
):  # fmt: skip
    _alias = _named.value.replace(" ", "_")
    _rename(f"rename_{_alias}", _named)
    _owner(f"owner_of_{_alias}", _named)
_rename("rename_role", ObjectType.ROLE)
