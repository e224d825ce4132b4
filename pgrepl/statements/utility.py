"""The only entry to the statements: `execute` finds the function for a statement, as ProcessUtility does.

Modules are imported with their first statement. No statement calls `execute`: one that contains others (CREATE SCHEMA,
EXPLAIN ANALYZE) calls their functions itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pgrepl.errors import unsupported

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.query.result import Result
    from pgrepl.sql.nodes import Statement

# for each node the module and its function of (statement, session)
STATEMENTS = {
    "AlterCollationStmt": ("pgrepl.statements.collation", "refresh_collation"),
    "AlterFunctionStmt": ("pgrepl.statements.routine.alter", "alter_function"),
    "AlterDomainStmt": ("pgrepl.statements.type.domain", "alter_domain"),
    "AlterEnumStmt": ("pgrepl.statements.type.enum", "alter_enum"),
    "AlterDatabaseStmt": ("pgrepl.statements.database", "alter_database"),
    "AlterDefaultPrivilegesStmt": ("pgrepl.statements.default_privileges", "alter_default_privileges"),
    "AlterObjectSchemaStmt": ("pgrepl.statements.objects", "execute_about_object"),
    "AlterOperatorStmt": ("pgrepl.statements.operator.alter", "alter_operator"),
    "AlterOwnerStmt": ("pgrepl.statements.objects", "execute_about_object"),
    "AlterPublicationStmt": ("pgrepl.statements.publication.alter", "alter_publication"),
    "AlterRoleSetStmt": ("pgrepl.statements.role_settings", "alter_role_set"),
    "AlterRoleStmt": ("pgrepl.statements.role", "alter_role"),
    "AlterSeqStmt": ("pgrepl.statements.sequence", "alter_sequence"),
    "AlterSubscriptionStmt": ("pgrepl.statements.subscription.alter", "alter_subscription"),
    "AlterSystemStmt": ("pgrepl.statements.system_settings", "alter_system"),
    "AlterTableStmt": ("pgrepl.statements.table.alter.run", "alter_table"),
    "AnalyzedStmt": ("pgrepl.writing.run", "modify_rows"),
    "CallStmt": ("pgrepl.statements.routine.procedure_call", "call"),
    "CheckPointStmt": ("pgrepl.statements.checkpoint", "checkpoint"),
    "ClosePortalStmt": ("pgrepl.statements.cursor", "close"),
    "CommentStmt": ("pgrepl.statements.comment", "comment_on"),
    "ConstraintsSetStmt": ("pgrepl.writing.constraints_set", "set_constraints"),
    "CopyStmt": ("pgrepl.statements.rows", "copy"),
    "CreateDomainStmt": ("pgrepl.statements.type.domain", "create_domain"),
    "CompositeTypeStmt": ("pgrepl.statements.type.composite", "create_composite_type"),
    "CreateEnumStmt": ("pgrepl.statements.type.enum", "create_enum"),
    "CreateDatabaseStmt": ("pgrepl.statements.database", "create_database"),
    "CreateFunctionStmt": ("pgrepl.statements.routine.create", "create_function"),
    "CreateRangeStmt": ("pgrepl.statements.type.range", "create_range"),
    "CreatePublicationStmt": ("pgrepl.statements.publication.create", "create_publication"),
    "CreateRoleStmt": ("pgrepl.statements.role", "create_role"),
    "CreateSchemaStmt": ("pgrepl.statements.schema", "create_schema"),
    "CreateSeqStmt": ("pgrepl.statements.sequence", "create_sequence"),
    "CreateStmt": ("pgrepl.statements.table.create", "create_table"),
    "CreateSubscriptionStmt": ("pgrepl.statements.subscription.create", "create_subscription"),
    "CreateTrigStmt": ("pgrepl.statements.trigger.create", "create_trigger"),
    "CreateTableAsStmt": ("pgrepl.statements.table.create_as", "create_table_as"),
    "DeallocateStmt": ("pgrepl.statements.prepared", "deallocate"),
    "DeclareCursorStmt": ("pgrepl.statements.cursor", "declare_cursor"),
    "DefineStmt": ("pgrepl.statements.objects", "execute_about_object"),
    "DeleteStmt": ("pgrepl.writing.run", "modify_rows"),
    "DiscardStmt": ("pgrepl.statements.settings", "execute_discard"),
    "DoStmt": ("pgrepl.statements.routine.do", "execute_do"),
    "DropDatabaseStmt": ("pgrepl.statements.database", "drop_database"),
    "DropFunctionStmt": ("pgrepl.statements.routine.drop", "drop_function"),
    "DropOperatorStmt": ("pgrepl.statements.operator.alter", "drop_operator"),
    "DropOwnedStmt": ("pgrepl.statements.owned", "drop_owned"),
    "DropRoleStmt": ("pgrepl.statements.role", "drop_role"),
    "DropStmt": ("pgrepl.statements.objects", "execute_about_object"),
    "DropTypeStmt": ("pgrepl.statements.type.drop", "drop_types"),
    "DropSubscriptionStmt": ("pgrepl.statements.subscription.drop", "drop_subscription"),
    "FetchStmt": ("pgrepl.statements.cursor", "fetch"),
    "ExplainStmt": ("pgrepl.statements.explain", "explain"),
    "GrantRoleStmt": ("pgrepl.statements.membership", "grant_role"),
    "GrantStmt": ("pgrepl.statements.grant", "execute_grant"),
    "IndexStmt": ("pgrepl.statements.index.create", "create_index"),
    "InsertStmt": ("pgrepl.writing.run", "modify_rows"),
    "ListenStmt": ("pgrepl.statements.notification", "listen"),
    "LockStmt": ("pgrepl.statements.lock", "lock_table"),
    "MergeStmt": ("pgrepl.writing.run", "modify_rows"),
    "NotifyStmt": ("pgrepl.statements.notification", "notify"),
    "PrepareStmt": ("pgrepl.statements.prepared", "prepare"),
    "ReassignOwnedStmt": ("pgrepl.statements.owned", "reassign_owned"),
    "RefreshMatViewStmt": ("pgrepl.statements.materialized_view", "refresh_materialized_view"),
    "ReindexStmt": ("pgrepl.statements.reindex", "reindex"),
    "RenameStmt": ("pgrepl.statements.objects", "execute_about_object"),
    "SelectStmt": ("pgrepl.statements.rows", "select"),
    "TransactionStmt": ("pgrepl.statements.transaction", "execute_transaction"),
    "TruncateStmt": ("pgrepl.writing.truncate", "truncate"),
    "UnlistenStmt": ("pgrepl.statements.notification", "unlisten"),
    "UpdateStmt": ("pgrepl.writing.run", "modify_rows"),
    "VacuumStmt": ("pgrepl.statements.vacuum", "vacuum"),
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
        from pgrepl.sql.nodes import UnsupportedStmt
        from pgrepl.sql.tags import command_tag

        raise unsupported(stmt.what if isinstance(stmt, UnsupportedStmt) else command_tag(stmt))
    return function(stmt, session)


@cache
def _function(node: str) -> Callable[[Any, Session], Result] | None:
    if node not in STATEMENTS:
        return None
    module, name = STATEMENTS[node]
    function: Callable[[Any, Session], Result] = getattr(import_module(module), name)
    return function
