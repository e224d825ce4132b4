"""Questions about the rows of one table, as queries that either engine answers: is there a row such that …?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation
from pgrepl.expr.range_table import relation_rte
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
    Rte,
    SortGroup,
    Target,
    Var,
)
from pgrepl.sql.nodes import BoolOp, BoolTestType, NullTestType
from pgrepl.types import oids
from pgrepl.types.builtin import operator, procs_by_name

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

Row = tuple[Any, ...]


def only(rel: Relation) -> Rte:
    """A table without what is below it, in FROM."""
    return relation_rte(rel, inh=False)


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


def first(session: Session, rel: Relation, shown: Sequence[Expr], where: Expr | None) -> Row | None:
    """Of the first row such that `where`, what is `shown`; None: there is no such row."""
    targets = tuple(Target(expr, f"c{n}", n) for n, expr in enumerate(shown, 1))
    return first_row(session, Query(targets, (only(rel),), (RangeRef(1),), where=where, limit=_ONE))


_ONE = Const(oids.INT8, value=1)


def first_row(session: Session, query: Query) -> Row | None:
    from pgrepl.query.rowset import rows_of

    return next(iter(rows_of(session, query)), None)


def compute(session: Session, rel: Relation, exprs: Sequence[Expr], where: Expr | None) -> None:
    """Compute expressions for every row such that `where`, for the errors that they raise."""
    (count,) = [proc for proc in procs_by_name("count") if proc.nargs]
    targets = tuple(
        Target(Aggref(oids.INT8, func=count.oid, args=(expr,)), f"c{n}", n) for n, expr in enumerate(exprs or [_ONE], 1)
    )
    first_row(session, Query(targets, (only(rel),), (RangeRef(1),), where=where, has_aggregates=True))


def duplicate(
    session: Session,
    rel: Relation,
    keys: Sequence[Expr],
    operators: Sequence[tuple[int, int]],
    where: Expr | None,
) -> Row | None:
    """The smallest values of the keys that several rows have; `operators` are the = and < of each key."""
    groups = tuple(SortGroup(n, eqop, sortop) for n, (eqop, sortop) in enumerate(operators, 1))
    (count,) = [proc for proc in procs_by_name("count") if not proc.nargs]
    more = operator(">", oids.INT8, oids.INT8)
    assert more is not None
    number = Aggref(oids.INT8, func=count.oid, star=True)
    query = Query(
        tuple(Target(expr, f"c{n}", n) for n, expr in enumerate(keys, 1)),
        (only(rel),),
        (RangeRef(1),),
        where=where,
        group=groups,
        having=OpExpr(oids.BOOL, op=more.oid, args=(number, _ONE)),
        sort=groups,
        limit=_ONE,
        has_aggregates=True,
    )
    return first_row(session, query)
