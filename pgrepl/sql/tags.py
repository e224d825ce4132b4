"""The command tag of a statement, known before it runs (CreateCommandTag), and whether its text may hold a password.

Nodes are known by the names of their classes. In doubt a text holds a password: it is kept in no history and shown in
no log.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from pgrepl.sql.nodes import ObjectType, Statement

_SHORTER = (
    "COMMENT",
    "ALTER TABLE",
    "ALTER INDEX",
    "ALTER MATERIALIZED VIEW",
    "ALTER DATABASE",
    "ALTER TRIGGER",
    "CREATE TABLE AS",
    "CREATE TYPE",
)
"""The tags of unsupported statements whose `what` has more words than the tag."""

_TAGS: dict[str, str | Callable[[Any], str]] = {
    "AlterCollationStmt": "ALTER COLLATION",
    "AlterDatabaseStmt": "ALTER DATABASE",
    "AlterDefaultPrivilegesStmt": "ALTER DEFAULT PRIVILEGES",
    "AlterFunctionStmt": lambda stmt: alter_tag(stmt.kind),
    "AlterDomainStmt": "ALTER DOMAIN",
    "AlterEnumStmt": "ALTER TYPE",
    "AlterObjectSchemaStmt": lambda stmt: alter_tag(stmt.kind),
    "AlterOperatorStmt": "ALTER OPERATOR",
    "AlterOwnerStmt": lambda stmt: alter_tag(stmt.kind),
    "AlterPublicationStmt": "ALTER PUBLICATION",
    "AlterRoleSetStmt": "ALTER ROLE",
    "AlterRoleStmt": "ALTER ROLE",
    "AlterSeqStmt": "ALTER SEQUENCE",
    "AlterSubscriptionStmt": "ALTER SUBSCRIPTION",
    "AlterSystemStmt": "ALTER SYSTEM",
    "AlterTableStmt": lambda stmt: alter_tag(stmt.kind),
    "AnalyzedStmt": lambda stmt: stmt.modify.command.value,
    "CallStmt": "CALL",
    "ClosePortalStmt": lambda stmt: "CLOSE CURSOR ALL" if stmt.name is None else "CLOSE CURSOR",
    "CommentStmt": "COMMENT",
    "ConstraintsSetStmt": "SET CONSTRAINTS",
    "CopyStmt": "COPY",
    "CompositeTypeStmt": "CREATE TYPE",
    "CreateDatabaseStmt": "CREATE DATABASE",
    "CreateFunctionStmt": lambda stmt: "CREATE PROCEDURE" if stmt.is_procedure else "CREATE FUNCTION",
    "CreateDomainStmt": "CREATE DOMAIN",
    "CreateEnumStmt": "CREATE TYPE",
    "CreateRangeStmt": "CREATE TYPE",
    "CreatePublicationStmt": "CREATE PUBLICATION",
    "CreateRoleStmt": "CREATE ROLE",
    "CreateSchemaStmt": "CREATE SCHEMA",
    "CreateSeqStmt": "CREATE SEQUENCE",
    "CreateStmt": "CREATE TABLE",
    "CreateSubscriptionStmt": "CREATE SUBSCRIPTION",
    "CreateTableAsStmt": lambda stmt: (
        "CREATE TABLE AS" if stmt.kind.name == "TABLE" else f"CREATE {stmt.kind.value.upper()}"
    ),
    "CreateTrigStmt": "CREATE TRIGGER",
    "DeallocateStmt": lambda stmt: "DEALLOCATE ALL" if stmt.name is None else "DEALLOCATE",
    "DeclareCursorStmt": "DECLARE CURSOR",
    "DefineStmt": lambda stmt: f"CREATE {stmt.kind.value.upper()}",
    "DeleteStmt": "DELETE",
    "DiscardStmt": lambda stmt: f"DISCARD {stmt.target}",
    "DoStmt": "DO",
    "DropDatabaseStmt": "DROP DATABASE",
    "DropFunctionStmt": lambda stmt: f"DROP {stmt.kind.value.upper()}",
    "DropOperatorStmt": "DROP OPERATOR",
    "DropOwnedStmt": "DROP OWNED",
    "DropRoleStmt": "DROP ROLE",
    "DropStmt": lambda stmt: f"DROP {stmt.kind.value.upper()}",
    "DropSubscriptionStmt": "DROP SUBSCRIPTION",
    "DropTypeStmt": lambda stmt: f"DROP {stmt.kind.value.upper()}",
    "ExecuteStmt": "EXECUTE",
    "ExplainStmt": "EXPLAIN",
    "FetchStmt": lambda stmt: "MOVE" if stmt.moves else "FETCH",
    "GrantRoleStmt": lambda stmt: "GRANT ROLE" if stmt.is_grant else "REVOKE ROLE",
    "GrantStmt": lambda stmt: "GRANT" if stmt.is_grant else "REVOKE",
    "IndexStmt": "CREATE INDEX",
    "InsertStmt": "INSERT",
    "ListenStmt": "LISTEN",
    "LockStmt": "LOCK TABLE",
    "MergeStmt": "MERGE",
    "NotifyStmt": "NOTIFY",
    "PrepareStmt": "PREPARE",
    "ReassignOwnedStmt": "REASSIGN OWNED",
    "RefreshMatViewStmt": "REFRESH MATERIALIZED VIEW",
    "ReindexStmt": "REINDEX",
    "RenameStmt": lambda stmt: alter_tag(stmt.relation_kind if stmt.kind.name == "COLUMN" else stmt.kind),
    "SelectStmt": "SELECT",
    "TransactionStmt": lambda stmt: "ROLLBACK" if stmt.kind.name == "ROLLBACK_TO" else stmt.kind.value,
    "TruncateStmt": "TRUNCATE TABLE",
    "UnlistenStmt": "UNLISTEN",
    "UnsupportedStmt": lambda stmt: next((tag for tag in _SHORTER if stmt.what.startswith(tag)), stmt.what),
    "UpdateStmt": "UPDATE",
    "CheckPointStmt": "CHECKPOINT",
    "VacuumStmt": lambda stmt: "VACUUM" if stmt.is_vacuum else "ANALYZE",
    "VariableSetStmt": lambda stmt: "RESET" if stmt.kind.name in ("RESET", "RESET_ALL") else "SET",
    "VariableShowStmt": "SHOW",
    "ViewStmt": "CREATE VIEW",
}


def command_tag(stmt: Statement) -> str:
    """`CREATE TABLE`, `ALTER VIEW`, `REVOKE ROLE` …"""
    tag = _TAGS[type(stmt).__name__]
    return tag if isinstance(tag, str) else tag(stmt)


_EXITS = frozenset(("COMMIT", "ROLLBACK", "ROLLBACK_TO", "PREPARE"))


def ends_block(stmt: Statement) -> bool:
    """May it run in an aborted transaction, which it ends (IsTransactionExitStmt)?"""
    kind: Any = getattr(stmt, "kind", None)
    return type(stmt).__name__ == "TransactionStmt" and kind.name in _EXITS


_ALTER_PARTS = {"TABCONSTRAINT": "ALTER TABLE", "DOMCONSTRAINT": "ALTER DOMAIN", "ATTRIBUTE": "ALTER TYPE"}


def alter_tag(kind: ObjectType) -> str:
    """`ALTER TABLE`, for an object of this kind."""
    return _ALTER_PARTS.get(kind.name) or f"ALTER {kind.value.upper()}"


# these do not look at data: the isolation level may still change after them (PlannedStmtRequiresSnapshot)
WITHOUT_SNAPSHOT = frozenset(
    (
        "ConstraintsSetStmt",
        "ListenStmt",
        "NotifyStmt",
        "TransactionStmt",
        "UnlistenStmt",
        "VariableSetStmt",
        "VariableShowStmt",
    )
)


# --- passwords --------------------------------------------------------------------------------------------------------


_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_LINE_COMMENT = re.compile(r"--[^\n]*")
# PASSWORD 'x', password=x, "password" 'x', sslpassword=x, PGPASSWORD=x, password: x; not PASSWORD NULL
_PASSWORD = re.compile(r"password[\"']?\s*(?:[=:,]|e?'|u&'|\$|\\|\s(?!required\b|null\b|encryption\b))", re.IGNORECASE)
# a connection string that is escaped, concatenated or a variable, so that a password in it is not seen
_CONNECTION = re.compile(r"\bconnection\b", re.IGNORECASE)
_DISGUISE = re.compile(r"\be'|\bu&'|\$\w*\$|\|\||:'|:[a-z_]", re.IGNORECASE)


def holds_password(statement: str) -> bool:
    """May the statement contain a password, also behind comments between words or percent signs in a URI?"""
    spellings = {statement, _without_comments(statement), unquote(statement)}
    if any(_PASSWORD.search(text) or _has_uri(text) for text in spellings):
        return True
    found = _CONNECTION.search(statement)
    return found is not None and _DISGUISE.search(statement, found.end()) is not None


def _without_comments(text: str) -> str:
    end = text.rfind("*/")  # a /* behind it is closed by none: each look for its end would read the whole text
    end = end + 2 if end >= 0 else 0
    return _COMMENT.sub(" ", text[:end]) + _LINE_COMMENT.sub(" ", text[end:])


def _has_uri(text: str) -> bool:
    """Is there a URI with a password, postgresql://user:x@host, or what looks like one?"""
    for word in text.split() if "://" in text else ():
        start = word.find("://") + 3
        colon = word.find(":", start) if start > 2 else -1
        if colon >= 0 and word.find("@", colon) >= 0:
            return True
    return False
