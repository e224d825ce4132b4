"""CREATE, ALTER and DROP SUBSCRIPTION."""

from __future__ import annotations

from enum import Enum

from pgrepl.frozen import frozen
from pgrepl.sql.nodes.expr import Statement
from pgrepl.sql.nodes.utility import DefElem


@frozen
class CreateSubscriptionStmt(Statement):
    name: str
    conninfo: str
    publications: tuple[str, ...]
    options: tuple[DefElem, ...] = ()


class AlterSubscriptionKind(Enum):
    OPTIONS = "options"
    CONNECTION = "connection"
    SET_PUBLICATION = "set publication"
    ADD_PUBLICATION = "add publication"
    DROP_PUBLICATION = "drop publication"
    REFRESH = "refresh"
    ENABLED = "enabled"  # options holds one DefElem("enabled", True/False)
    SKIP = "skip"


@frozen
class AlterSubscriptionStmt(Statement):
    kind: AlterSubscriptionKind
    name: str
    conninfo: str | None = None
    publications: tuple[str, ...] = ()
    options: tuple[DefElem, ...] = ()


@frozen
class DropSubscriptionStmt(Statement):
    name: str
    missing_ok: bool = False
    cascade: bool = False


__all__ = ["AlterSubscriptionKind", "AlterSubscriptionStmt", "CreateSubscriptionStmt", "DropSubscriptionStmt"]
