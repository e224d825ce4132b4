"""Clauses that queries share: JOIN (transformFromClauseItem), WITH, LIMIT, RETURNING."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pgrepl.catalog.facts.relation import relation
from pgrepl.expr import tree
from pgrepl.expr.analyse.aggregates import locate_var
from pgrepl.expr.analyse.casts import Context
from pgrepl.expr.analyse.coerce import (
    IMPLICIT_CAST,
    coerce_to_boolean,
    coerce_to_specific,
    coerce_type,
    common_type,
    common_typmod,
)
from pgrepl.expr.analyse.collate import assign_collations, assign_target_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.lookup import relation_rte
from pgrepl.expr.analyse.operators import make_operator
from pgrepl.expr.analyse.queries.ctes import transform_with
from pgrepl.expr.analyse.scope import NsColumn, NsItem, Scope, check_name_conflicts, column_var, set_lateral
from pgrepl.expr.analyse.targets import mark_origins, resolve_unknowns, transform_targets
from pgrepl.expr.analyse.transform import analyze_where, transform
from pgrepl.expr.walk import has_vars, walk_deep
from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.sql.location import expr_location
from pgrepl.sql.nodes import AConst, AConstKind, BoolOp, FromItem, JoinExpr, JoinType, ReturningClause, SelectStmt
from pgrepl.types import oids

_UNNAMED = "unnamed_join"
_INNER = (JoinType.INNER, JoinType.CROSS)


# the join tree's node, what `*` stands for, and the names it brings
Read = tuple[tree.RangeRef | tree.Join, NsItem, list[NsItem]]


def transform_join(scope: Scope, item: JoinExpr, transform_item: Callable[[Scope, FromItem], Read]) -> Read:
    """Analyse a join; `transform_item` analyses its two sides."""
    left, left_item, left_names = transform_item(scope, item.left)
    set_lateral(left_names, True, item.kind in (*_INNER, JoinType.LEFT))
    known = len(scope.namespace)
    scope.namespace += left_names
    right, right_item, right_names = transform_item(scope, item.right)
    del scope.namespace[known:]
    check_name_conflicts(left_names, right_names)
    namespace = left_names + right_names
    using = _natural(left_item, right_item) if item.natural else item.using
    pairs = _using_pairs(using, left_item, right_item)
    quals = None
    if using:
        quals = _using_condition(scope, pairs, left_item, right_item)
    elif item.quals is not None:
        set_lateral(namespace, False, True)
        saved, scope.namespace = scope.namespace, namespace
        quals = analyze_where(scope, item.quals, ExprKind.JOIN_ON, "JOIN/ON")
        scope.namespace = saved
    added = _join_item(scope, item, using, pairs, left_item, right_item)
    namespace = _visible_names(item, using, added, namespace)
    node = tree.Join(item.kind, left, right, quals, added.varno, item.natural, tuple(using))
    return node, added, namespace


def _natural(left: NsItem, right: NsItem) -> tuple[str, ...]:
    return tuple(name for name in left.names if name and name in right.names)


def _using_pairs(using: Sequence[str], left: NsItem, right: NsItem) -> list[tuple[int, int]]:
    """The attnums of the columns that USING merges."""
    pairs: list[tuple[int, int]] = []
    for number, name in enumerate(using):
        if name in using[:number]:
            raise PgError("42701", f'column name "{name}" appears more than once in USING clause')
        pairs.append((_using_column(name, left, "left"), _using_column(name, right, "right")))
    return pairs


def _using_column(name: str, item: NsItem, side: str) -> int:
    attnums = [attnum for attnum, own in enumerate(item.names, 1) if own == name]
    if len(attnums) > 1:
        raise PgError("42702", f'common column name "{name}" appears more than once in {side} table')
    if not attnums:
        raise PgError("42703", f'column "{name}" specified in USING clause does not exist in {side} table')
    return attnums[0]


def _var(item: NsItem, attnum: int) -> tree.Var:
    return column_var(item.columns[attnum - 1], 0, -1)


def _using_condition(scope: Scope, pairs: Sequence[tuple[int, int]], left: NsItem, right: NsItem) -> tree.Expr:
    """The condition that JOIN … USING stands for (transformJoinUsingClause)."""
    saved, scope.kind = scope.kind, ExprKind.JOIN_USING
    tests = tuple(make_operator(scope, ("=",), _var(left, a), _var(right, b), -1) for a, b in pairs)
    if len(tests) == 1:
        condition = coerce_to_boolean(scope, tests[0], "JOIN/USING")
    else:
        args = tuple(coerce_to_boolean(scope, test, "AND") for test in tests)
        condition = tree.BoolExpr(oids.BOOL, op=BoolOp.AND, args=args)
    scope.kind = saved
    return condition


def _merged(scope: Scope, kind: JoinType, left: tree.Var, right: tree.Var) -> tree.Expr:
    """The expression of a merged column: the side that is not nullable, or COALESCE of both (buildMergedJoinVar)."""
    typoid = common_type(scope, [left, right], "JOIN/USING")
    typmod = common_typmod([left, right], typoid)
    one, other = (_as_merged(scope, var, typoid, typmod) for var in (left, right))
    result: tree.Expr
    if kind in _INNER:
        result = one if isinstance(one, tree.Var) or not isinstance(other, tree.Var) else other
    elif kind is JoinType.LEFT:
        result = one
    elif kind is JoinType.RIGHT:
        result = other
    else:
        result = tree.CoalesceExpr(typoid, typmod=typmod, args=(one, other))
    return assign_collations(result)


def _as_merged(scope: Scope, var: tree.Var, typoid: int, typmod: int) -> tree.Expr:
    if var.type != typoid:
        return coerce_type(scope, var, var.type, typoid, typmod, Context.IMPLICIT, IMPLICIT_CAST, -1)
    if var.typmod != typmod:
        return tree.RelabelType(typoid, typmod=typmod, arg=var)
    return var


def _join_item(
    scope: Scope, item: JoinExpr, using: Sequence[str], pairs: Sequence[tuple[int, int]], left: NsItem, right: NsItem
) -> NsItem:
    varno = len(scope.rtable) + 1
    names: list[str] = list(using)
    values: list[tree.Expr] = []
    columns: list[NsColumn] = []
    left_attnums = [a for a, _ in pairs]
    right_attnums = [b for _, b in pairs]
    for number, (a, b) in enumerate(pairs, 1):
        one, other = _var(left, a), _var(right, b)
        merged = _merged(scope, item.kind, one, other)
        values.append(merged)
        if merged == one:
            columns.append(left.columns[a - 1])
        elif merged == other:
            columns.append(right.columns[b - 1])
        else:
            columns.append(NsColumn(varno, number, merged.type, merged.typmod, merged.collation))
    for side, attnums, others in ((left, left_attnums, right_attnums), (right, right_attnums, left_attnums)):
        taken = set(attnums[: len(pairs)])
        for attnum, name in enumerate(side.names, 1):
            if name and attnum not in taken:
                names.append(name)
                values.append(_var(side, attnum))
                columns.append(side.columns[attnum - 1])
                attnums.append(attnum)
                others.append(0)
    alias = item.alias
    if alias is not None:
        columns = [replace(c, varno_written=varno, attnum_written=n) for n, c in enumerate(columns, 1)]
    refname = alias.name if alias is not None else _UNNAMED
    given = alias.columns if alias is not None else ()
    if len(given) > len(names):
        raise PgError(
            "42P10",
            f'join expression "{refname}" has {len(names)} columns available but {len(given)} columns specified',
        )
    names[: len(given)] = given
    rte = tree.Rte(
        tree.RteKind.JOIN,
        refname,
        tuple(
            tree.Column(name, value.type, value.typmod, value.collation)
            for name, value in zip(names, values, strict=True)
        ),
        alias=alias.name if alias is not None else None,
        alias_columns=given,
        join_using=tuple(using),
        join_using_alias=item.using_alias.name if item.using_alias is not None else None,
        join_vars=tuple(values),
        join_left=tuple(left_attnums),
        join_right=tuple(right_attnums),
    )
    scope.rtable.append(rte)
    return NsItem(refname, tuple(names), rte, varno, tuple(columns))


def _visible_names(item: JoinExpr, using: Sequence[str], added: NsItem, namespace: list[NsItem]) -> list[NsItem]:
    """The names visible behind a join. An alias hides the tables inside; without one their names stay, but their
    columns only qualified."""
    if item.using_alias is not None:
        columns = added.columns[: len(using)]
        merged = NsItem(item.using_alias.name, tuple(using), added.rte, added.varno, columns, whole=False)
        check_name_conflicts([merged], namespace)
        namespace = [*namespace, merged]
    if item.alias is not None:
        namespace = []
    else:
        for name in namespace:
            name.cols_visible = False
    added.rel_visible = item.alias is not None
    return [*namespace, added]


# --- clauses ----------------------------------------------------------------------------------------------------------


def read_with(stmt: SelectStmt, scope: Scope) -> bool:
    """Analyse the WITH list. Returns whether it is recursive."""
    if stmt.with_ is None:
        return False
    transform_with(scope, stmt.with_)
    return stmt.with_.recursive


def refuse_into(stmt: SelectStmt) -> None:
    if stmt.into is not None:
        raise PgError("42601", "SELECT ... INTO is not allowed here", location=stmt.into.location)


def analyze_limit(scope: Scope, node: nodes.Expr | None, kind: ExprKind, stmt: SelectStmt) -> tree.Expr | None:
    """LIMIT or OFFSET: a bigint without columns of the query (transformLimitClause)."""
    if node is None:
        return None
    expr = coerce_to_specific(scope, transform(scope, node, kind), oids.INT8, kind.title)
    check_no_columns(expr, kind.title)
    if kind is ExprKind.LIMIT and stmt.with_ties and isinstance(node, AConst) and node.kind is AConstKind.NULL:
        raise PgError("2201W", "row count cannot be null in FETCH FIRST ... WITH TIES clause")
    return expr


def check_no_columns(expr: tree.Expr, construct: str) -> None:
    if has_vars(expr):
        message = f"argument of {construct} must not contain variables"
        raise PgError("42P10", message, location=locate_var((expr,), 0))


def settle_collations(query: tree.Query) -> tree.Query:
    """Assign collations as assign_query_collations does. Subqueries in FROM already have theirs; join conditions do
    not."""
    keys = {key.resno for keys in _key_lists(query) for key in keys}

    def settled(expr: tree.Expr | None) -> tree.Expr | None:
        return assign_collations(expr) if expr is not None else None

    return replace(
        query,
        targets=tuple(replace(t, expr=assign_target_collations(t.expr, is_key=t.resno in keys)) for t in query.targets),
        from_=tuple(_settled_join(item) for item in query.from_),
        where=settled(query.where),
        having=settled(query.having),
        limit=settled(query.limit),
        offset=settled(query.offset),
        windows=tuple(
            replace(w, start_offset=settled(w.start_offset), end_offset=settled(w.end_offset)) for w in query.windows
        ),
    )


def _key_lists(query: tree.Query) -> list[tuple[tree.SortGroup, ...]]:
    lists = [query.sort, query.group, query.distinct or ()]
    for window in query.windows:
        lists += [window.partition, window.order]
    return lists


def _settled_join(item: tree.RangeRef | tree.Join) -> tree.RangeRef | tree.Join:
    if isinstance(item, tree.RangeRef):
        return item
    return replace(
        item,
        left=_settled_join(item.left),
        right=_settled_join(item.right),
        quals=assign_collations(item.quals) if item.quals is not None else None,
    )


def transform_returning(
    scope: Scope, clause: ReturningClause | None, kind: ExprKind = ExprKind.RETURNING
) -> tuple[tree.Target, ...]:
    """The select list of RETURNING (transformReturningClause)."""
    if clause is None:
        return ()
    saved, scope.next_resno = scope.next_resno, 1
    versions = _show_versions(scope, clause)
    targets = mark_origins(scope, transform_targets(scope, clause.targets, kind))
    _hide_versions(scope, versions, targets)
    if not targets:
        location = expr_location(clause.targets[0].value)
        raise PgError("42601", "RETURNING must have at least one column", location=location)
    if scope.resolve_unknowns:
        targets = resolve_unknowns(scope, targets)
    scope.next_resno = saved
    return tuple(tree.Target(assign_collations(t.expr), t.name, t.resno, origin=t.origin) for t in targets)


def _show_versions(scope: Scope, clause: ReturningClause) -> list[NsItem]:
    """Let RETURNING name the row before and after the change, as 18 does, by the names that it gives them, or by old
    and new where these mean nothing else."""
    target = scope.target_item
    if scope.session.settings.release < 18 and clause.versions:
        raise PgError("42601", 'syntax error at or near "WITH"', location=clause.location)
    if target is None or scope.session.settings.release < 18:
        return []
    shown = {item.name for item in scope.namespace if item.rel_visible}
    names: dict[str, str] = {}
    for given in clause.versions:
        if given.alias in shown or given.alias in names.values():
            message = f'table name "{given.alias}" specified more than once'
            raise PgError("42712", message, location=given.location)
        if given.name in names:
            message = f"{given.name.upper()} cannot be specified multiple times"
            raise PgError("42601", message, location=given.location)
        names[given.name] = given.alias
    items = []
    for version in ("old", "new"):
        if version in names or version not in (*shown, *names.values()):
            table = relation(scope.session, target.rte.relid)
            rte = replace(relation_rte(table, names.get(version, version)), version=version)
            items.append(scope.add_rte(rte))
            scope.show(items[-1], cols=False)
    return items


def _hide_versions(scope: Scope, versions: Sequence[NsItem], targets: Sequence[tree.Target]) -> None:
    """Take the names away again, and entries that nothing has used."""
    used = {
        node.varno
        for target in targets
        for node, depth in walk_deep(target.expr)
        if isinstance(node, tree.Var) and node.levelsup == depth
    }
    for item in reversed(versions):
        scope.namespace.remove(item)
        if item.varno not in used and item.varno == len(scope.rtable):
            scope.rtable.pop()
