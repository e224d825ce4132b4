"""The command tag of a statement, known before it runs (as CreateCommandTag gives it)."""

from __future__ import annotations

from pgrepl.sql.nodes import (
    AlterDatabaseStmt,
    AlterObjectSchemaStmt,
    AlterOwnerStmt,
    AlterPublicationStmt,
    AlterRoleSetStmt,
    AlterRoleStmt,
    AlterSeqStmt,
    AlterSubscriptionStmt,
    AlterSystemStmt,
    AlterTableStmt,
    CommentStmt,
    CopyStmt,
    CreateDatabaseStmt,
    CreatePublicationStmt,
    CreateRoleStmt,
    CreateSchemaStmt,
    CreateSeqStmt,
    CreateStmt,
    CreateSubscriptionStmt,
    CreateTableAsStmt,
    DeleteStmt,
    DiscardStmt,
    DropDatabaseStmt,
    DropOwnedStmt,
    DropRoleStmt,
    DropStmt,
    DropSubscriptionStmt,
    ExplainStmt,
    GrantRoleStmt,
    GrantStmt,
    IndexStmt,
    InsertStmt,
    MergeStmt,
    ObjectType,
    ReassignOwnedStmt,
    RenameStmt,
    SelectStmt,
    Statement,
    TransactionKind,
    TransactionStmt,
    TruncateStmt,
    UnsupportedStmt,
    UpdateStmt,
    VacuumStmt,
    VariableSetKind,
    VariableSetStmt,
    VariableShowStmt,
    ViewStmt,
)

_TAGS: dict[type[Statement], str] = {
    AlterDatabaseStmt: "ALTER DATABASE",
    AlterPublicationStmt: "ALTER PUBLICATION",
    AlterRoleSetStmt: "ALTER ROLE",
    AlterRoleStmt: "ALTER ROLE",
    AlterSeqStmt: "ALTER SEQUENCE",
    AlterSubscriptionStmt: "ALTER SUBSCRIPTION",
    CommentStmt: "COMMENT",
    CopyStmt: "COPY",
    CreateDatabaseStmt: "CREATE DATABASE",
    CreatePublicationStmt: "CREATE PUBLICATION",
    CreateRoleStmt: "CREATE ROLE",
    CreateSchemaStmt: "CREATE SCHEMA",
    CreateSeqStmt: "CREATE SEQUENCE",
    CreateStmt: "CREATE TABLE",
    CreateSubscriptionStmt: "CREATE SUBSCRIPTION",
    CreateTableAsStmt: "CREATE TABLE AS",
    DeleteStmt: "DELETE",
    DropDatabaseStmt: "DROP DATABASE",
    DropOwnedStmt: "DROP OWNED",
    DropRoleStmt: "DROP ROLE",
    DropSubscriptionStmt: "DROP SUBSCRIPTION",
    ExplainStmt: "EXPLAIN",
    IndexStmt: "CREATE INDEX",
    InsertStmt: "INSERT",
    MergeStmt: "MERGE",
    ReassignOwnedStmt: "REASSIGN OWNED",
    SelectStmt: "SELECT",
    TruncateStmt: "TRUNCATE TABLE",
    UpdateStmt: "UPDATE",
    AlterSystemStmt: "ALTER SYSTEM",
    VariableShowStmt: "SHOW",
    ViewStmt: "CREATE VIEW",
}

_SHORTER = ("COMMENT", "ALTER TABLE", "ALTER INDEX", "ALTER MATERIALIZED VIEW", "ALTER DATABASE", "CREATE TABLE AS")
"""The tags of statements that are refused in more words than their tag has."""


def command_tag(stmt: Statement) -> str:
    """`CREATE TABLE`, `ALTER VIEW`, `REVOKE ROLE` …"""
    if isinstance(stmt, DropStmt):
        return f"DROP {stmt.kind.value.upper()}"
    if isinstance(stmt, RenameStmt):
        return alter_tag(stmt.relation_kind if stmt.kind is ObjectType.COLUMN else stmt.kind)
    if isinstance(stmt, AlterOwnerStmt | AlterObjectSchemaStmt | AlterTableStmt):
        return alter_tag(stmt.kind)
    if isinstance(stmt, GrantStmt):
        return "GRANT" if stmt.is_grant else "REVOKE"
    if isinstance(stmt, GrantRoleStmt):
        return "GRANT ROLE" if stmt.is_grant else "REVOKE ROLE"
    if isinstance(stmt, TransactionStmt):
        return "ROLLBACK" if stmt.kind is TransactionKind.ROLLBACK_TO else stmt.kind.value
    if isinstance(stmt, VariableSetStmt):
        return "RESET" if stmt.kind in (VariableSetKind.RESET, VariableSetKind.RESET_ALL) else "SET"
    if isinstance(stmt, DiscardStmt):
        return f"DISCARD {stmt.target}"
    if isinstance(stmt, VacuumStmt):
        return "VACUUM" if stmt.is_vacuum else "ANALYZE"
    if isinstance(stmt, UnsupportedStmt):
        return next((tag for tag in _SHORTER if stmt.what.startswith(tag)), stmt.what)
    return _TAGS[type(stmt)]


def alter_tag(kind: ObjectType) -> str:
    """`ALTER TABLE`, for an object of this kind."""
    return "ALTER TABLE" if kind is ObjectType.TABCONSTRAINT else f"ALTER {kind.value.upper()}"
