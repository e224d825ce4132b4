"""CREATE and ALTER PUBLICATION."""

from __future__ import annotations

from enum import Enum

from pgrepl.frozen import frozen
from pgrepl.sql.nodes.expr import Expr, Node, RangeVar, Statement
from pgrepl.sql.nodes.utility import DefElem


@frozen
class PublicationTable(Node):
    relation: RangeVar
    where: Expr | None = None
    columns: tuple[str, ...] | None = None


class PublicationObjKind(Enum):
    TABLE = "table"
    TABLES_IN_SCHEMA = "tables in schema"
    TABLES_IN_CUR_SCHEMA = "tables in current schema"


@frozen
class PublicationObj(Node):
    """One object after the carried-over keyword rule (preprocess_pubobj_list) has been applied."""

    kind: PublicationObjKind
    name: str | None = None  # schema
    table: PublicationTable | None = None
    location: int = -1


@frozen
class CreatePublicationStmt(Statement):
    name: str
    objects: tuple[PublicationObj, ...] = ()
    for_all_tables: bool = False
    options: tuple[DefElem, ...] = ()


class AlterPublicationAction(Enum):
    ADD = "add"
    SET = "set"
    DROP = "drop"


@frozen
class AlterPublicationStmt(Statement):
    """ALTER PUBLICATION … SET (options) when action is None, else ADD / SET / DROP objects. OWNER, RENAME: utility."""

    name: str
    action: AlterPublicationAction | None
    objects: tuple[PublicationObj, ...] = ()
    options: tuple[DefElem, ...] = ()


__all__ = [
    "AlterPublicationAction", "AlterPublicationStmt", "CreatePublicationStmt", "PublicationObj", "PublicationObjKind",
    "PublicationTable",
]  # fmt: skip
