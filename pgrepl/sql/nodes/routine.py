"""Functions and procedures: CREATE, ALTER, DROP, CALL."""

from __future__ import annotations

from typing import Any

from pgrepl.frozen import frozen
from pgrepl.sql.nodes.expr import Expr, FuncCall, Node, Statement, TypeName
from pgrepl.sql.nodes.utility import DefElem, ObjectType, RoleSpec


@frozen
class FunctionParameter(Node):
    """A parameter of a routine. mode as in pg_proc.proargmodes; d: none was written."""

    name: str | None
    type_name: TypeName
    mode: str = "d"  # d, i, o, b (INOUT), v, t (a column of RETURNS TABLE)
    default: Expr | None = None
    location: int = -1

    @property
    def is_input(self) -> bool:
        return self.mode not in ("o", "t")


@frozen
class RoutineName(Node):
    """A routine that a statement names (ObjectWithArgs). parameters None: without argument list."""

    name: tuple[str, ...]
    parameters: tuple[FunctionParameter, ...] | None = None
    location: int = -1


@frozen
class ReturnStmt(Statement):
    """RETURN expression, the body of a function or its last statement."""

    value: Expr
    location: int = -1


@frozen
class CreateFunctionStmt(Statement):
    is_procedure: bool
    replace: bool
    name: tuple[str, ...]
    parameters: tuple[FunctionParameter, ...]
    return_type: TypeName | None
    options: tuple[DefElem, ...]
    body: ReturnStmt | tuple[Statement, ...] | None = None  # RETURN, or the statements of BEGIN ATOMIC


@frozen
class AlterFunctionStmt(Statement):
    """ALTER FUNCTION | PROCEDURE | ROUTINE: options, or one of RENAME TO, OWNER TO, SET SCHEMA."""

    kind: ObjectType
    routine: RoutineName
    options: tuple[DefElem, ...] = ()
    new_name: str | None = None
    new_owner: RoleSpec | None = None
    new_schema: str | None = None


@frozen
class DropFunctionStmt(Statement):
    kind: ObjectType
    routines: tuple[RoutineName, ...]
    missing_ok: bool = False
    cascade: bool = False


@frozen
class DoStmt(Statement):
    """DO: a block of code that runs at once. Options: as, language."""

    options: tuple[DefElem, ...]


@frozen
class AnalyzedStmt(Statement):
    """INSERT, UPDATE, DELETE or MERGE of a standard body, or prepared, which has been analysed."""

    modify: Any  # an expr.dml.plan.Modify


@frozen
class CallStmt(Statement):
    call: FuncCall


__all__ = [
    "AlterFunctionStmt", "AnalyzedStmt", "CallStmt", "CreateFunctionStmt", "DoStmt", "DropFunctionStmt",
    "FunctionParameter",
    "ReturnStmt", "RoutineName",
]  # fmt: skip
