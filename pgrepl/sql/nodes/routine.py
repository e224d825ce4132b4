"""Functions, procedures, triggers, and statements about the session (prepared statements, cursors, LOCK TABLE,
REINDEX).
"""

from __future__ import annotations

from typing import Any

from pgrepl.ground.frozen import frozen
from pgrepl.sql.nodes.expr import Expr, FuncCall, Node, RangeVar, Statement, TypeName
from pgrepl.sql.nodes.select import SelectStmt
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


# --- trigger ----------------------------------------------------------------------------------------------------------


@frozen
class TriggerTransition(Node):
    """REFERENCING OLD | NEW TABLE | ROW AS name."""

    name: str
    is_new: bool
    is_table: bool


@frozen
class TriggerEventSpec(Node):
    event: str  # INSERT, UPDATE, DELETE, TRUNCATE
    columns: tuple[str, ...] = ()  # UPDATE OF


@frozen
class CreateTrigStmt(Statement):
    name: str
    relation: RangeVar
    function: tuple[str, ...]
    args: tuple[str, ...]
    timing: str  # BEFORE, AFTER, INSTEAD OF
    events: tuple[TriggerEventSpec, ...]
    row: bool
    when: Expr | None = None
    transitions: tuple[TriggerTransition, ...] = ()
    replace: bool = False
    is_constraint: bool = False
    deferrable: bool = False
    initially_deferred: bool = False
    referenced: RangeVar | None = None  # FROM of a constraint trigger

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of UPDATE OF."""
        return tuple([name for event in self.events for name in event.columns])


# --- session ----------------------------------------------------------------------------------------------------------


@frozen
class LockStmt(Statement):
    """`mode` is PostgreSQL's number: 1 ACCESS SHARE … 8 ACCESS EXCLUSIVE."""

    relations: tuple[RangeVar, ...]
    mode: int = 8
    nowait: bool = False


@frozen
class ReindexStmt(Statement):
    """REINDEX INDEX | TABLE `relation`; SCHEMA | DATABASE | SYSTEM `name`."""

    kind: str  # the word
    relation: RangeVar | None = None
    name: str | None = None
    options: tuple[DefElem, ...] = ()


@frozen
class PrepareStmt(Statement):
    name: str
    types: tuple[TypeName, ...]
    query: Statement


@frozen
class ExecuteStmt(Statement):
    name: str
    args: tuple[Expr, ...] = ()


@frozen
class DeallocateStmt(Statement):
    """`name` None: ALL."""

    name: str | None


@frozen
class DeclareCursorStmt(Statement):
    """`scroll` None: neither SCROLL nor NO SCROLL; `scroll_and_not`: both."""

    name: str
    query: SelectStmt
    scroll: bool | None = None
    scroll_and_not: bool = False
    binary: bool = False
    asensitive: bool = False
    insensitive: bool = False
    holds: bool = False


@frozen
class FetchStmt(Statement):
    """FETCH or MOVE; `word`: forward, backward, absolute, relative; `count` None: ALL."""

    name: str
    word: str = "forward"
    count: int | None = 1
    moves: bool = False


@frozen
class ListenStmt(Statement):
    channel: str


@frozen
class UnlistenStmt(Statement):
    """`channel` None: all."""

    channel: str | None


@frozen
class NotifyStmt(Statement):
    channel: str
    payload: str = ""


@frozen
class ClosePortalStmt(Statement):
    """`name` None: ALL."""

    name: str | None
