"""The requirements of a change of definition on existing rows: the NewConstraints of ALTER TABLE's phase 3, and
index_build.

A command that adds a constraint, attaches a partition or changes a type returns these requirements. `validate` raises
PostgreSQL's error: `check constraint "c" of relation "t" is violated by some row`.
"""

from __future__ import annotations

from pgrepl.expr.partition import PartitionBound
from pgrepl.expr.tree import Expr
from pgrepl.frozen import frozen


@frozen
class NotNull:
    """The requirement that no row has NULL in a column that is marked NOT NULL: `column "a" of relation "t" contains
    null values`."""

    table: int


@frozen
class CheckHolds:
    table: int
    name: str
    expr: Expr


@frozen
class DomainHolds:
    """The constraint of a domain holds for all values of some columns: `column "a" of table "t" contains values that
    violate the new constraint`. By column the condition; None: NOT NULL."""

    table: int
    columns: tuple[tuple[int, Expr | None], ...]


@frozen
class KeysExist:
    """Every row of the table references a row of the other: a foreign key, by its row in pg_constraint."""

    table: int
    constraint: int


@frozen
class Unique:
    """The requirement that no two rows agree in a unique index: `could not create unique index "i"`."""

    table: int
    index: int


@frozen
class Indexed:
    """An index can be computed for every row: its expressions and its predicate raise no error."""

    table: int
    index: int


@frozen
class InPartition:
    """The partition's bound admits every row of the table: `partition constraint of relation "p" is violated by some
    row`."""

    table: int
    parent: int
    bound: PartitionBound


@frozen
class DefaultPartition:
    """The new partition's bound admits no row of the default partition: `updated partition constraint for default
    partition "d" would be violated by some row`."""

    table: int
    parent: int
    bound: PartitionBound


@frozen
class NotReferenced:
    """The requirement that no row of a partition to be detached is referenced by a foreign key."""

    table: int
    constraint: int


Requirement = (
    NotNull | CheckHolds | DomainHolds | KeysExist | Unique | Indexed | InPartition | DefaultPartition | NotReferenced
)
