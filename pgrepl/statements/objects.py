"""CREATE OPERATOR and COLLATION; DROP, RENAME, OWNER TO and SET SCHEMA of any kind of object: each is passed to the
module of that kind.

These modules are imported with their first statement.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pgrepl.errors import unsupported
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterObjectSchemaStmt, AlterOwnerStmt, DefineStmt, DropStmt, RenameStmt
from pgrepl.sql.nodes.utility import ObjectType
from pgrepl.sql.tags import command_tag

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_DROP, _RENAME = "pgrepl.statements.table.drop", "pgrepl.statements.table.rename"
_PUBLICATION, _SUBSCRIPTION = "pgrepl.statements.publication.drop", "pgrepl.statements.subscription.owner"
_SCHEMA, _DATABASE = "pgrepl.statements.schema", "pgrepl.statements.database"
_COLLATION = "pgrepl.statements.collation"
_TYPE = "pgrepl.statements.type.change"
_TYPES = (ObjectType.TYPE, ObjectType.DOMAIN)
_RELATIONS = (ObjectType.TABLE, ObjectType.INDEX, ObjectType.VIEW, ObjectType.MATVIEW, ObjectType.SEQUENCE)

# for each statement and kind the module and its function of (statement, session)
ACTIONS: dict[tuple[type, ObjectType], tuple[str, str]] = {
    (DefineStmt, ObjectType.OPERATOR): ("pgrepl.statements.operator.create", "create_operator"),
    (DefineStmt, ObjectType.COLLATION): (_COLLATION, "create_collation"),
    (DropStmt, ObjectType.COLLATION): (_COLLATION, "drop_collations"),
    (RenameStmt, ObjectType.COLLATION): (_COLLATION, "rename_collation"),
    (AlterOwnerStmt, ObjectType.COLLATION): (_COLLATION, "give_collation"),
    (AlterObjectSchemaStmt, ObjectType.COLLATION): (_COLLATION, "set_collation_schema"),
    **{(DropStmt, kind): (_DROP, "drop_relations") for kind in _RELATIONS},
    **{(RenameStmt, kind): (_RENAME, "rename") for kind in _RELATIONS},
    **{(AlterObjectSchemaStmt, kind): (_RENAME, "set_schema") for kind in _RELATIONS},
    (DropStmt, ObjectType.FOREIGN_TABLE): (_DROP, "drop_relations"),
    (RenameStmt, ObjectType.COLUMN): (_RENAME, "rename_column_of"),
    (RenameStmt, ObjectType.TABCONSTRAINT): (_RENAME, "rename_constraint_of"),
    **{(RenameStmt, kind): (_TYPE, "rename_type") for kind in _TYPES},
    **{(AlterOwnerStmt, kind): (_TYPE, "alter_type_owner") for kind in _TYPES},
    **{(AlterObjectSchemaStmt, kind): (_TYPE, "set_type_schema") for kind in _TYPES},
    (RenameStmt, ObjectType.ATTRIBUTE): (_RENAME, "rename_column_of"),
    (RenameStmt, ObjectType.DOMCONSTRAINT): (_TYPE, "rename_domain_constraint"),
    (DropStmt, ObjectType.SCHEMA): (_SCHEMA, "drop_schema"),
    (RenameStmt, ObjectType.SCHEMA): (_SCHEMA, "rename_schema"),
    (AlterOwnerStmt, ObjectType.SCHEMA): (_SCHEMA, "alter_schema_owner"),
    (DropStmt, ObjectType.PUBLICATION): (_PUBLICATION, "drop_publications"),
    (RenameStmt, ObjectType.PUBLICATION): (_PUBLICATION, "rename_publication"),
    (AlterOwnerStmt, ObjectType.PUBLICATION): (_PUBLICATION, "give_publication"),
    (RenameStmt, ObjectType.SUBSCRIPTION): (_SUBSCRIPTION, "rename_subscription"),
    (AlterOwnerStmt, ObjectType.SUBSCRIPTION): (_SUBSCRIPTION, "give_subscription"),
    (DropStmt, ObjectType.TRIGGER): ("pgrepl.statements.trigger.change", "drop_trigger"),
    (RenameStmt, ObjectType.TRIGGER): ("pgrepl.statements.trigger.change", "rename_trigger"),
    (RenameStmt, ObjectType.DATABASE): (_DATABASE, "rename_database"),
    (AlterOwnerStmt, ObjectType.DATABASE): (_DATABASE, "alter_database_owner"),
    (RenameStmt, ObjectType.ROLE): ("pgrepl.statements.role", "rename_role"),
}


def execute_about_object(
    stmt: DefineStmt | DropStmt | RenameStmt | AlterOwnerStmt | AlterObjectSchemaStmt, session: Session
) -> Result:
    found = ACTIONS.get((type(stmt), stmt.kind))
    if found is None:
        raise unsupported(command_tag(stmt))
    module, name = found
    action: Callable[[Any, Session], Result] = getattr(import_module(module), name)
    return action(stmt, session)
