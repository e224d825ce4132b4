"""MERGE (transformMergeStmt).

The queries that a MERGE runs: one that joins the target with the source, and one for each WHEN clause.

MERGE INTO t USING s ON c …     →  SELECT place, tableoid, matched, t.a, t.b …, s.x … FROM s LEFT JOIN t ON c
WHEN MATCHED AND d THEN UPDATE  →  SELECT e FROM joined WHERE d
SET a = e
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.lookup import SYSTEM_COLUMN_NAMES, TABLEOID, var_of
from pgrepl.expr.analyse.queries.clauses import settle_collations, transform_returning
from pgrepl.expr.analyse.queries.ctes import transform_with
from pgrepl.expr.analyse.queries.insert import InsertSource, rows_rte
from pgrepl.expr.analyse.queries.query import transform_from
from pgrepl.expr.analyse.queries.update import SetClause, insert_columns, open_target
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.targets import expand_expressions
from pgrepl.expr.analyse.transform import analyze_where
from pgrepl.expr.catalog_trees import null_of
from pgrepl.expr.dml_tree import TARGET, Assignment, Command, Merge, MergeAction, MergeMatch, Modify
from pgrepl.expr.rewrite.dml_queries import (
    TargetRowsQuery,
    column_of,
    columns_beside,
    map_level,
    row_versions,
    shown_columns,
    whole_row,
    within,
)
from pgrepl.expr.tree import (
    PLACE,
    BoolExpr,
    CaseExpr,
    Column,
    Const,
    Expr,
    Join,
    NullTest,
    Query,
    RangeRef,
    Rte,
    RteKind,
    SubLink,
    Target,
    Var,
)
from pgrepl.expr.walk import location_of, varnos, walk_deep
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.frozen import frozen
from pgrepl.sql.nodes import BoolOp, JoinType, MergeStmt, MergeWhen, NullTestType
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_KINDS = {"m": "materialized views", "S": "sequences", "f": "foreign tables", "t": "TOAST tables"}


def analyze_merge(stmt: MergeStmt, scope: Scope) -> Modify:
    _check_reachable(stmt)
    if stmt.with_ is not None:
        if stmt.with_.recursive:
            raise PgError("42601", "WITH RECURSIVE is not supported for MERGE statement")
        transform_with(scope, stmt.with_)
    target = open_target(scope, stmt.relation, inh=stmt.relation.inh)
    if target.kind not in "rpv":
        detail = f"This operation is not supported for {_KINDS[target.kind]}."
        raise PgError("42809", f'cannot execute MERGE on relation "{target.name}"', detail=detail)
    from_ = transform_from(scope, (stmt.source,))
    item, source = scope.target_item, scope.namespace[-1]
    assert item is not None
    if item.name == source.name:
        raise PgError(
            "42712",
            f'name "{item.name}" specified more than once',
            detail="The name is used both as MERGE target table and data source.",
        )
    scope.show(item)
    condition = analyze_where(scope, stmt.condition, ExprKind.JOIN_ON, "JOIN/ON")
    settled = settle_collations(Query((), tuple(scope.rtable), from_, condition))
    assert settled.where is not None
    returning = transform_returning(scope, stmt.returning, ExprKind.MERGE_RETURNING)
    actions = []
    for when in stmt.whens:
        match = MergeMatch(when.match)
        for named_item, hidden in (
            (item, MergeMatch.NOT_MATCHED_BY_TARGET),
            (source, MergeMatch.NOT_MATCHED_BY_SOURCE),
        ):
            named_item.rel_visible = named_item.cols_visible = match is not hidden
        actions.append(_action(scope, target, when, match))
    return Modify(
        Command.MERGE,
        target.oid,
        tuple(scope.rtable),
        (RangeRef(TARGET), *settled.from_),
        named=frozenset(n for action in actions for n in action.named),
        returning=returning,
        ctes=tuple(cte.finished() for cte in scope.ctes),
        merge=Merge(settled.where, tuple(actions)),
    )


def _check_reachable(stmt: MergeStmt) -> None:
    unconditional: set[str] = set()
    for when in stmt.whens:
        if when.match in unconditional:
            raise PgError("42601", "unreachable WHEN clause specified after unconditional WHEN clause")
        if when.condition is None:
            unconditional.add(when.match)


def _refuse_sets(value: Expr) -> None:
    """As ExecInitFunc does: the values of an INSERT are computed for one row."""
    for node, depth in walk_deep(value):
        if not depth and getattr(node, "retset", False):
            message = "set-valued function called in context that cannot accept a set"
            raise PgError("0A000", message, location=location_of(node))


def _action(scope: Scope, target: Relation, when: MergeWhen, match: MergeMatch) -> MergeAction:
    condition: Expr | None = None
    if when.condition is not None:
        condition = assign_collations(analyze_where(scope, when.condition, ExprKind.MERGE_WHEN, "WHEN"))
    if when.action == "NOTHING":
        return MergeAction(match, None, condition)
    action = MergeAction(match, Command(when.action), condition)
    if when.action == "UPDATE":
        settled = SetClause(scope, target)
        assigned = settled.read(when.targets)
        return replace(
            action, assigned=assigned, named=frozenset(a.attnum for a in assigned), multi=tuple(settled.multi)
        )
    if when.action == "INSERT":
        columns = insert_columns(target, when.targets)
        row = expand_expressions(scope, when.values, ExprKind.VALUES_SINGLE, allow_default=True) if when.values else []
        for value in row:
            _refuse_sets(value)
        values = InsertSource(scope, target, columns, listed=bool(when.targets)).fitted(row) if row else []
        columns = columns[: len(values)]
        return replace(
            action,
            assigned=tuple(
                Assignment(column.attnum, assign_collations(value))
                for column, value in zip(columns, values, strict=True)
            ),
            named=frozenset(column.attnum for column in columns),
            overriding=when.overriding,
        )
    return action


# --- merge queries ----------------------------------------------------------------------------------------------------


JOINED = "*JOINED*"
_SIDES = {  # whether there are rows of the target and of the source
    MergeMatch.MATCHED: (True, True),
    MergeMatch.NOT_MATCHED_BY_SOURCE: (True, False),
    MergeMatch.NOT_MATCHED_BY_TARGET: (False, True),
}
FIRST = 4  # the position of the target's first column in a row of the join: behind place, tableoid and two tests


@frozen
class Joined:
    """The query that joins the target with the source. Its columns: place, tableoid, whether there is a row of the
    target, whether there is one of the source, the target's columns by attnum, and `carried`."""

    query: Query
    carried: tuple[Var, ...]


def joined_query(session: Session, modify: Modify, *, hidden: bool = False, on_spark: bool = False) -> Joined:
    """The join of target and source, outer on the sides whose rows without a match have an action
    (transform_MERGE_to_join). `hidden`: no row of the target can be seen."""
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
    carried = tuple(_carried(modify))
    has_target: NullTest = _not_null(Var(oids.TID, varno=TARGET, attnum=PLACE))
    placed = target.kind != "v" and not hidden
    if not placed:
        has_target = _not_null(Var(lookup.row_type(session, target.oid), varno=TARGET, attnum=0))
    quals, where = merge.joined_where(modify.where), None
    if modify.where is not None and keeps_target:  # rows of the target that cannot be seen are not kept either
        missing = replace(has_target, kind=NullTestType.IS_NULL)
        where = BoolExpr(oids.BOOL, op=BoolOp.OR, args=(missing, modify.where))
    has_source, rtable = (
        _there(modify, source, carried, on_spark) if keeps_target else (Const(oids.BOOL, value=True), None)
    )
    exprs: list[Expr] = [Const(oids.TID), Const(oids.OID, value=target.oid), has_target, has_source]
    if placed:
        exprs[:2] = [Var(oids.TID, varno=TARGET, attnum=PLACE), Var(oids.OID, varno=TARGET, attnum=TABLEOID)]
    exprs += [Const(oids.INT4) if a.dropped else column_of(target, a.num, 0) for a in target.attributes]
    query = Query(
        tuple(Target(expr, f"c{n}", n) for n, expr in enumerate((*exprs, *carried), 1)),
        rtable or modify.rtable,
        (Join(kind, source, RangeRef(TARGET), quals, 0),),
        where,
        ctes=modify.ctes,
        has_sublinks=True,
    )
    return Joined(within(query, modify), carried)


def _there(
    modify: Modify, source: RangeRef | Join, carried: Sequence[Var], on_spark: bool
) -> tuple[Expr, tuple[Rte, ...] | None]:
    """A test whether an outer join has found a row of the source, and the range table for it. Spark has no whole rows:
    there a relation that is used by its columns only becomes a subquery with one more."""
    if on_spark and isinstance(source, RangeRef) and not modify.ctes and not modify.around:
        entry = modify.rtable[source.varno - 1]
        by_columns = all(var.attnum > 0 for var in carried if var.varno == source.varno)
        if by_columns and entry.kind in (RteKind.RELATION, RteKind.SUBQUERY, RteKind.VALUES) and not entry.lateral:
            marked = _marked(entry)
            rtable = (*modify.rtable[: source.varno - 1], marked, *modify.rtable[source.varno :])
            return _not_null(Var(oids.BOOL, varno=source.varno, attnum=len(marked.columns))), rtable
    tests = tuple(_not_null(Var(oids.RECORD, varno=varno, attnum=0)) for varno in varnos(source))
    return (tests[0] if len(tests) == 1 else BoolExpr(oids.BOOL, op=BoolOp.OR, args=tests)), None


def _marked(entry: Rte) -> Rte:
    """The entry as a subquery with one more column, which is true."""
    columns = [Const(oids.INT4) if c.dropped else var_of(c, n) for n, c in enumerate(entry.columns, 1)]
    exprs = (*columns, Const(oids.BOOL, value=True))
    inner = Query(tuple(Target(expr, f"c{n}", n) for n, expr in enumerate(exprs, 1)), (entry,), (RangeRef(1),))
    return Rte(RteKind.SUBQUERY, entry.name, inner.columns, alias=entry.name, subquery=inner)


def _not_null(expr: Expr) -> NullTest:
    return NullTest(oids.BOOL, arg=expr, kind=NullTestType.IS_NOT_NULL, argisrow=False)


def _carried(modify: Modify) -> list[Var]:
    """The columns of the source that ON, the WHEN clauses and RETURNING use."""
    merge = modify.merge
    assert merge is not None
    exprs = [merge.condition, *(target.expr for target in modify.returning), *merge.exprs]
    return columns_beside(exprs, row_versions(modify))


@frozen
class _Layout:
    """The positions of columns in a row of the join: the target's column n is at `first` + n."""

    columns: tuple[Column, ...]
    first: int
    tableoid: int
    carried: int  # the position before the first of them


def _shown_layout(target: Relation, carried: Sequence[Var]) -> _Layout:
    """The layout of a row that a WHEN clause looks at: the target's columns by attnum, tableoid, the carried
    columns."""
    count = len(target.attributes)
    return _Layout(tuple(shown_columns(target, carried)), 0, count + 1, count + 1)


def action_query(
    session: Session, modify: Modify, action: MergeAction, carried: Sequence[Var], rows: Sequence[tuple[Any, ...]]
) -> Query:
    """The query of a WHEN clause over a row of JOINED. It returns the assigned values, of an INSERT the whole row; and
    no row when the condition is not true."""
    target = relation(session, modify.relid)
    layout = _shown_layout(target, carried)
    values = _values(target, action)
    return _over(
        session, modify, rows_rte(JOINED, layout.columns, rows), layout, carried, values, where=action.condition
    )


def _values(target: Relation, action: MergeAction) -> list[Expr]:
    if action.command is not Command.INSERT:
        return [a.expr for a in action.assigned]
    given = {a.attnum: a.expr for a in action.assigned}
    return [
        Const(oids.INT4) if a.dropped else given[a.num] if a.num in given else null_of(a) for a in target.attributes
    ]


def condition_query(session: Session, modify: Modify, carried: Sequence[Var], rows: Sequence[tuple[Any, ...]]) -> Query:
    """ON over a row of JOINED: it returns a row when the condition is true."""
    assert modify.merge is not None
    layout = _shown_layout(relation(session, modify.relid), carried)
    condition = modify.merge.joined_where(modify.where)
    return _over(session, modify, rows_rte(JOINED, layout.columns, rows), layout, carried, [], where=condition)


def _over(
    session: Session,
    modify: Modify,
    entry: Rte,
    layout: _Layout,
    carried: Sequence[Var],
    values: Sequence[Expr],
    where: Expr | None = None,
) -> Query:
    """A query over rows of the join."""
    target = relation(session, modify.relid)
    places = {(v.varno, v.attnum): layout.carried + n for n, v in enumerate(carried, 1)}

    def column(attnum: int, depth: int) -> Var:
        return replace(column_of(target, attnum, depth), attnum=layout.first + attnum)

    def other(var: Var, depth: int) -> Expr | None:
        if var.varno != TARGET:
            return replace(var, varno=1, attnum=places[var.varno, var.attnum])
        if var.attnum > 0:
            return replace(var, varno=1, attnum=layout.first + var.attnum)
        if var.attnum == 0:
            return whole_row(session, target, lambda n: column(n, depth))
        if var.attnum == TABLEOID:
            return replace(var, varno=1, attnum=layout.tableoid)
        if var.attnum == PLACE:
            return replace(var, varno=1, attnum=1)
        raise unsupported(f'system column "{SYSTEM_COLUMN_NAMES[var.attnum]}" in MERGE', location=var.location)

    exprs = [*values, *((where,) if where is not None else ())]
    links = any(isinstance(node, SubLink) for expr in exprs for node, _ in walk_deep(expr))
    query = Query(
        tuple(Target(map_level(expr, other), f"c{n}", n) for n, expr in enumerate(values or (Const(oids.INT4),), 1)),
        (entry,),
        (RangeRef(1),),
        map_level(where, other) if where is not None else None,
        ctes=modify.ctes if links else (),
        has_sublinks=links,
    )
    return within(query, modify) if links else query


# --- all rows at once -------------------------------------------------------------------------------------------------


def numbered_query(session: Session, modify: Modify, joined: Joined) -> Query:
    """The rows of the join, and behind them the number of the action that each needs, counted from 1; 0: none."""
    assert modify.merge is not None
    actions, layout = modify.merge.actions, _joined_layout(session, modify, joined.query.columns)
    entry = Rte(RteKind.SUBQUERY, JOINED, layout.columns, alias=JOINED, subquery=joined.query)
    tests = [action.condition or Const(oids.BOOL, value=True) for action in actions]
    query = _over(session, modify, entry, layout, joined.carried, tests)
    there = [Var(oids.BOOL, varno=1, attnum=n) for n in (3, 4)]
    kinds: list[tuple[Expr, Expr]] = []
    for match, sides in _SIDES.items():
        numbers = [(target.expr, _int(n)) for n, target in enumerate(query.targets, 1) if actions[n - 1].match is match]
        if numbers:
            same = tuple(_is(test, wanted) for test, wanted in zip(there, sides, strict=True))
            first = CaseExpr(oids.INT4, whens=tuple(numbers), default=_int(0))
            kinds.append((BoolExpr(oids.BOOL, op=BoolOp.AND, args=same), first))
    columns = [var_of(c, n) for n, c in enumerate(layout.columns, 1)]
    exprs = (*columns, CaseExpr(oids.INT4, whens=tuple(kinds), default=_int(0)))
    return replace(query, targets=tuple(Target(expr, f"c{n}", n) for n, expr in enumerate(exprs, 1)))


def _is(test: Expr, wanted: bool) -> Expr:
    return test if wanted else BoolExpr(oids.BOOL, op=BoolOp.NOT, args=(test,))


def _int(value: int) -> Const:
    return Const(oids.INT4, value=value)


def staged_query(
    session: Session, modify: Modify, joined: Joined, action: MergeAction, rows: Sequence[tuple[Any, ...]]
) -> TargetRowsQuery:
    """The query of an action over all rows of `numbered_query` that need it. An INSERT gives whole rows; else it gives
    what `found_query` gives, of a DELETE no columns of the old row."""
    target = relation(session, modify.relid)
    layout = _joined_layout(session, modify, (*joined.query.columns, Column("action", oids.INT4)))
    values = _values(target, action)
    kept: tuple[int, ...] = ()
    if action.command is not Command.INSERT:
        kept = tuple(a.num for a in target.columns) if action.command is Command.UPDATE else ()
        own = [column_of(target, n, 0) for n in kept]
        values = [
            Var(oids.TID, varno=TARGET, attnum=PLACE),
            Var(oids.OID, varno=TARGET, attnum=TABLEOID),
            *own,
            *values,
        ]
    entry = rows_rte(JOINED, layout.columns, rows)
    query = _over(session, modify, entry, layout, joined.carried, values)
    return TargetRowsQuery(query, kept, tuple(a.attnum for a in action.assigned))


def _joined_layout(session: Session, modify: Modify, columns: tuple[Column, ...]) -> _Layout:
    count = len(relation(session, modify.relid).attributes)
    return _Layout(columns, FIRST, 2, FIRST + count)
