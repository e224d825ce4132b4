"""The only entry to the statements: `execute` finds the function for a statement, as ProcessUtility does.

Modules are imported with their first statement. No statement calls `execute`: one that contains others (CREATE SCHEMA,
EXPLAIN ANALYZE) calls their functions itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import unsupported
from pgrepl.sql.nodes import UnsupportedStmt
from pgrepl.sql.tags import command_tag

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.query.result import Result
    from pgrepl.sql.nodes import Statement

# for each node the module and its function of (statement, session)
STATEMENTS = {
    "AlterCollationStmt": ("pgrepl.statements.type.collation", "refresh_collation"),
    "AlterFunctionStmt": ("pgrepl.statements.routine.alter", "alter_function"),
    "AlterDomainStmt": ("pgrepl.statements.type.domain", "alter_domain"),
    "AlterEnumStmt": ("pgrepl.statements.type.enum", "alter_enum"),
    "AlterDatabaseStmt": ("pgrepl.statements.roles.database", "alter_database"),
    "AlterDefaultPrivilegesStmt": ("pgrepl.statements.roles.owned", "alter_default_privileges"),
    "AlterObjectSchemaStmt": ("pgrepl.statements.objects", "execute_about_object"),
    "AlterOperatorStmt": ("pgrepl.statements.type.operator", "alter_operator"),
    "AlterOwnerStmt": ("pgrepl.statements.objects", "execute_about_object"),
    "AlterPublicationStmt": ("pgrepl.statements.replication.publication", "alter_publication"),
    "AlterRoleSetStmt": ("pgrepl.statements.settings", "alter_role_set"),
    "AlterRoleStmt": ("pgrepl.statements.roles.role", "alter_role"),
    "AlterSeqStmt": ("pgrepl.statements.sequence", "alter_sequence"),
    "AlterSubscriptionStmt": ("pgrepl.statements.replication.alter_subscription", "alter_subscription"),
    "AlterSystemStmt": ("pgrepl.statements.settings", "alter_system"),
    "AlterTableStmt": ("pgrepl.statements.table.alter.run", "alter_table"),
    "AnalyzedStmt": ("pgrepl.writing.run", "modify_rows"),
    "CallStmt": ("pgrepl.statements.routine.call", "call"),
    "CheckPointStmt": ("pgrepl.statements.transaction", "checkpoint"),
    "ClosePortalStmt": ("pgrepl.statements.transaction", "close"),
    "CommentStmt": ("pgrepl.statements.objects", "comment_on"),
    "ConstraintsSetStmt": ("pgrepl.writing.tables", "set_constraints"),
    "CopyStmt": ("pgrepl.statements.rows", "copy"),
    "CreateDomainStmt": ("pgrepl.statements.type.domain", "create_domain"),
    "CompositeTypeStmt": ("pgrepl.statements.type.change", "create_composite_type"),
    "CreateEnumStmt": ("pgrepl.statements.type.enum", "create_enum"),
    "CreateDatabaseStmt": ("pgrepl.statements.roles.database", "create_database"),
    "CreateFunctionStmt": ("pgrepl.statements.routine.create", "create_function"),
    "CreateRangeStmt": ("pgrepl.statements.type.enum", "create_range"),
    "CreatePublicationStmt": ("pgrepl.statements.replication.publication", "create_publication"),
    "CreateRoleStmt": ("pgrepl.statements.roles.role", "create_role"),
    "CreateSchemaStmt": ("pgrepl.statements.roles.schema", "create_schema"),
    "CreateSeqStmt": ("pgrepl.statements.sequence", "create_sequence"),
    "CreateStmt": ("pgrepl.statements.table.create", "create_table"),
    "CreateSubscriptionStmt": ("pgrepl.statements.replication.create_subscription", "create_subscription"),
    "CreateTrigStmt": ("pgrepl.statements.table.create_trigger", "create_trigger"),
    "CreateTableAsStmt": ("pgrepl.statements.view", "create_table_as"),
    "DeallocateStmt": ("pgrepl.statements.prepared", "deallocate"),
    "DeclareCursorStmt": ("pgrepl.statements.transaction", "declare_cursor"),
    "DefineStmt": ("pgrepl.statements.objects", "execute_about_object"),
    "DeleteStmt": ("pgrepl.writing.run", "modify_rows"),
    "DiscardStmt": ("pgrepl.statements.settings", "execute_discard"),
    "DoStmt": ("pgrepl.statements.routine.call", "execute_do"),
    "DropDatabaseStmt": ("pgrepl.statements.roles.database", "drop_database"),
    "DropFunctionStmt": ("pgrepl.statements.routine.alter", "drop_function"),
    "DropOperatorStmt": ("pgrepl.statements.type.operator", "drop_operator"),
    "DropOwnedStmt": ("pgrepl.statements.roles.owned", "drop_owned"),
    "DropRoleStmt": ("pgrepl.statements.roles.role", "drop_role"),
    "DropStmt": ("pgrepl.statements.objects", "execute_about_object"),
    "DropTypeStmt": ("pgrepl.statements.type.change", "drop_types"),
    "DropSubscriptionStmt": ("pgrepl.statements.replication.create_subscription", "drop_subscription"),
    "FetchStmt": ("pgrepl.statements.transaction", "fetch"),
    "ExplainStmt": ("pgrepl.statements.explaining.explain", "explain"),
    "GrantRoleStmt": ("pgrepl.statements.roles.membership", "grant_role"),
    "GrantStmt": ("pgrepl.statements.roles.grant", "execute_grant"),
    "IndexStmt": ("pgrepl.statements.index.reindex", "create_index"),
    "InsertStmt": ("pgrepl.writing.run", "modify_rows"),
    "ListenStmt": ("pgrepl.statements.transaction", "listen"),
    "LockStmt": ("pgrepl.statements.transaction", "lock_table"),
    "MergeStmt": ("pgrepl.writing.run", "modify_rows"),
    "NotifyStmt": ("pgrepl.statements.transaction", "notify"),
    "PrepareStmt": ("pgrepl.statements.prepared", "prepare"),
    "ReassignOwnedStmt": ("pgrepl.statements.roles.owned", "reassign_owned"),
    "RefreshMatViewStmt": ("pgrepl.statements.view", "refresh_materialized_view"),
    "ReindexStmt": ("pgrepl.statements.index.reindex", "reindex"),
    "RenameStmt": ("pgrepl.statements.objects", "execute_about_object"),
    "SelectStmt": ("pgrepl.statements.rows", "select"),
    "TransactionStmt": ("pgrepl.statements.transaction", "execute_transaction"),
    "TruncateStmt": ("pgrepl.writing.tables", "truncate"),
    "UnlistenStmt": ("pgrepl.statements.transaction", "unlisten"),
    "UpdateStmt": ("pgrepl.writing.run", "modify_rows"),
    "VacuumStmt": ("pgrepl.statements.upkeep.vacuum", "vacuum"),
    "VariableSetStmt": ("pgrepl.statements.settings", "execute_set"),
    "VariableShowStmt": ("pgrepl.statements.settings", "execute_show"),
    "ViewStmt": ("pgrepl.statements.view", "create_view"),
}

# statements that let the statements around them write only the rows of the tables that they need (Session.settle)
_SETTLES_ITSELF = frozenset({"SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt", "AnalyzedStmt"})


def execute(stmt: Statement, session: Session) -> Result:
    """Carry out a statement. Errors are PgError; the caller ends the transaction."""
    name = type(stmt).__name__
    if session.unsettled and name not in _SETTLES_ITSELF:
        session.settle()
    function = _function(name)
    if function is None:
        raise unsupported(stmt.what if isinstance(stmt, UnsupportedStmt) else command_tag(stmt))
    return function(stmt, session)


@cache
def _function(node: str) -> Callable[[Any, Session], Result] | None:
    if node not in STATEMENTS:
        return None
    module, name = STATEMENTS[node]
    function: Callable[[Any, Session], Result] = getattr(import_module(module), name)
    return function
