"""What the rows of a table must satisfy: the one place where a change of definition asks about existing rows.

A command that adds a constraint, attaches a partition or changes a type says with `require` what must hold of the rows
that are already there. Who keeps rows registers a `Keeper`; as long as nobody does, no table has any row, and
everything holds. The keeper raises the error PostgreSQL raises:
`check constraint "c" of relation "t" is violated by some row`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pgrepl.catalog.relation import Relation
from pgrepl.catalog.session import Session
from pgrepl.errors import unsupported
from pgrepl.expr.partition import PartitionBound
from pgrepl.expr.tree import Expr
from pgrepl.frozen import frozen


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


Requirement = NotNull | CheckHolds | KeysExist | Unique | InPartition | DefaultPartition | NotReferenced


@frozen
class NewValue:
    """A column of existing rows gets another value: a new column its default, one of changed type the converted one.
    The expression is over the row as it was."""

    table: int
    attnum: int
    expr: Expr


class Keeper(Protocol):
    """Who keeps the rows of tables."""

    def require(self, session: Session, requirement: Requirement) -> None:
        """Raise PostgreSQL's error unless all rows satisfy the requirement."""

    def append(self, session: Session, table: Relation, rows: Sequence[tuple[Any, ...]]) -> None:
        """Keep the first rows of a new table (CREATE TABLE AS)."""

    def rewrite(self, session: Session, table: int, values: list[NewValue]) -> None:
        """Give existing rows of a table new values in some columns."""


_keepers: list[Keeper] = []


def register(keeper: Keeper) -> None:
    _keepers.append(keeper)


def require(session: Session, requirement: Requirement) -> None:
    for keeper in _keepers:
        keeper.require(session, requirement)


def append(session: Session, table: Relation, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows and not _keepers:
        raise unsupported("CREATE TABLE AS with rows")
    for keeper in _keepers:
        keeper.append(session, table, rows)


def rewrite(session: Session, table: int, values: list[NewValue]) -> None:
    for keeper in _keepers:
        keeper.rewrite(session, table, values)
