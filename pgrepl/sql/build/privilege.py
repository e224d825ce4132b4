"""GRANT and REVOKE of privileges."""

from __future__ import annotations

from typing import Any

from pgrepl.sql.build import build
from pgrepl.sql.build.names import Names
from pgrepl.sql.nodes import (
    AccessPriv,
    AlterDefaultPrivilegesStmt,
    DefElem,
    FloatText,
    GrantStmt,
    ObjectType,
    RangeVar,
    RoleSpec,
    RoutineName,
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
