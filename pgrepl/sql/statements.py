"""What is known of each statement before it runs: one line a node, as the switches of PostgreSQL's utility.c.

Nodes are known by the names of their classes, and functions by their modules in the room `statements`, so that what is
said of one loads no other. `statements/utility.py` finds the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgrepl.ground.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.sql.nodes import ObjectType, Statement


@frozen
class Kind:
    """What all statements of a node have in common."""

    function: str | None  # of (statement, session), with its module in `statements`; None: nothing carries it out there
    tag: str | Callable[[Any], str]
    reads: bool = False  # it needs no lock on the catalog and may stand in a read-only transaction
    changes_rows: bool = False  # it takes the lock itself, as Spark computes without it; in a read-only transaction it
    # may change temporary tables; of what the statements around it have yet to write, it waits for what it needs only
    parameters: bool = False  # PostgreSQL's grammar and analysis know parameters in it
    snapshot: bool = True  # it looks at data: then the isolation level stays (PlannedStmtRequiresSnapshot)
    gives_rows: bool = False  # to a cursor of a routine, although it is no query and changes no rows
    shows_text: bool = False  # a view shows its text


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

KINDS = {
    "AlterCollationStmt": Kind("type.collation.refresh_collation", "ALTER COLLATION"),
    "AlterDatabaseStmt": Kind("roles.database.alter_database", "ALTER DATABASE"),
    "AlterDefaultPrivilegesStmt": Kind("roles.owned.alter_default_privileges", "ALTER DEFAULT PRIVILEGES"),
    "AlterDomainStmt": Kind("type.domain.alter_domain", "ALTER DOMAIN"),
    "AlterEnumStmt": Kind("type.enum.alter_enum", "ALTER TYPE"),
    "AlterForeignServerStmt": Kind("replication.foreign.alter_server", "ALTER SERVER"),
    "AlterFunctionStmt": Kind("routine.alter.alter_function", lambda stmt: alter_tag(stmt.kind)),
    "AlterObjectSchemaStmt": Kind("objects.execute_about_object", lambda stmt: alter_tag(stmt.kind)),
    "AlterOperatorStmt": Kind("type.operator.alter_operator", "ALTER OPERATOR"),
    "AlterOwnerStmt": Kind("objects.execute_about_object", lambda stmt: alter_tag(stmt.kind)),
    "AlterPublicationStmt": Kind("replication.publication.alter_publication", "ALTER PUBLICATION"),
    "AlterRoleSetStmt": Kind("settings.alter_role_set", "ALTER ROLE"),
    "AlterRoleStmt": Kind("roles.role.alter_role", "ALTER ROLE"),
    "AlterSeqStmt": Kind("sequence.alter_sequence", "ALTER SEQUENCE"),
    "AlterSubscriptionStmt": Kind("replication.alter_subscription.alter_subscription", "ALTER SUBSCRIPTION"),
    "AlterSystemStmt": Kind("settings.alter_system", "ALTER SYSTEM"),
    "AlterTableStmt": Kind("table.alter.run.alter_table", lambda stmt: alter_tag(stmt.kind)),
    "AlterUserMappingStmt": Kind("replication.foreign.alter_user_mapping", "ALTER USER MAPPING"),
    "AnalyzedStmt": Kind("rows.modify_rows", lambda stmt: stmt.modify.command.value, changes_rows=True),
    "CallStmt": Kind("routine.call.call", "CALL", reads=True, parameters=True, gives_rows=True),
    "CheckPointStmt": Kind("transaction.checkpoint", "CHECKPOINT", reads=True),
    "ClosePortalStmt": Kind(
        "transaction.close", lambda stmt: "CLOSE CURSOR ALL" if stmt.name is None else "CLOSE CURSOR", reads=True
    ),
    "CommentStmt": Kind("objects.comment_on", "COMMENT"),
    "CompositeTypeStmt": Kind("type.change.create_composite_type", "CREATE TYPE"),
    "ConstraintsSetStmt": Kind("rows.set_constraints", "SET CONSTRAINTS", reads=True, snapshot=False),
    "CopyStmt": Kind("rows.copy", "COPY", reads=True),
    "CreateDatabaseStmt": Kind("roles.database.create_database", "CREATE DATABASE"),
    "CreateDomainStmt": Kind("type.domain.create_domain", "CREATE DOMAIN"),
    "CreateEnumStmt": Kind("type.enum.create_enum", "CREATE TYPE"),
    "CreateForeignServerStmt": Kind("replication.foreign.create_server", "CREATE SERVER"),
    "CreateFunctionStmt": Kind(
        "routine.create.create_function", lambda stmt: "CREATE PROCEDURE" if stmt.is_procedure else "CREATE FUNCTION"
    ),
    "CreatePublicationStmt": Kind("replication.publication.create_publication", "CREATE PUBLICATION"),
    "CreateRangeStmt": Kind("type.enum.create_range", "CREATE TYPE"),
    "CreateRoleStmt": Kind("roles.role.create_role", "CREATE ROLE"),
    "CreateSchemaStmt": Kind("roles.schema.create_schema", "CREATE SCHEMA"),
    "CreateSeqStmt": Kind("sequence.create_sequence", "CREATE SEQUENCE"),
    "CreateStmt": Kind("table.create.create_table", "CREATE TABLE"),
    "CreateSubscriptionStmt": Kind("replication.create_subscription.create_subscription", "CREATE SUBSCRIPTION"),
    "CreateTableAsStmt": Kind(
        "view.create_table_as",
        lambda stmt: "CREATE TABLE AS" if stmt.kind.name == "TABLE" else f"CREATE {stmt.kind.value.upper()}",
        parameters=True,
    ),
    "CreateTrigStmt": Kind("table.trigger.create_trigger", "CREATE TRIGGER"),
    "CreateUserMappingStmt": Kind("replication.foreign.create_user_mapping", "CREATE USER MAPPING"),
    "DeallocateStmt": Kind(
        "prepared.deallocate", lambda stmt: "DEALLOCATE ALL" if stmt.name is None else "DEALLOCATE", reads=True
    ),
    "DeclareCursorStmt": Kind(
        "transaction.declare_cursor", "DECLARE CURSOR", reads=True, parameters=True, shows_text=True
    ),
    "DefineStmt": Kind("objects.execute_about_object", lambda stmt: f"CREATE {stmt.kind.value.upper()}"),
    "DeleteStmt": Kind("rows.modify_rows", "DELETE", changes_rows=True, parameters=True),
    "DiscardStmt": Kind("settings.execute_discard", lambda stmt: f"DISCARD {stmt.target}", reads=True),
    "DoStmt": Kind("routine.call.execute_do", "DO", reads=True),
    "DropDatabaseStmt": Kind("roles.database.drop_database", "DROP DATABASE"),
    "DropFunctionStmt": Kind("routine.alter.drop_function", lambda stmt: f"DROP {stmt.kind.value.upper()}"),
    "DropOperatorStmt": Kind("type.operator.drop_operator", "DROP OPERATOR"),
    "DropOwnedStmt": Kind("roles.owned.drop_owned", "DROP OWNED"),
    "DropRoleStmt": Kind("roles.role.drop_role", "DROP ROLE"),
    "DropStmt": Kind("objects.execute_about_object", lambda stmt: alter_tag(stmt.kind).replace("ALTER", "DROP")),
    "DropSubscriptionStmt": Kind("replication.create_subscription.drop_subscription", "DROP SUBSCRIPTION"),
    "DropUserMappingStmt": Kind("replication.foreign.drop_user_mapping", "DROP USER MAPPING"),
    "DropTypeStmt": Kind("type.change.drop_types", lambda stmt: f"DROP {stmt.kind.value.upper()}"),
    "ExecuteStmt": Kind(None, "EXECUTE", gives_rows=True),
    "ExplainStmt": Kind("explain.explain", "EXPLAIN", reads=True, parameters=True, gives_rows=True),
    "FetchStmt": Kind("transaction.fetch", lambda stmt: "MOVE" if stmt.moves else "FETCH", reads=True, gives_rows=True),
    "GrantRoleStmt": Kind("roles.membership.grant_role", lambda stmt: "GRANT ROLE" if stmt.is_grant else "REVOKE ROLE"),
    "GrantStmt": Kind("roles.grant.execute_grant", lambda stmt: "GRANT" if stmt.is_grant else "REVOKE"),
    "IndexStmt": Kind("index.reindex.create_index", "CREATE INDEX"),
    "InsertStmt": Kind("rows.modify_rows", "INSERT", changes_rows=True, parameters=True),
    "ListenStmt": Kind("transaction.listen", "LISTEN", reads=True, snapshot=False),
    "LockStmt": Kind("transaction.lock_table", "LOCK TABLE", reads=True),
    "MergeStmt": Kind("rows.modify_rows", "MERGE", changes_rows=True, parameters=True),
    "NotifyStmt": Kind("transaction.notify", "NOTIFY", reads=True, snapshot=False),
    "PrepareStmt": Kind("prepared.prepare", "PREPARE", reads=True, shows_text=True),
    "ReassignOwnedStmt": Kind("roles.owned.reassign_owned", "REASSIGN OWNED"),
    "RefreshMatViewStmt": Kind("view.refresh_materialized_view", "REFRESH MATERIALIZED VIEW"),
    "ReindexStmt": Kind("index.reindex.reindex", "REINDEX", reads=True),
    "RenameStmt": Kind(
        "objects.execute_about_object",
        lambda stmt: alter_tag(stmt.relation_kind if stmt.kind.name == "COLUMN" else stmt.kind),
    ),
    "SelectStmt": Kind("rows.select", "SELECT", reads=True, parameters=True),
    "TransactionStmt": Kind(
        "transaction.execute_transaction",
        lambda stmt: "ROLLBACK" if stmt.kind.name == "ROLLBACK_TO" else stmt.kind.value,
        reads=True,
        snapshot=False,
    ),
    "TruncateStmt": Kind("rows.truncate", "TRUNCATE TABLE"),
    "UnlistenStmt": Kind("transaction.unlisten", "UNLISTEN", reads=True, snapshot=False),
    "UnsupportedStmt": Kind(
        None, lambda stmt: next((tag for tag in _SHORTER if stmt.what.startswith(tag)), stmt.what), reads=True
    ),
    "UpdateStmt": Kind("rows.modify_rows", "UPDATE", changes_rows=True, parameters=True),
    "VacuumStmt": Kind("upkeep.vacuum.vacuum", lambda stmt: "VACUUM" if stmt.is_vacuum else "ANALYZE", reads=True),
    "VariableSetStmt": Kind(
        "settings.execute_set",
        lambda stmt: "RESET" if stmt.kind.name in ("RESET", "RESET_ALL") else "SET",
        reads=True,
        snapshot=False,
    ),
    "VariableShowStmt": Kind("settings.execute_show", "SHOW", reads=True, snapshot=False, gives_rows=True),
    "ViewStmt": Kind("view.create_view", "CREATE VIEW"),
}


def kind_of(stmt: Statement) -> Kind:
    return KINDS[type(stmt).__name__]


def command_tag(stmt: Statement) -> str:
    """`CREATE TABLE`, `ALTER VIEW`, `REVOKE ROLE` … (CreateCommandTag)."""
    tag = kind_of(stmt).tag
    return tag if isinstance(tag, str) else tag(stmt)


_EXITS = frozenset(("COMMIT", "ROLLBACK", "ROLLBACK_TO", "PREPARE"))


def ends_block(stmt: Statement) -> bool:
    """May it run in an aborted transaction, which it ends (IsTransactionExitStmt)?"""
    kind: Any = getattr(stmt, "kind", None)
    return type(stmt).__name__ == "TransactionStmt" and kind.name in _EXITS


_ALTER_PARTS = {
    "TABCONSTRAINT": "ALTER TABLE", "DOMCONSTRAINT": "ALTER DOMAIN", "ATTRIBUTE": "ALTER TYPE",
    "FOREIGN_SERVER": "ALTER SERVER",
}  # fmt: skip


def alter_tag(kind: ObjectType) -> str:
    """`ALTER TABLE`, for an object of this kind."""
    return _ALTER_PARTS.get(kind.name) or f"ALTER {kind.value.upper()}"
