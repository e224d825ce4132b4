"""The command tag of a statement, known before it runs (CreateCommandTag)."""

from __future__ import annotations

from pgrepl.sql.nodes import (
    AlterObjectSchemaStmt,
    AlterOwnerStmt,
    AlterTableStmt,
    CreateRoleStmt,
    CreateTableAsStmt,
    DropStmt,
    GrantRoleStmt,
    GrantStmt,
    RenameStmt,
    Statement,
    UnsupportedStmt,
)
from pgrepl.sql.nodes.utility import ObjectType

_TAGS = {
    "AlterDatabaseStmt": "ALTER DATABASE",
    "AlterPublicationStmt": "ALTER PUBLICATION",
    "AlterRoleSetStmt": "ALTER ROLE",
    "AlterRoleStmt": "ALTER ROLE",
    "AlterSeqStmt": "ALTER SEQUENCE",
    "AlterSubscriptionStmt": "ALTER SUBSCRIPTION",
    "CommentStmt": "COMMENT",
    "CreateDatabaseStmt": "CREATE DATABASE",
    "CreatePublicationStmt": "CREATE PUBLICATION",
    "CreateSchemaStmt": "CREATE SCHEMA",
    "CreateSeqStmt": "CREATE SEQUENCE",
    "CreateStmt": "CREATE TABLE",
    "CreateSubscriptionStmt": "CREATE SUBSCRIPTION",
    "DeleteStmt": "DELETE",
    "DropDatabaseStmt": "DROP DATABASE",
    "DropOwnedStmt": "DROP OWNED",
    "DropRoleStmt": "DROP ROLE",
    "DropSubscriptionStmt": "DROP SUBSCRIPTION",
    "IndexStmt": "CREATE INDEX",
    "InsertStmt": "INSERT",
    "MergeStmt": "MERGE",
    "ReassignOwnedStmt": "REASSIGN OWNED",
    "TruncateStmt": "TRUNCATE TABLE",
    "UpdateStmt": "UPDATE",
    "ViewStmt": "CREATE VIEW",
}
_OF_TABLE = (ObjectType.COLUMN, ObjectType.TABCONSTRAINT)


def command_tag(stmt: Statement) -> str:
    """`CREATE TABLE`, `ALTER VIEW` …"""
    if isinstance(stmt, DropStmt):
        return f"DROP {stmt.kind.value.upper()}"
    if isinstance(stmt, RenameStmt):
        return alter_tag(stmt.relation_kind if stmt.kind in _OF_TABLE else stmt.kind)
    if isinstance(stmt, AlterOwnerStmt | AlterObjectSchemaStmt | AlterTableStmt):
        return alter_tag(stmt.kind)
    if isinstance(stmt, GrantStmt | GrantRoleStmt):
        suffix = " ROLE" if isinstance(stmt, GrantRoleStmt) else ""
        return ("GRANT" if stmt.is_grant else "REVOKE") + suffix
    if isinstance(stmt, CreateRoleStmt):
        return "CREATE ROLE"
    if isinstance(stmt, CreateTableAsStmt):
        return "CREATE TABLE AS"
    if isinstance(stmt, UnsupportedStmt):
        return stmt.what
    return _TAGS[type(stmt).__name__]


def alter_tag(kind: ObjectType) -> str:
    return f"ALTER {kind.value.upper()}"
