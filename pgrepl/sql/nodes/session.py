"""Statements about the session and its locks: LOCK TABLE, REINDEX."""

from __future__ import annotations

from pgrepl.frozen import frozen
from pgrepl.sql.nodes.expr import RangeVar, Statement
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


__all__ = ["LockStmt", "ReindexStmt"]
