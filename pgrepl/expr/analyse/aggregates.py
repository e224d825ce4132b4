"""Aggregates and window functions: what their arguments may contain, and which query level they belong to
(parse_agg.c)."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.kinds import ExprKind, aggregate_refused, window_refused
from pgrepl.expr.analyse.operators import MAX_ARGUMENTS
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.sorting import TargetList, add_sort_key, transform_distinct, transform_sort
from pgrepl.expr.analyse.transform import same_text, transform
from pgrepl.expr.tree import Aggref
from pgrepl.expr.walk import location_of, query_parts, walk, walk_deep
from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.sql.nodes import FuncCall, WindowDef
from pgrepl.types import builtin, oids
from pgrepl.types.builtin import Proc

NESTED = "aggregate function calls cannot be nested"


def make_aggregate(
    scope: Scope,
    call: FuncCall,
    proc: Proc,
    result: int,
    args: list[tree.Expr],
    agg_filter: tree.Expr | None,
    variadic: bool,
    named: bool,
) -> Aggref:
    """The Aggref of a call, checked as the end of ParseFuncOrColumn and transformAggregateCall do."""
    location = call.location
    if len(args) >= MAX_ARGUMENTS:
        raise PgError("54023", f"aggregates cannot have more than {MAX_ARGUMENTS - 1} arguments", location=location)
    if not args and not call.star and not call.within_group:
        message = f"{'.'.join(call.name)}(*) must be used to call a parameterless aggregate function"
        raise PgError("42809", message, location=location)
    if named:
        raise PgError("0A000", "aggregates cannot use named arguments", location=location)
    aggregate = builtin.aggregate_by_oid(proc.oid)
    assert aggregate is not None
    direct: list[tree.Expr] = []
    if aggregate.kind != "n":
        count = len(args) - len(call.agg_order)
        direct, args = args[:count], args[count:]
    targets = TargetList([tree.Target(arg, "", n) for n, arg in enumerate(args, 1)])
    keys: list[tree.SortGroup] = []
    distinct: list[tree.SortGroup] = []
    if aggregate.kind != "n":
        for target, item in zip(list(targets.items), call.agg_order, strict=True):
            add_sort_key(scope, target, keys, targets, item)
    else:
        saved, scope.next_resno = scope.next_resno, len(args) + 1
        keys = transform_sort(scope, call.agg_order, targets, ExprKind.ORDER_BY, by_expression=True)
        if call.distinct:
            distinct = transform_distinct(scope, targets, keys, aggregate=True)
            _check_sortable(scope, targets, distinct)
        scope.next_resno = saved
    node = Aggref(
        result,
        location=location,
        func=proc.oid,
        args=tuple(t.expr for t in targets.items if not t.junk),
        order=tuple(tree.AggOrder(targets[k.resno].expr, k.eqop, k.sortop, k.descending, k.nulls_first) for k in keys),
        distinct=bool(distinct),
        filter=agg_filter,
        star=call.star,
        variadic=variadic,
        direct_args=tuple(direct),
        kind=aggregate.kind,
    )
    level = _level(node.args + tuple(o.expr for o in node.order), agg_filter, node.direct_args, location)
    _register(scope, level, "aggregate functions", location)
    return replace(node, levelsup=level)


def _check_sortable(scope: Scope, targets: TargetList, keys: list[tree.SortGroup]) -> None:
    for key in keys:
        if not key.sortop:
            expr = targets[key.resno].expr
            text = lookup.type_text(scope.session, expr.type)
            raise PgError(
                "42883",
                f"could not identify an ordering operator for type {text}",
                detail="Aggregates with DISTINCT must be able to sort their inputs.",
                location=location_of(expr),
            )


def make_grouping(scope: Scope, node: nodes.GroupingFunc) -> tree.GroupingFunc:
    """GROUPING(…), as transformGroupingFunc does."""
    if len(node.args) > 31:
        raise PgError("54023", "GROUPING must have fewer than 32 arguments", location=node.location)
    args = tuple(transform(scope, arg, scope.kind) for arg in node.args)
    level = _level(args, None, (), node.location)
    _register(scope, level, "grouping operations", node.location)
    return tree.GroupingFunc(oids.INT4, location=node.location, args=args, levelsup=level)


def _register(scope: Scope, level: int, what: str, location: int) -> None:
    """Count an aggregate at the query level of its columns; refuse it where that level allows none
    (check_agglevels…)."""
    home = scope.up(level)
    home.has_aggregates = True
    problem = aggregate_refused(home.kind, what, location)
    if problem is not None:
        raise problem


class _Levels:
    """The nearest query levels that columns, aggregates and WITH queries inside an aggregate refer to."""

    def __init__(self) -> None:
        self.var = self.aggregate = self.cte = -1
        self.cte_name = ""

    def examine(self, expr: tree.Expr, depth: int = 0) -> None:
        for node in walk(expr):
            if isinstance(node, tree.Var):
                self.var = _nearer(self.var, node.levelsup - depth)
            elif isinstance(node, (Aggref, tree.GroupingFunc)):
                self.aggregate = _nearer(self.aggregate, node.levelsup - depth)
            elif depth == 0 and isinstance(node, (tree.FuncExpr, tree.OpExpr)) and node.retset:
                raise PgError(
                    "0A000",
                    "aggregate function calls cannot contain set-returning function calls",
                    hint="You might be able to move the set-returning function into a LATERAL FROM item.",
                    location=location_of(node),
                )
            elif depth == 0 and isinstance(node, tree.WindowFunc):
                message = "aggregate function calls cannot contain window function calls"
                raise PgError("42803", message, location=node.location)
            if isinstance(node, tree.SubLink) and node.query is not None:
                self.examine_query(node.query, depth + 1)

    def examine_query(self, query: tree.Query, depth: int) -> None:
        for rte in query.rtable:
            if rte.kind is tree.RteKind.CTE:
                level = rte.cte_levelsup - depth
                if _nearer(self.cte, level) != self.cte:
                    self.cte, self.cte_name = level, rte.name
        for part in query_parts(query):
            if isinstance(part, tree.Query):
                self.examine_query(part, depth + 1)
            else:
                self.examine(part, depth)


def _nearer(known: int, level: int) -> int:
    return level if level >= 0 and (known < 0 or level < known) else known


def _level(
    args: tuple[tree.Expr, ...], agg_filter: tree.Expr | None, direct: tuple[tree.Expr, ...], location: int
) -> int:
    """The level an aggregate belongs to (check_agg_arguments)."""
    inside = (*args, agg_filter) if agg_filter is not None else args
    levels = _Levels()
    for expr in inside:
        levels.examine(expr)
    if levels.var < 0:
        level = max(levels.aggregate, 0)
    else:
        level = levels.var if levels.aggregate < 0 else min(levels.var, levels.aggregate)
    if level == levels.aggregate:
        raise PgError("42803", NESTED, location=locate_aggregate(inside, level))
    _check_cte(levels, level, location)
    if direct:
        levels = _Levels()
        for expr in direct:
            levels.examine(expr)
        if 0 <= levels.var < level:
            message = "outer-level aggregate cannot contain a lower-level variable in its direct arguments"
            raise PgError("42803", message, location=locate_var(direct, levels.var))
        if 0 <= levels.aggregate <= level:
            raise PgError("42803", NESTED, location=locate_aggregate(direct, levels.aggregate))
        _check_cte(levels, level, location)
    return level


def _check_cte(levels: _Levels, level: int, location: int) -> None:
    if 0 <= levels.cte < level:
        raise PgError(
            "0A000",
            "outer-level aggregate cannot use a nested CTE",
            detail=f'CTE "{levels.cte_name}" is below the aggregate\'s semantic level.',
            location=location,
        )


def locate_aggregate(exprs: tuple[tree.Expr, ...], level: int) -> int:
    """Where the first aggregate of a level stands (locate_agg_of_level)."""
    for expr in exprs:
        for node, depth in walk_deep(expr):
            if isinstance(node, (Aggref, tree.GroupingFunc)) and node.levelsup == level + depth and node.location >= 0:
                return node.location
    return -1


def locate_var(exprs: tuple[tree.Expr, ...], level: int) -> int:
    """Where the first column of a level stands (locate_var_of_level)."""
    for expr in exprs:
        for node, depth in walk_deep(expr):
            if isinstance(node, tree.Var) and node.levelsup == level + depth and node.location >= 0:
                return node.location
    return -1


def place_window_function(scope: Scope, node: tree.WindowFunc, over: WindowDef) -> tree.WindowFunc:
    """The WindowFunc with the index of its window among the scope's `window_defs`; a new window is added to them
    (transformWindowFuncCall)."""
    if scope.has_window_functions:
        for arg in node.args:
            for inner in walk(arg):
                if isinstance(inner, tree.WindowFunc):
                    message = "window function calls cannot be nested"
                    raise PgError("42P20", message, location=inner.location)
    problem = window_refused(scope.kind, node.location)
    if problem is not None:
        raise problem
    scope.has_window_functions = True
    if over.over_name:
        for number, known in enumerate(scope.window_defs):
            if known.name is not None and known.name == over.refname:
                return replace(node, window=number)
        raise PgError("42704", f'window "{over.refname}" does not exist', location=over.location)
    for number, known in enumerate(scope.window_defs):
        if (
            known.refname == over.refname
            and same_text(known.partition, over.partition)
            and same_text(known.order, over.order)
            and same_text(known.frame, over.frame)
        ):
            return replace(node, window=number)
    scope.window_defs.append(over)
    return replace(node, window=len(scope.window_defs) - 1)
