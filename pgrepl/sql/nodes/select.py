"""SELECT, VALUES, INSERT, UPDATE, DELETE, MERGE, TRUNCATE, COPY and EXPLAIN."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from pgrepl.ground.frozen import frozen
from pgrepl.sql.nodes.expr import (
    Alias,
    Expr,
    GroupingKind,
    JoinType,
    Node,
    RangeVar,
    SetOp,
    SortBy,
    Statement,
    SubLinkType,
    TypeName,
    WindowDef,
)
from pgrepl.sql.nodes.json import JsonTable
from pgrepl.sql.nodes.utility import DefElem


@frozen
class ResTarget(Node):
    """One entry of a SELECT list (name: its AS label), of SET, or of an INSERT column list."""

    value: Expr | None
    name: str | None = None
    indirection: tuple[object, ...] = ()
    location: int = -1


@frozen
class RangeSubselect(Node):
    subquery: SelectStmt
    alias: Alias | None = None
    lateral: bool = False


@frozen
class ColumnDefinition(Node):
    """`AS f(a int, b text)` behind a function in FROM."""

    name: str
    type_name: TypeName
    collation: tuple[str, ...] = ()
    location: int = -1


@frozen
class RangeFunction(Node):
    """A function in FROM, or ROWS FROM (…)."""

    functions: tuple[tuple[Expr, tuple[ColumnDefinition, ...]], ...]
    alias: Alias | None = None
    coldefs: tuple[ColumnDefinition, ...] = ()
    ordinality: bool = False
    lateral: bool = False
    rows_from: bool = False


@frozen
class RangeTableSample(Node):
    relation: RangeVar
    method: tuple[str, ...]
    args: tuple[Expr, ...]
    repeatable: Expr | None
    location: int = -1


@frozen
class JoinExpr(Node):
    kind: JoinType
    natural: bool
    left: FromItem
    right: FromItem
    using: tuple[str, ...] = ()
    using_alias: Alias | None = None
    quals: Expr | None = None
    alias: Alias | None = None


@frozen
class UnsupportedFromItem(Node):
    """A FROM item that PostgreSQL has and pgrepl only parses: XMLTABLE."""

    what: str
    args: tuple[Node, ...] = ()
    alias: Alias | None = None
    location: int = -1


FromItem = RangeVar | RangeSubselect | RangeFunction | RangeTableSample | JoinExpr | JsonTable | UnsupportedFromItem


@frozen
class CTESearchClause(Node):
    columns: tuple[str, ...]
    breadth_first: bool
    sequence_column: str
    location: int = -1


@frozen
class CTECycleClause(Node):
    columns: tuple[str, ...]
    mark_column: str
    path_column: str
    mark_value: Expr | None = None  # None: TRUE
    mark_default: Expr | None = None  # None: FALSE
    location: int = -1


@frozen
class CommonTableExpr(Node):
    name: str
    columns: tuple[str, ...]
    query: Statement
    materialized: bool | None = None
    search: CTESearchClause | None = None
    cycle: CTECycleClause | None = None
    location: int = -1


@frozen
class WithClause(Node):
    ctes: tuple[CommonTableExpr, ...]
    recursive: bool = False
    location: int = -1


@frozen
class GroupingSet(Expr):
    kind: GroupingKind
    content: tuple[Expr, ...]
    location: int = -1


@frozen
class LockingClause(Node):
    strength: str  # UPDATE, NO KEY UPDATE, SHARE, KEY SHARE
    relations: tuple[RangeVar, ...] = ()
    wait: str | None = None  # NOWAIT, SKIP LOCKED


@frozen
class SelectStmt(Statement):
    """A plain SELECT, a VALUES list (values is not None), or a set operation (op is not None, with left and right)."""

    targets: tuple[ResTarget, ...] = ()
    distinct: tuple[Expr, ...] | None = None  # () is plain DISTINCT
    into: RangeVar | None = None
    from_: tuple[FromItem, ...] = ()
    where: Expr | None = None
    group_by: tuple[Expr, ...] = ()
    group_distinct: bool = False
    having: Expr | None = None
    windows: tuple[WindowDef, ...] = ()
    values: tuple[tuple[Expr, ...], ...] | None = None
    order_by: tuple[SortBy, ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None
    with_ties: bool = False
    locking: tuple[LockingClause, ...] = ()
    with_: WithClause | None = None
    op: SetOp | None = None
    all: bool = False
    left: SelectStmt | None = None
    right: SelectStmt | None = None
    location: int = -1
    query: Any = None  # its typed tree, if it has been analysed: an expr.tree.Query
    plan: Any = field(default=None, compare=False)  # what is kept for it, if it runs again: a query.run.KeptPlan


@frozen
class SubLink(Expr):
    kind: SubLinkType
    test: Expr | None
    operator: tuple[str, ...]  # () for IN
    subselect: SelectStmt
    location: int = -1


@frozen
class PlAssign(Statement):
    """An assignment of PL/pgSQL: `name[i].field := query without SELECT`."""

    name: str
    indirection: tuple[object, ...]
    query: SelectStmt
    location: int = -1


# --- dml --------------------------------------------------------------------------------------------------------------


@frozen
class OnConflictClause(Node):
    do_nothing: bool
    elements: tuple[object, ...] = ()  # IndexElem
    where_index: Expr | None = None
    constraint: str | None = None
    targets: tuple[ResTarget, ...] = ()
    where: Expr | None = None
    location: int = -1
    target_location: int = -1  # of the parenthesis or of ON CONSTRAINT


@frozen
class MultiAssign(Expr):
    """`(a, b) = (…)`: the n-th column of a shared source; see ResTarget in UpdateStmt.targets."""

    source: Expr
    number: int
    count: int


@frozen
class RowVersion(Node):
    """WITH (OLD AS alias) of RETURNING."""

    name: str  # old, new
    alias: str
    location: int


@frozen
class ReturningClause(Node):
    targets: tuple[ResTarget, ...]
    versions: tuple[RowVersion, ...] = ()
    location: int = -1  # of its WITH


@frozen
class SelectLimit(Node):
    """LIMIT, FETCH and OFFSET, which become fields of the SelectStmt."""

    count: Expr | None = None
    offset: Expr | None = None
    with_ties: bool = False


@frozen
class InsertStmt(Statement):
    relation: RangeVar
    columns: tuple[ResTarget, ...]
    select: SelectStmt | None  # None: DEFAULT VALUES
    overriding: str | None = None  # USER, SYSTEM
    on_conflict: OnConflictClause | None = None
    returning: ReturningClause | None = None
    with_: WithClause | None = None


@frozen
class UpdateStmt(Statement):
    relation: RangeVar
    targets: tuple[ResTarget, ...]
    from_: tuple[FromItem, ...] = ()
    where: Expr | None = None
    returning: ReturningClause | None = None
    with_: WithClause | None = None


@frozen
class DeleteStmt(Statement):
    relation: RangeVar
    using: tuple[FromItem, ...] = ()
    where: Expr | None = None
    returning: ReturningClause | None = None
    with_: WithClause | None = None


@frozen
class MergeWhen(Node):
    match: str  # MATCHED, NOT MATCHED, NOT MATCHED BY SOURCE
    action: str  # UPDATE, DELETE, INSERT, NOTHING
    condition: Expr | None = None
    targets: tuple[ResTarget, ...] = ()  # SET of UPDATE, columns of INSERT
    values: tuple[Expr, ...] = ()  # of INSERT; () is DEFAULT VALUES
    overriding: str | None = None


@frozen
class MergeStmt(Statement):
    relation: RangeVar
    source: FromItem
    condition: Expr
    whens: tuple[MergeWhen, ...] = ()
    returning: ReturningClause | None = None
    with_: WithClause | None = None


MODIFYING = (InsertStmt, UpdateStmt, DeleteStmt, MergeStmt)


@frozen
class TruncateStmt(Statement):
    relations: tuple[RangeVar, ...]
    restart: bool = False
    cascade: bool = False


@frozen
class CopyStmt(Statement):
    relation: RangeVar | None
    query: Statement | None
    columns: tuple[str, ...]
    is_from: bool
    program: bool
    filename: str | None  # None: STDIN / STDOUT
    options: tuple[DefElem, ...] = ()
    where: Expr | None = None


@frozen
class ExplainStmt(Statement):
    query: Statement
    options: tuple[DefElem, ...] = ()
