"""What the rows of a table must satisfy: the one place where a change of definition asks about existing rows.

A command that adds a constraint, attaches a partition or changes a type says with `require` what must hold of the rows
that are already there. The keeper of rows raises the error PostgreSQL raises: `check constraint "c" of relation "t" is
violated by some row`. It is loaded when it is first asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Protocol

from pgrepl.catalog.relation import Relation
from pgrepl.catalog.session import Session
from pgrepl.expr.partition import PartitionBound
from pgrepl.expr.tree import Expr
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.query.rowset import LocalRows, SparkRows


@frozen
class NotNull:
    """No row has NULL in any column that is marked NOT NULL: `column "a" of relation "t" contains null values`."""

    table: int


@frozen
class CheckHolds:
    table: int
    name: str
    expr: Expr


@frozen
class KeysExist:
    """Every row of the table references a row of the other: a foreign key, by its row in pg_constraint."""

    table: int
    constraint: int


@frozen
class Unique:
    """No two rows agree in a unique index: `could not create unique index "i"`."""

    table: int
    index: int


@frozen
class Indexed:
    """An index can be computed for every row: its expressions and its predicate raise no error."""

    table: int
    index: int


@frozen
class InPartition:
    """Every row of the table is one its bound lets in:
    `partition constraint of relation "p" is violated by some row`."""

    table: int
    parent: int
    bound: PartitionBound


@frozen
class DefaultPartition:
    """No row of the default partition belongs into the new one: `updated partition constraint for default partition "d"
    would be violated by some row`."""

    table: int
    parent: int
    bound: PartitionBound


@frozen
class NotReferenced:
    """No row of a partition that is to be detached is referenced by a foreign key."""

    table: int
    constraint: int


Requirement = NotNull | CheckHolds | KeysExist | Unique | Indexed | InPartition | DefaultPartition | NotReferenced


@frozen
class NewValue:
    """A column of existing rows gets another value: a new column its default, one of changed type the converted one.
    The expression is over the row as it was; one that generates the column, over the row as it becomes."""

    table: int
    attnum: int
    expr: Expr
    generates: bool = False


class Keeper(Protocol):
    """Who keeps the rows of tables."""

    def require(self, session: Session, requirement: Requirement) -> None:
        """Raise PostgreSQL's error unless all rows satisfy the requirement."""

    def append(self, session: Session, table: Relation, rows: LocalRows | SparkRows) -> int:
        """Keep the first rows of a new table (CREATE TABLE AS); how many there are."""

    def rewrite(self, session: Session, values: Mapping[int, list[NewValue]]) -> set[int]:
        """Give existing rows of tables new values in some columns; the tables whose rows had to be written anew."""


@cache
def keeper() -> Keeper:
    from pgrepl.writing.rewrite.keeper import LakeKeeper

    return LakeKeeper()


def require(session: Session, requirement: Requirement) -> None:
    keeper().require(session, requirement)


def append(session: Session, table: Relation, rows: LocalRows | SparkRows) -> int:
    return keeper().append(session, table, rows)


def rewrite(session: Session, values: Mapping[int, list[NewValue]]) -> set[int]:
    return keeper().rewrite(session, values) if values else set()
