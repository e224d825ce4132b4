"""INSERT, UPDATE, DELETE, MERGE, TRUNCATE, COPY and EXPLAIN."""

from __future__ import annotations

from pgrepl.frozen import frozen
from pgrepl.sql.nodes.expr import Expr, Node, RangeVar, Statement
from pgrepl.sql.nodes.select import FromItem, ResTarget, SelectStmt, WithClause
from pgrepl.sql.nodes.utility import DefElem


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
class InsertStmt(Statement):
    relation: RangeVar
    columns: tuple[ResTarget, ...]
    select: SelectStmt | None  # None: DEFAULT VALUES
    overriding: str | None = None  # USER, SYSTEM
    on_conflict: OnConflictClause | None = None
    returning: tuple[ResTarget, ...] = ()
    with_: WithClause | None = None


@frozen
class UpdateStmt(Statement):
    relation: RangeVar
    targets: tuple[ResTarget, ...]
    from_: tuple[FromItem, ...] = ()
    where: Expr | None = None
    returning: tuple[ResTarget, ...] = ()
    with_: WithClause | None = None


@frozen
class DeleteStmt(Statement):
    relation: RangeVar
    using: tuple[FromItem, ...] = ()
    where: Expr | None = None
    returning: tuple[ResTarget, ...] = ()
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
    returning: tuple[ResTarget, ...] = ()
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


__all__ = [
    "CopyStmt", "DeleteStmt", "ExplainStmt", "InsertStmt", "MergeStmt", "MergeWhen", "MultiAssign", "OnConflictClause",
    "TruncateStmt", "UpdateStmt",
]  # fmt: skip
