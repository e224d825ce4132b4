"""The requirements of a change of definition on existing rows (ALTER TABLE's phase 3, index_build), and queries that
check them by either engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.session.session import Session
from pgrepl.expr.analyse.lookup import relation_rte
from pgrepl.expr.catalog_trees import PartitionBound
from pgrepl.expr.tree import (
    Aggref,
    BooleanTest,
    BoolExpr,
    Const,
    Expr,
    NullTest,
    OpExpr,
    Query,
    RangeRef,
    SortGroup,
    Target,
    Var,
)
from pgrepl.ground.frozen import frozen
from pgrepl.sql.nodes import BoolOp, BoolTestType, NullTestType
from pgrepl.types import oids
from pgrepl.types.builtin import operator, procs_by_name

Row = tuple[Any, ...]


def column(rel: Relation, attnum: int, varno: int = 1) -> Var:
    attribute = rel.attributes[attnum - 1]
    return Var(attribute.type, typmod=attribute.typmod, collation=attribute.collation, varno=varno, attnum=attnum)


def is_null(expr: Expr) -> Expr:
    return NullTest(oids.BOOL, arg=expr, kind=NullTestType.IS_NULL)


def is_not_null(expr: Expr) -> Expr:
    return NullTest(oids.BOOL, arg=expr, kind=NullTestType.IS_NOT_NULL)


def is_false(expr: Expr) -> Expr:
    return BooleanTest(oids.BOOL, arg=expr, kind=BoolTestType.IS_FALSE)


def every(exprs: Sequence[Expr]) -> Expr | None:
    return _joined(BoolOp.AND, exprs)


def some(exprs: Sequence[Expr]) -> Expr | None:
    return _joined(BoolOp.OR, exprs)


def _joined(op: BoolOp, exprs: Sequence[Expr]) -> Expr | None:
    if len(exprs) < 2:
        return exprs[0] if exprs else None
    return BoolExpr(oids.BOOL, op=op, args=tuple(exprs))


_ONE = Const(oids.INT8, value=1)
Run = Callable[[Session, Query], Iterable[Row]]


class Asking:
    """Runs queries on the rows of one table."""

    def __init__(self, session: Session, rel: Relation, run: Run) -> None:
        self.session = session
        self._rel = rel
        self._run = run

    def first_row(self, query: Query) -> Row | None:
        return next(iter(self._run(self.session, query)), None)

    def first(self, shown: Sequence[Expr], where: Expr | None) -> Row | None:
        """The `shown` expressions of the first row that satisfies `where`; None: there is no such row."""
        return self.first_row(self._query(shown, where=where, limit=_ONE))

    def compute(self, exprs: Sequence[Expr], where: Expr | None) -> None:
        """Compute expressions for every row that satisfies `where`, for the errors that they raise."""
        (count,) = [proc for proc in procs_by_name("count") if proc.nargs]
        counts = [Aggref(oids.INT8, func=count.oid, args=(expr,)) for expr in exprs or [_ONE]]
        self.first_row(self._query(counts, where=where, has_aggregates=True))

    def duplicate(
        self, keys: Sequence[Expr], operators: Sequence[tuple[int, int]], where: Expr | None, having: Sequence[Expr]
    ) -> Row | None:
        """The smallest key values that several rows have; `operators` are the = and < of each key. `having`: what else
        must be true for them."""
        groups = tuple(SortGroup(n, eqop, sortop) for n, (eqop, sortop) in enumerate(operators, 1))
        query = self._query(
            keys, where=where, group=groups, having=every([more_than_one(), *having]), sort=groups, limit=_ONE
        )
        return self.first_row(replace(query, has_aggregates=True))

    def _query(self, shown: Sequence[Expr], **clauses: Any) -> Query:
        """A query on the table, without its children."""
        targets = tuple(Target(expr, f"c{n}", n) for n, expr in enumerate(shown, 1))
        return Query(targets, (relation_rte(self._rel, inh=False),), (RangeRef(1),), **clauses)


def more_than_one() -> Expr:
    """count(*) > 1"""
    (count,) = [proc for proc in procs_by_name("count") if not proc.nargs]
    more = operator(">", oids.INT8, oids.INT8)
    assert more is not None
    return OpExpr(oids.BOOL, op=more.oid, args=(Aggref(oids.INT8, func=count.oid, star=True), _ONE))


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
