"""Roles; DROP, COMMENT ON, RENAME TO and OWNER TO for objects of any kind."""

from __future__ import annotations

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.names import Names
from pgrepl.sql.nodes import (
    AccessPriv,
    CommentStmt,
    DefElem,
    DropStmt,
    GrantRoleStmt,
    ObjectType,
    RoleSpec,
    UnsupportedStmt,
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
def role_id(location: int, role: RoleSpec) -> str:
    """A role that must be given by name."""
    if role.name is not None:
        return role.name
    if role.word == "public":
        raise PgError("42939", 'role name "public" is reserved', location=location)
    word = str(role.word).upper()
    raise PgError("42939", f"{word} cannot be used as a role name here", location=location)


# ------------------------------------------------------------------------------------------------ options


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
def role_unencrypted_password(location: int, password: str) -> DefElem:
    raise PgError(
        "0A000",
        "UNENCRYPTED PASSWORD is no longer supported",
        hint="Remove UNENCRYPTED to store the password in encrypted form instead.",
        location=location,
    )


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


@build
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


# --- object -----------------------------------------------------------------------------------------------------------


Kind = ObjectType | str
"""A kind of object of the dialect; or, for one outside it, the words of its name."""

# ------------------------------------------------------------------------------------------------ DROP


@build
def drop(
    location: int, kind: Kind, names: list[Names], cascade: bool, missing_ok: bool = False
) -> DropStmt | UnsupportedStmt:
    if isinstance(kind, str):
        return UnsupportedStmt(f"DROP {kind}", location)
    return DropStmt(kind, tuple(names), missing_ok, cascade)


@build
def drop_named(
    location: int, kind: Kind, names: list[str], cascade: bool, missing_ok: bool = False
) -> DropStmt | UnsupportedStmt:
    return drop(location, kind, [(name,) for name in names], cascade, missing_ok)


@build
def drop_on_relation(
    location: int, kind: Kind, name: str, relation: Names, cascade: bool, missing_ok: bool = False
) -> DropStmt | UnsupportedStmt:
    return drop(location, kind, [(*relation, name)], cascade, missing_ok)


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
def comment_on_relation_part(
    location: int, kind: Kind, name: str, relation: Names, text: str | None
) -> CommentStmt | UnsupportedStmt:
    return comment(location, kind, (*relation, name), text)
