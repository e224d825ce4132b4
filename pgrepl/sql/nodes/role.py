"""Roles and privileges."""

from __future__ import annotations

from dataclasses import dataclass

from pgrepl.sql.nodes.expr import Node, Statement
from pgrepl.sql.nodes.utility import DefElem, ObjectType, RoleSpec, VariableSetStmt


@dataclass(frozen=True, slots=True)
class CreateRoleStmt(Statement):
    """CREATE ROLE | USER | GROUP. Options as gram.y names them: superuser, canlogin, isreplication, bypassrls,
    createdb, createrole, inherit, connectionlimit, validUntil, password, addroleto, rolemembers, adminmembers, sysid.
    """

    kind: str  # ROLE, USER, GROUP
    name: str
    options: tuple[DefElem, ...] = ()
    location: int = -1


@dataclass(frozen=True, slots=True)
class AlterRoleStmt(Statement):
    role: RoleSpec
    options: tuple[DefElem, ...] = ()
    action: int = 1  # ALTER GROUP g ADD USER: +1, DROP USER: -1


@dataclass(frozen=True, slots=True)
class AlterRoleSetStmt(Statement):
    role: RoleSpec | None  # None: ALL
    database: str | None
    setting: VariableSetStmt


@dataclass(frozen=True, slots=True)
class DropRoleStmt(Statement):
    roles: tuple[RoleSpec, ...]
    missing_ok: bool = False


@dataclass(frozen=True, slots=True)
class GrantRoleStmt(Statement):
    is_grant: bool
    granted: tuple[tuple[str, tuple[str, ...], int], ...]  # (role name, column list, location), as AccessPriv
    grantees: tuple[RoleSpec, ...]
    options: tuple[DefElem, ...] = ()  # admin, inherit, set
    grantor: RoleSpec | None = None
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AccessPriv(Node):
    name: str | None  # None: ALL [PRIVILEGES] (columns)
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GrantStmt(Statement):
    is_grant: bool
    target: str  # object, all_in_schema, defaults
    kind: ObjectType
    objects: tuple[tuple[str, ...], ...]
    privileges: tuple[AccessPriv, ...]  # (): ALL
    grantees: tuple[RoleSpec, ...]
    grant_option: bool = False
    grantor: RoleSpec | None = None
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class ReassignOwnedStmt(Statement):
    roles: tuple[RoleSpec, ...]
    new_role: RoleSpec


@dataclass(frozen=True, slots=True)
class DropOwnedStmt(Statement):
    roles: tuple[RoleSpec, ...]
    cascade: bool = False


__all__ = [
    "AccessPriv", "AlterRoleSetStmt", "AlterRoleStmt", "CreateRoleStmt", "DropOwnedStmt", "DropRoleStmt",
    "GrantRoleStmt", "GrantStmt", "ReassignOwnedStmt",
]  # fmt: skip
