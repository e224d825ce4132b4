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
    AlterDatabaseStmt,
    AlterDefaultPrivilegesStmt,
    CreateDatabaseStmt,
    CreateSchemaStmt,
    DefElem,
    DropDatabaseStmt,
    FloatText,
    GrantStmt,
    ObjectType,
    RangeVar,
    RoleSpec,
    RoutineName,
    Statement,
    VariableSetStmt,
)

Privilege = tuple[AccessPriv, int]
"""A privilege and where it stands: GRANT of a role needs the place, GRANT on an object does not."""

PrivilegeTarget = tuple[str, ObjectType, "tuple[Names, ...] | tuple[RoutineName, ...]"]
"""object or all_in_schema, kind, names"""


# ------------------------------------------------------------------------------------------------ privileges


@build
def all_privileges(location: int) -> list[Privilege]:
    return []


@build
def all_privileges_on_columns(location: int, columns: list[str]) -> list[Privilege]:
    return [(AccessPriv(None, tuple(columns)), location)]


@build
def privilege(location: int, name: str, columns: list[str] | None) -> Privilege:
    return AccessPriv(name, tuple(columns or ())), location


@build
def privilege_select(location: int, columns: list[str] | None) -> Privilege:
    return privilege(location, "select", columns)


@build
def privilege_references(location: int, columns: list[str] | None) -> Privilege:
    return privilege(location, "references", columns)


@build
def privilege_create(location: int, columns: list[str] | None) -> Privilege:
    return privilege(location, "create", columns)


@build
def privilege_alter_system(location: int) -> Privilege:
    return privilege(location, "alter system", None)


# ------------------------------------------------------------------------------------------------ targets


def _parts(target: RangeVar | Names | str | int | FloatText) -> Names:
    """The objects of a GRANT, as names of several parts."""
    if isinstance(target, RangeVar):
        return tuple(part for part in (target.catalog, target.schema, target.name) if part is not None)
    if isinstance(target, tuple):
        return target
    return (target.text if isinstance(target, FloatText) else str(target),)


def _target(alias: str, kind: ObjectType, where: str = "object") -> None:
    def on(location: int, names: list[Any]) -> PrivilegeTarget:
        return where, kind, tuple(_parts(name) for name in names)

    build(alias)(on)


def _routines(alias: str, kind: ObjectType) -> None:
    def on(location: int, names: list[RoutineName]) -> PrivilegeTarget:
        return "object", kind, tuple(names)

    build(alias)(on)


_routines("on_functions", ObjectType.FUNCTION)
_routines("on_procedures", ObjectType.PROCEDURE)
_routines("on_routines", ObjectType.ROUTINE)
_target("on_tables", ObjectType.TABLE)
_target("on_sequences", ObjectType.SEQUENCE)
_target("on_foreign_data_wrappers", ObjectType.FDW)
_target("on_foreign_servers", ObjectType.FOREIGN_SERVER)
_target("on_databases", ObjectType.DATABASE)
_target("on_domains", ObjectType.DOMAIN)
_target("on_languages", ObjectType.LANGUAGE)
_target("on_large_objects", ObjectType.LARGEOBJECT)
_target("on_parameters", ObjectType.PARAMETER)
_target("on_schemas", ObjectType.SCHEMA)
_target("on_tablespaces", ObjectType.TABLESPACE)
_target("on_types", ObjectType.TYPE)
_target("on_all_tables", ObjectType.TABLE, "all_in_schema")
_target("on_all_sequences", ObjectType.SEQUENCE, "all_in_schema")
_target("on_all_functions", ObjectType.FUNCTION, "all_in_schema")
_target("on_all_procedures", ObjectType.PROCEDURE, "all_in_schema")
_target("on_all_routines", ObjectType.ROUTINE, "all_in_schema")


@build
def dotted_parameter(location: int, name: str, part: str) -> str:
    return f"{name}.{part}"


# ------------------------------------------------------------------------------------------------ statements


def _statement(
    is_grant: bool,
    privileges: list[Privilege],
    target: PrivilegeTarget,
    grantees: list[RoleSpec],
    grant_option: bool,
    grantor: RoleSpec | None,
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


@build
def grant(
    location: int,
    privileges: list[Privilege],
    target: PrivilegeTarget,
    grantees: list[RoleSpec],
    grant_option: bool,
    grantor: RoleSpec | None,
) -> GrantStmt:
    return _statement(True, privileges, target, grantees, grant_option, grantor)


@build
def revoke(
    location: int,
    privileges: list[Privilege],
    target: PrivilegeTarget,
    grantees: list[RoleSpec],
    grantor: RoleSpec | None,
    cascade: bool,
) -> GrantStmt:
    return _statement(False, privileges, target, grantees, False, grantor, cascade)


@build
def revoke_grant_option(
    location: int,
    privileges: list[Privilege],
    target: PrivilegeTarget,
    grantees: list[RoleSpec],
    grantor: RoleSpec | None,
    cascade: bool,
) -> GrantStmt:
    return _statement(False, privileges, target, grantees, True, grantor, cascade)


# ------------------------------------------------------------------------------------------------ default privileges

_DEFAULTS = {
    "tables": ObjectType.TABLE,
    "functions": ObjectType.FUNCTION,
    "routines": ObjectType.FUNCTION,
    "sequences": ObjectType.SEQUENCE,
    "types": ObjectType.TYPE,
    "schemas": ObjectType.SCHEMA,
}


@build
def default_privileges_in_schemas(location: int, names: list[str]) -> DefElem:
    return DefElem("schemas", tuple(names), location)


@build
def default_privileges_of_roles(location: int, roles: list[RoleSpec]) -> DefElem:
    return DefElem("roles", tuple(roles), location)


@build
def alter_default_privileges(location: int, options: list[DefElem], action: GrantStmt) -> AlterDefaultPrivilegesStmt:
    return AlterDefaultPrivilegesStmt(tuple(options), action)


@build
def grant_default(
    location: int, privileges: list[Privilege], objects: str, grantees: list[RoleSpec], grant_option: bool
) -> GrantStmt:
    return _statement(True, privileges, ("defaults", _DEFAULTS[objects], ()), grantees, grant_option, None)


@build
def revoke_default(
    location: int, privileges: list[Privilege], objects: str, grantees: list[RoleSpec], cascade: bool
) -> GrantStmt:
    return _statement(False, privileges, ("defaults", _DEFAULTS[objects], ()), grantees, False, None, cascade)


@build
def revoke_default_grant_option(
    location: int, privileges: list[Privilege], objects: str, grantees: list[RoleSpec], cascade: bool
) -> GrantStmt:
    return _statement(False, privileges, ("defaults", _DEFAULTS[objects], ()), grantees, True, None, cascade)


# --- schema -----------------------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------------ schemas


@frozen
class _Elements:
    statements: tuple[Statement, ...] = ()
    location: int = -1  # of the first


@build
def no_schema_elements(location: int) -> _Elements:
    return _Elements()


@build(at=2)
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
def create_database(location: int, name: str, _: None, options: list[DefElem]) -> CreateDatabaseStmt:
    return CreateDatabaseStmt(name, tuple(options))


@build
def alter_database(location: int, name: str, options: list[DefElem]) -> AlterDatabaseStmt:
    return AlterDatabaseStmt(name, tuple(options))


@build(at=6)
def alter_database_tablespace(location: int, name: str, tablespace: str) -> AlterDatabaseStmt:
    return AlterDatabaseStmt(name, (DefElem("tablespace", tablespace, location),))


@build
def alter_database_set(location: int, name: str, setting: VariableSetStmt) -> AlterDatabaseStmt:
    return AlterDatabaseStmt(name, setting=setting)


@build
def drop_database(location: int, name: str) -> DropDatabaseStmt:
    return DropDatabaseStmt(name)


@build
def drop_database_if_exists(location: int, name: str) -> DropDatabaseStmt:
    return DropDatabaseStmt(name, missing_ok=True)


@build
def drop_database_force(location: int, name: str, _: None, options: list[None]) -> DropDatabaseStmt:
    return DropDatabaseStmt(name, force=True)


@build
def drop_database_if_exists_force(location: int, name: str, _: None, options: list[None]) -> DropDatabaseStmt:
    return DropDatabaseStmt(name, missing_ok=True, force=True)


@build
def database_option(location: int, name: str, _: None, value: str | int | FloatText) -> DefElem:
    return DefElem(name, value, location)


@build
def database_option_default(location: int, name: str, _: None) -> DefElem:
    return DefElem(name, None, location)


@build
def word_connection_limit(location: int, *_: str) -> str:
    return "connection_limit"
