"""Roles; GRANT and REVOKE; schemas and databases; DROP, COMMENT ON, RENAME TO and OWNER TO for objects of any kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql import nodes
from pgrepl.sql.building import build
from pgrepl.sql.building.names import Names
from pgrepl.sql.nodes import RoutineName

# ------------------------------------------------------------------------------------------------ names


@build
def role_name(location: int, name: str) -> nodes.RoleSpec:
    """A role name, or the word PUBLIC. public and none are reserved though they are no key words, quoted or not."""
    if name == "none":
        raise PgError("42939", 'role name "none" is reserved', location=location)
    if name == "public":
        return nodes.RoleSpec(word="public", location=location)
    return nodes.RoleSpec(name, location=location)


@build
def role_id(location: int, role: nodes.RoleSpec) -> str:
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
def role_unencrypted_password(location: int, password: str) -> nodes.DefElem:
    raise PgError(
        "0A000",
        "UNENCRYPTED PASSWORD is no longer supported",
        hint="Remove UNENCRYPTED to store the password in encrypted form instead.",
        location=location,
    )


@build
def role_word(location: int, word: str) -> nodes.DefElem:
    if word not in _WORDS:
        raise PgError("42601", f'unrecognized role option "{word}"', location=location)
    name, value = _WORDS[word]
    return nodes.DefElem(name, value, location)


# ------------------------------------------------------------------------------------------------ membership


def _granted(privileges: list[Privilege]) -> tuple[tuple[str, tuple[str, ...], int], ...]:
    return tuple((str(privilege.name), privilege.columns, location) for privilege, location in privileges)


@build
def grant_role(
    location: int, privileges: list[Privilege], grantees: list[nodes.RoleSpec], grantor: nodes.RoleSpec | None
) -> nodes.GrantRoleStmt:
    return nodes.GrantRoleStmt(True, _granted(privileges), tuple(grantees), grantor=grantor)


@build
def grant_role_with(
    location: int,
    privileges: list[Privilege],
    grantees: list[nodes.RoleSpec],
    options: list[nodes.DefElem],
    grantor: nodes.RoleSpec | None,
) -> nodes.GrantRoleStmt:
    return nodes.GrantRoleStmt(True, _granted(privileges), tuple(grantees), tuple(options), grantor)


@build
def revoke_role(
    location: int,
    privileges: list[Privilege],
    grantees: list[nodes.RoleSpec],
    grantor: nodes.RoleSpec | None,
    cascade: bool,
) -> nodes.GrantRoleStmt:
    return nodes.GrantRoleStmt(False, _granted(privileges), tuple(grantees), grantor=grantor, cascade=cascade)


@build
def revoke_role_option(
    location: int,
    option: str,
    privileges: list[Privilege],
    grantees: list[nodes.RoleSpec],
    grantor: nodes.RoleSpec | None,
    cascade: bool,
) -> nodes.GrantRoleStmt:
    options = (nodes.DefElem(option, False, location),)
    return nodes.GrantRoleStmt(False, _granted(privileges), tuple(grantees), options, grantor, cascade)


# --- object -----------------------------------------------------------------------------------------------------------


Kind = nodes.ObjectType | str
"""A kind of object of the dialect; or, for one outside it, the words of its name."""

# ------------------------------------------------------------------------------------------------ DROP


@build
def drop(
    location: int, kind: Kind, names: list[Names], cascade: bool, missing_ok: bool = False
) -> nodes.DropStmt | nodes.UnsupportedStmt:
    if isinstance(kind, str):
        return nodes.UnsupportedStmt(f"DROP {kind}", location)
    return nodes.DropStmt(kind, tuple(names), missing_ok, cascade)


@build
def drop_named(
    location: int, kind: Kind, names: list[str], cascade: bool, missing_ok: bool = False
) -> nodes.DropStmt | nodes.UnsupportedStmt:
    return drop(location, kind, [(name,) for name in names], cascade, missing_ok)


@build
def drop_on_relation(
    location: int, kind: Kind, name: str, relation: Names, cascade: bool, missing_ok: bool = False
) -> nodes.DropStmt | nodes.UnsupportedStmt:
    return drop(location, kind, [(*relation, name)], cascade, missing_ok)


# ------------------------------------------------------------------------------------------------ COMMENT


@build
def comment(location: int, kind: Kind, name: Names, text: str | None) -> nodes.CommentStmt | nodes.UnsupportedStmt:
    if isinstance(kind, str):
        return nodes.UnsupportedStmt(f"COMMENT ON {kind}", location)
    return nodes.CommentStmt(kind, name, text, location)


@build
def comment_on_named(
    location: int, kind: Kind, name: str, text: str | None
) -> nodes.CommentStmt | nodes.UnsupportedStmt:
    return comment(location, kind, (name,), text)


@build
def comment_on_relation_part(
    location: int, kind: Kind, name: str, relation: Names, text: str | None
) -> nodes.CommentStmt | nodes.UnsupportedStmt:
    return comment(location, kind, (*relation, name), text)


Privilege = tuple[nodes.AccessPriv, int]
"""A privilege and where it stands: GRANT of a role needs the place, GRANT on an object does not."""

PrivilegeTarget = tuple[str, nodes.ObjectType, "tuple[Names, ...] | tuple[RoutineName, ...]"]
"""object or all_in_schema, kind, names"""


# ------------------------------------------------------------------------------------------------ targets


def _parts(target: nodes.RangeVar | Names | str | int | nodes.FloatText) -> Names:
    """The objects of a GRANT, as names of several parts."""
    if isinstance(target, nodes.RangeVar):
        return tuple(part for part in (target.catalog, target.schema, target.name) if part is not None)
    if isinstance(target, tuple):
        return target
    return (target.text if isinstance(target, nodes.FloatText) else str(target),)


@build
def on(location: int, names: list[Any], kind: nodes.ObjectType, where: str = "object") -> PrivilegeTarget:
    return where, kind, tuple(_parts(name) for name in names)


@build
def dotted_parameter(location: int, name: str, part: str) -> str:
    return f"{name}.{part}"


# ------------------------------------------------------------------------------------------------ statements


@build
def grant(
    location: int,
    privileges: list[Privilege],
    target: PrivilegeTarget,
    grantees: list[nodes.RoleSpec],
    is_grant: bool,
    grant_option: bool = False,
    grantor: nodes.RoleSpec | None = None,
    cascade: bool = False,
) -> nodes.GrantStmt:
    where, kind, objects = target
    routines = tuple(named for named in objects if isinstance(named, RoutineName))
    names = tuple(name for name in objects if not isinstance(name, RoutineName))
    return nodes.GrantStmt(
        is_grant,
        where,
        kind,
        names,
        tuple(privilege for privilege, _ in privileges),
        tuple(grantees),
        grant_option,
        grantor,
        cascade,
        routines,
    )


# ------------------------------------------------------------------------------------------------ schemas


@frozen
class _Elements:
    statements: tuple[nodes.Statement, ...] = ()
    location: int = -1  # of the first


@build
def no_schema_elements(location: int) -> _Elements:
    return _Elements()


@build
def schema_elements(location: int, before: _Elements, statement: nodes.Statement) -> _Elements:
    return _Elements((*before.statements, statement), before.location if before.statements else location)


@build
def create_schema(location: int, name: str, elements: _Elements) -> nodes.CreateSchemaStmt:
    return nodes.CreateSchemaStmt(name, elements=elements.statements)


@build
def create_schema_authorization(
    location: int, name: str | None, owner: nodes.RoleSpec, elements: _Elements
) -> nodes.CreateSchemaStmt:
    return nodes.CreateSchemaStmt(name, owner, elements=elements.statements)


@build
def create_schema_if_not_exists(location: int, name: str, elements: _Elements) -> nodes.CreateSchemaStmt:
    return _if_not_exists(nodes.CreateSchemaStmt(name), elements)


@build
def create_schema_authorization_if_not_exists(
    location: int, name: str | None, owner: nodes.RoleSpec, elements: _Elements
) -> nodes.CreateSchemaStmt:
    return _if_not_exists(nodes.CreateSchemaStmt(name, owner), elements)


def _if_not_exists(statement: nodes.CreateSchemaStmt, elements: _Elements) -> nodes.CreateSchemaStmt:
    if elements.statements:
        message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements"
        raise PgError("0A000", message, location=elements.location)
    return replace(statement, if_not_exists=True)


# ------------------------------------------------------------------------------------------------ databases


@build
def word_connection_limit(location: int, *_: str) -> str:
    return "connection_limit"
