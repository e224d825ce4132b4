"""GRANT and REVOKE of privileges, schemas and databases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql.building import build
from pgrepl.sql.building.names import Names
from pgrepl.sql.nodes import (
    AccessPriv,
    CreateSchemaStmt,
    FloatText,
    GrantStmt,
    ObjectType,
    RangeVar,
    RoleSpec,
    RoutineName,
    Statement,
)

Privilege = tuple[AccessPriv, int]
"""A privilege and where it stands: GRANT of a role needs the place, GRANT on an object does not."""

PrivilegeTarget = tuple[str, ObjectType, "tuple[Names, ...] | tuple[RoutineName, ...]"]
"""object or all_in_schema, kind, names"""


# ------------------------------------------------------------------------------------------------ targets


def _parts(target: RangeVar | Names | str | int | FloatText) -> Names:
    """The objects of a GRANT, as names of several parts."""
    if isinstance(target, RangeVar):
        return tuple(part for part in (target.catalog, target.schema, target.name) if part is not None)
    if isinstance(target, tuple):
        return target
    return (target.text if isinstance(target, FloatText) else str(target),)


@build
def on(location: int, names: list[Any], kind: ObjectType, where: str = "object") -> PrivilegeTarget:
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
    grantees: list[RoleSpec],
    is_grant: bool,
    grant_option: bool = False,
    grantor: RoleSpec | None = None,
    cascade: bool = False,
) -> GrantStmt:
    where, kind, objects = target
    routines = tuple(found for found in objects if isinstance(found, RoutineName))
    names = tuple(name for name in objects if not isinstance(name, RoutineName))
    return GrantStmt(
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


# --- schema -----------------------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------------ schemas


@frozen
class _Elements:
    statements: tuple[Statement, ...] = ()
    location: int = -1  # of the first


@build
def no_schema_elements(location: int) -> _Elements:
    return _Elements()


@build
def schema_elements(location: int, before: _Elements, statement: Statement) -> _Elements:
    return _Elements((*before.statements, statement), before.location if before.statements else location)


@build
def create_schema(location: int, name: str, elements: _Elements) -> CreateSchemaStmt:
    return CreateSchemaStmt(name, elements=elements.statements)


@build
def create_schema_authorization(
    location: int, name: str | None, owner: RoleSpec, elements: _Elements
) -> CreateSchemaStmt:
    return CreateSchemaStmt(name, owner, elements=elements.statements)


@build
def create_schema_if_not_exists(location: int, name: str, elements: _Elements) -> CreateSchemaStmt:
    return _if_not_exists(CreateSchemaStmt(name), elements)


@build
def create_schema_authorization_if_not_exists(
    location: int, name: str | None, owner: RoleSpec, elements: _Elements
) -> CreateSchemaStmt:
    return _if_not_exists(CreateSchemaStmt(name, owner), elements)


def _if_not_exists(statement: CreateSchemaStmt, elements: _Elements) -> CreateSchemaStmt:
    if elements.statements:
        message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements"
        raise PgError("0A000", message, location=elements.location)
    return replace(statement, if_not_exists=True)


# ------------------------------------------------------------------------------------------------ databases


@build
def word_connection_limit(location: int, *_: str) -> str:
    return "connection_limit"
