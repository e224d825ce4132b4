"""Statements about any kind of object: each is handed to the family of that kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.errors import unsupported
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterObjectSchemaStmt, AlterOwnerStmt, DropStmt, RenameStmt
from pgrepl.sql.tags import command_tag
from pgrepl.statements.base import action_for, execute

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


@execute.register(DropStmt)
@execute.register(RenameStmt)
@execute.register(AlterOwnerStmt)
@execute.register(AlterObjectSchemaStmt)
def execute_about_object(
    stmt: DropStmt | RenameStmt | AlterOwnerStmt | AlterObjectSchemaStmt, session: Session
) -> Result:
    action = action_for(stmt, stmt.kind)
    if action is None:
        raise unsupported(command_tag(stmt))
    return action(stmt, session)
