"""Operators and collations: CREATE, ALTER, DROP."""

from __future__ import annotations

from pgrepl.frozen import frozen
from pgrepl.sql.nodes.expr import Node, Statement, TypeName
from pgrepl.sql.nodes.utility import DefElem, ObjectType, RoleSpec


@frozen
class OperatorName(Node):
    """An operator that a statement names, by the types of its operands; None: NONE was written."""

    name: tuple[str, ...]
    left: TypeName | None
    right: TypeName | None


@frozen
class DefineStmt(Statement):
    """CREATE OPERATOR | COLLATION. `source`: the collation that a new one is a copy of."""

    kind: ObjectType
    name: tuple[str, ...]
    options: tuple[DefElem, ...] = ()
    source: tuple[str, ...] | None = None
    if_not_exists: bool = False
    location: int = -1


@frozen
class AlterOperatorStmt(Statement):
    """ALTER OPERATOR … SET (options), or one of OWNER TO, SET SCHEMA."""

    operator: OperatorName
    options: tuple[DefElem, ...] = ()
    new_owner: RoleSpec | None = None
    new_schema: str | None = None


@frozen
class DropOperatorStmt(Statement):
    operators: tuple[OperatorName, ...]
    missing_ok: bool = False
    cascade: bool = False


@frozen
class AlterCollationStmt(Statement):
    """ALTER COLLATION … REFRESH VERSION."""

    name: tuple[str, ...]


__all__ = ["AlterCollationStmt", "AlterOperatorStmt", "DefineStmt", "DropOperatorStmt", "OperatorName"]
