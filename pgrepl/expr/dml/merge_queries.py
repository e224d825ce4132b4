"""The queries that a MERGE runs: one that joins the target with the source, and one for each WHEN clause.

MERGE INTO t USING s ON c …     →  SELECT place, tableoid, matched, t.a, t.b …, s.x … FROM s LEFT JOIN t ON c
WHEN MATCHED AND d THEN UPDATE  →  SELECT e FROM joined WHERE d
SET a = e
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation, relation
from pgrepl.errors import unsupported
from pgrepl.expr import lookup
from pgrepl.expr.dml.defaults import null_of
from pgrepl.expr.dml.insert import rows_rte
from pgrepl.expr.dml.levels import map_level
from pgrepl.expr.dml.plan import TARGET, Command, MergeAction, MergeMatch, Modify
from pgrepl.expr.dml.queries import column_of, whole_row, within
from pgrepl.expr.range_table import SYSTEM_COLUMN_NAMES, TABLEOID
from pgrepl.expr.tree import (
    PLACE,
    BoolExpr,
    Column,
    Const,
    Expr,
    Join,
    NullTest,
    Query,
    RangeRef,
    SubLink,
    Target,
    Var,
)
from pgrepl.expr.walk import walk_deep
from pgrepl.frozen import frozen
from pgrepl.sql.nodes import BoolOp, JoinType, NullTestType
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

JOINED = "*JOINED*"
FIRST = 4  # the position of the target's first column in a row of the join: behind place, tableoid and two tests


@frozen
class Joined:
    """The query that joins the target with the source. Its columns: place, tableoid, whether there is a row of the
    target, whether there is one of the source, the target's columns by attnum, and `carried`."""

    query: Query
    carried: tuple[Var, ...]


def joined_query(session: Session, modify: Modify) -> Joined:
    """As transform_MERGE_to_join does."""
    target, merge = relation(session, modify.relid), modify.merge
    assert merge is not None
    keeps_source = MergeMatch.NOT_MATCHED_BY_TARGET in merge.matches
    keeps_target = MergeMatch.NOT_MATCHED_BY_SOURCE in merge.matches
    kind = {
        (False, False): JoinType.INNER,
        (False, True): JoinType.LEFT,
        (True, False): JoinType.RIGHT,
        (True, True): JoinType.FULL,
    }[keeps_target, keeps_source]
    source = modify.from_[1]
    has_target = _is_there(session, TARGET, lookup.row_type(session, target.oid))
    quals, where = merge.joined_where(modify.where), None
    if modify.where is not None and keeps_target:  # rows of the target that cannot be seen are not kept either
        missing = replace(has_target, kind=NullTestType.IS_NULL)
        where = BoolExpr(oids.BOOL, op=BoolOp.OR, args=(missing, modify.where))
    has_source: Expr = Const(oids.BOOL, value=True)
    if keeps_target:
        tests = tuple(_is_there(session, varno, oids.RECORD) for varno in _relations(source))
        has_source = tests[0] if len(tests) == 1 else BoolExpr(oids.BOOL, op=BoolOp.OR, args=tests)
    exprs: list[Expr] = [Const(oids.TID), Const(oids.OID, value=target.oid), has_target, has_source]
    if target.kind != "v":
        exprs[:2] = [Var(oids.TID, varno=TARGET, attnum=PLACE), Var(oids.OID, varno=TARGET, attnum=TABLEOID)]
    exprs += [Const(oids.INT4) if a.dropped else column_of(target, a.num, 0) for a in target.attributes]
    carried = tuple(_carried(modify))
    query = Query(
        tuple(Target(expr, f"c{n}", n) for n, expr in enumerate((*exprs, *carried), 1)),
        modify.rtable,
        (Join(kind, source, RangeRef(TARGET), quals, 0),),
        where,
        ctes=modify.ctes,
        has_sublinks=True,
    )
    return Joined(within(query, modify), carried)


def _relations(source: RangeRef | Join) -> Iterator[int]:
    if isinstance(source, RangeRef):
        yield source.varno
    else:
        yield from _relations(source.left)
        yield from _relations(source.right)


def _is_there(session: Session, varno: int, rowtype: int) -> NullTest:
    """Whether an outer join has found a row of this relation."""
    return NullTest(oids.BOOL, arg=Var(rowtype, varno=varno, attnum=0), kind=NullTestType.IS_NOT_NULL, argisrow=False)


def _carried(modify: Modify) -> list[Var]:
    """The columns of the source that ON, the WHEN clauses and RETURNING use."""
    merge = modify.merge
    assert merge is not None
    exprs = [merge.condition, *(target.expr for target in modify.returning)]
    for action in merge.actions:
        exprs += [a.expr for a in action.assigned]
        if action.condition is not None:
            exprs.append(action.condition)
    found: dict[tuple[int, int], Var] = {}
    for expr in exprs:
        for node, depth in walk_deep(expr):
            if isinstance(node, Var) and node.levelsup == depth and node.varno != TARGET:
                found.setdefault((node.varno, node.attnum), replace(node, levelsup=0))
    return list(found.values())


def action_query(
    session: Session, modify: Modify, action: MergeAction, carried: Sequence[Var], rows: Sequence[tuple[Any, ...]]
) -> Query:
    """The query of a WHEN clause over a row of JOINED: the target's columns by attnum, tableoid, the carried columns.
    It returns the assigned values, of an INSERT the whole row; and no row when the condition is not true."""
    target = relation(session, modify.relid)
    values: list[Expr] = [a.expr for a in action.assigned]
    if action.command is Command.INSERT:
        given = {a.attnum: a.expr for a in action.assigned}
        values = [
            Const(oids.INT4) if a.dropped else given[a.num] if a.num in given else null_of(a) for a in target.attributes
        ]
    return _over_joined(session, modify, target, values, action.condition, carried, rows)


def condition_query(session: Session, modify: Modify, carried: Sequence[Var], rows: Sequence[tuple[Any, ...]]) -> Query:
    """ON over a row of JOINED: it returns a row when the condition is true."""
    assert modify.merge is not None
    target = relation(session, modify.relid)
    return _over_joined(session, modify, target, [], modify.merge.joined_where(modify.where), carried, rows)


def _over_joined(
    session: Session,
    modify: Modify,
    target: Relation,
    values: Sequence[Expr],
    where: Expr | None,
    carried: Sequence[Var],
    rows: Sequence[tuple[Any, ...]],
) -> Query:
    count = len(target.attributes)
    columns = [Column(a.name, a.type, a.typmod, a.collation, a.dropped) for a in target.attributes]
    columns.append(Column("tableoid", oids.OID))
    columns += [Column(f"c{n}", v.type, v.typmod, v.collation) for n, v in enumerate(carried)]
    places = {(v.varno, v.attnum): count + 2 + n for n, v in enumerate(carried)}

    def other(var: Var, depth: int) -> Expr | None:
        if var.varno != TARGET:
            return replace(var, varno=1, attnum=places[var.varno, var.attnum])
        if var.attnum > 0:
            return replace(var, varno=1)
        if var.attnum == 0:
            return whole_row(session, target, lambda n: column_of(target, n, depth))
        if var.attnum == TABLEOID:
            return replace(var, varno=1, attnum=count + 1)
        raise unsupported(f'system column "{SYSTEM_COLUMN_NAMES[var.attnum]}" in MERGE', location=var.location)

    exprs = [*values, *((where,) if where is not None else ())]
    links = any(isinstance(node, SubLink) for expr in exprs for node, _ in walk_deep(expr))
    query = Query(
        tuple(Target(map_level(expr, other), f"c{n}", n) for n, expr in enumerate(values or (Const(oids.INT4),), 1)),
        (rows_rte(JOINED, tuple(columns), rows),),
        (RangeRef(1),),
        map_level(where, other) if where is not None else None,
        ctes=modify.ctes if links else (),
        has_sublinks=links,
    )
    return within(query, modify) if links else query
