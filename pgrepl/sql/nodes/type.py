"""CREATE, ALTER and DROP of types and domains."""

from __future__ import annotations

from enum import Enum

from pgrepl.frozen import frozen
from pgrepl.sql.nodes.expr import Expr, RangeVar, Statement, TypeName
from pgrepl.sql.nodes.table import ColumnDef, Constraint
from pgrepl.sql.nodes.utility import DefElem, ObjectType


@frozen
class CreateEnumStmt(Statement):
    name: RangeVar
    labels: tuple[str, ...]


@frozen
class CompositeTypeStmt(Statement):
    relation: RangeVar
    columns: tuple[ColumnDef, ...]


@frozen
class CreateRangeStmt(Statement):
    name: RangeVar
    options: tuple[DefElem, ...]


@frozen
class AlterEnumStmt(Statement):
    """ADD VALUE label [BEFORE | AFTER neighbor]; with `old_label`, RENAME VALUE."""

    name: tuple[str, ...]
    label: str
    old_label: str | None = None
    neighbor: str | None = None
    after: bool = True
    if_not_exists: bool = False


@frozen
class CreateDomainStmt(Statement):
    name: RangeVar
    type_name: TypeName
    collation: tuple[str, ...] = ()
    collation_location: int = -1
    constraints: tuple[Constraint, ...] = ()


class AlterDomainKind(Enum):
    SET_DEFAULT = "SET DEFAULT"  # expr, or None for DROP DEFAULT
    DROP_NOT_NULL = "DROP NOT NULL"
    SET_NOT_NULL = "SET NOT NULL"
    ADD_CONSTRAINT = "ADD CONSTRAINT"
    DROP_CONSTRAINT = "DROP CONSTRAINT"
    VALIDATE_CONSTRAINT = "VALIDATE CONSTRAINT"


@frozen
class AlterDomainStmt(Statement):
    name: tuple[str, ...]
    kind: AlterDomainKind
    expr: Expr | None = None
    constraint: Constraint | None = None
    constraint_name: str | None = None
    missing_ok: bool = False
    cascade: bool = False


@frozen
class DropTypeStmt(Statement):
    """DROP TYPE or DROP DOMAIN."""

    kind: ObjectType
    types: tuple[TypeName, ...]
    missing_ok: bool = False
    cascade: bool = False


__all__ = [
    "AlterDomainKind", "AlterDomainStmt", "AlterEnumStmt", "CompositeTypeStmt", "CreateDomainStmt", "CreateEnumStmt",
    "CreateRangeStmt", "DropTypeStmt",
]  # fmt: skip
