"""Statements about the session: prepared statements, cursors, LOCK TABLE, REINDEX."""

from __future__ import annotations

from pgrepl.frozen import frozen
from pgrepl.sql.nodes.expr import Expr, RangeVar, Statement, TypeName
from pgrepl.sql.nodes.select import SelectStmt
from pgrepl.sql.nodes.utility import DefElem


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


__all__ = [
    "ClosePortalStmt", "DeallocateStmt", "DeclareCursorStmt", "ExecuteStmt", "FetchStmt", "ListenStmt",
    "LockStmt", "NotifyStmt", "PrepareStmt", "ReindexStmt", "UnlistenStmt",
]  # fmt: skip
