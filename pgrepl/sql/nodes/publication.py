"""Publications, subscriptions, roles and privileges."""

from __future__ import annotations

from enum import Enum

from pgrepl.ground.frozen import frozen
from pgrepl.sql.nodes.expr import Expr, Node, RangeVar, Statement
from pgrepl.sql.nodes.utility import DefElem, ObjectType, RoleSpec, VariableSetStmt


@frozen
class PublicationTable(Node):
    relation: RangeVar
    where: Expr | None = None
    columns: tuple[str, ...] | None = None


class PublicationObjKind(Enum):
    TABLE = "table"
    TABLES_IN_SCHEMA = "tables in schema"
    TABLES_IN_CUR_SCHEMA = "tables in current schema"
    EXCEPT_TABLE = "except table"


@frozen
class PublicationObj(Node):
    """One object after the carried-over keyword rule (preprocess_pubobj_list) has been applied."""

    kind: PublicationObjKind
    name: str | None = None  # schema
    table: PublicationTable | None = None
    location: int = -1


@frozen
class CreatePublicationStmt(Statement):
    name: str
    objects: tuple[PublicationObj, ...] = ()
    for_all_tables: bool = False
    for_all_sequences: bool = False
    options: tuple[DefElem, ...] = ()


class AlterPublicationAction(Enum):
    ADD = "add"
    SET = "set"
    DROP = "drop"


@frozen
class AlterPublicationStmt(Statement):
    """ALTER PUBLICATION … SET (options) when action is None, else ADD / SET / DROP objects. OWNER, RENAME: utility."""

    name: str
    action: AlterPublicationAction | None
    objects: tuple[PublicationObj, ...] = ()
    for_all_tables: bool = False
    for_all_sequences: bool = False
    options: tuple[DefElem, ...] = ()


# --- subscription -----------------------------------------------------------------------------------------------------


@frozen
class CreateSubscriptionStmt(Statement):
    """`server`: the foreign server that the connection string is made of, instead of `conninfo`."""

    name: str
    conninfo: str
    publications: tuple[str, ...]
    options: tuple[DefElem, ...] = ()
    server: str | None = None


class AlterSubscriptionKind(Enum):
    OPTIONS = "options"
    CONNECTION = "connection"
    SERVER = "server"
    SET_PUBLICATION = "set publication"
    ADD_PUBLICATION = "add publication"
    DROP_PUBLICATION = "drop publication"
    REFRESH = "refresh"
    REFRESH_SEQUENCES = "refresh sequences"
    ENABLED = "enabled"  # options holds one DefElem("enabled", True/False)
    SKIP = "skip"


@frozen
class AlterSubscriptionStmt(Statement):
    kind: AlterSubscriptionKind
    name: str
    conninfo: str | None = None
    publications: tuple[str, ...] = ()
    options: tuple[DefElem, ...] = ()
    server: str | None = None


@frozen
class DropSubscriptionStmt(Statement):
    name: str
    missing_ok: bool = False
    cascade: bool = False


# --- foreign server ---------------------------------------------------------------------------------------------------


ForeignOption = tuple[str, str, str | None]  # add, set or drop; its name and its value


@frozen
class CreateForeignServerStmt(Statement):
    name: str
    wrapper: str
    type: str | None = None
    version: str | None = None
    options: tuple[ForeignOption, ...] = ()
    if_not_exists: bool = False


@frozen
class AlterForeignServerStmt(Statement):
    name: str
    has_version: bool = False
    version: str | None = None
    options: tuple[ForeignOption, ...] = ()


@frozen
class CreateUserMappingStmt(Statement):
    user: RoleSpec
    server: str
    options: tuple[ForeignOption, ...] = ()
    if_not_exists: bool = False


@frozen
class AlterUserMappingStmt(Statement):
    user: RoleSpec
    server: str
    options: tuple[ForeignOption, ...] = ()


@frozen
class DropUserMappingStmt(Statement):
    user: RoleSpec
    server: str
    missing_ok: bool = False


# --- role -------------------------------------------------------------------------------------------------------------


@frozen
class CreateRoleStmt(Statement):
    """CREATE ROLE | USER | GROUP. Options as gram.y names them: superuser, canlogin, isreplication, bypassrls,
    createdb, createrole, inherit, connectionlimit, validUntil, password, addroleto, rolemembers, adminmembers, sysid.
    """

    kind: str  # ROLE, USER, GROUP
    name: str
    options: tuple[DefElem, ...] = ()
    location: int = -1


@frozen
class AlterRoleStmt(Statement):
    role: RoleSpec
    options: tuple[DefElem, ...] = ()
    action: int = 1  # ALTER GROUP g ADD USER: +1, DROP USER: -1


@frozen
class AlterRoleSetStmt(Statement):
    role: RoleSpec | None  # None: ALL
    database: str | None
    setting: VariableSetStmt


@frozen
class DropRoleStmt(Statement):
    roles: tuple[RoleSpec, ...]
    missing_ok: bool = False


@frozen
class GrantRoleStmt(Statement):
    is_grant: bool
    granted: tuple[tuple[str, tuple[str, ...], int], ...]  # (role name, column list, location), as AccessPriv
    grantees: tuple[RoleSpec, ...]
    options: tuple[DefElem, ...] = ()  # admin, inherit, set
    grantor: RoleSpec | None = None
    cascade: bool = False


@frozen
class AccessPriv(Node):
    name: str | None  # None: ALL [PRIVILEGES] (columns)
    columns: tuple[str, ...] = ()


@frozen
class GrantStmt(Statement):
    is_grant: bool
    target: str  # object, all_in_schema, defaults (of ALTER DEFAULT PRIVILEGES)
    kind: ObjectType
    objects: tuple[tuple[str, ...], ...]
    privileges: tuple[AccessPriv, ...]  # (): ALL
    grantees: tuple[RoleSpec, ...]
    grant_option: bool = False
    grantor: RoleSpec | None = None
    cascade: bool = False
    routines: tuple[Node, ...] = ()  # of FUNCTION, PROCEDURE, ROUTINE: RoutineNames


@frozen
class AlterDefaultPrivilegesStmt(Statement):
    """The options, as gram.y names them: schemas (a tuple of names) and roles (a tuple of RoleSpecs)."""

    options: tuple[DefElem, ...]
    action: GrantStmt


@frozen
class ReassignOwnedStmt(Statement):
    roles: tuple[RoleSpec, ...]
    new_role: RoleSpec


@frozen
class DropOwnedStmt(Statement):
    roles: tuple[RoleSpec, ...]
    cascade: bool = False
