"""GROUP BY with ROLLUP, CUBE and GROUPING SETS, and its rule: a column must be grouped by, depend on a grouped key, or
be inside an aggregate (parseCheckAggregates); and window definitions (parse_clause.c, parse_agg.c).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.aggregates import locate_aggregate
from pgrepl.expr.analyse.casts import Context
from pgrepl.expr.analyse.coerce import can_coerce_one, coerce_to_specific
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.lookup import SYSTEM_COLUMN_NAMES
from pgrepl.expr.analyse.queries.clauses import check_no_columns
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.sorting import (
    TargetList,
    add_group_key,
    find_by_expression,
    find_by_name_or_position,
    in_sort_list,
    transform_sort,
)
from pgrepl.expr.analyse.transform import transform
from pgrepl.expr.walk import children, first_location, location_of, query_exprs, query_parts, rewrite
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql import nodes
from pgrepl.sql.location import expr_location
from pgrepl.sql.nodes import GroupingKind, GroupingSet, WindowDef, WindowFrame
from pgrepl.types import builtin, oids

MAX_SETS = 4096

# an item after flattening: an expression, a list of them (columns that belong together), or a grouping set
_Item = object


@frozen
class _Set:
    kind: GroupingKind
    content: tuple[_Item, ...]
    location: int


class _Reader:
    def __init__(
        self, scope: Scope, targets: TargetList, sort: Sequence[tree.SortGroup], kind: ExprKind, by_expression: bool
    ) -> None:
        self.scope, self.targets, self.sort, self.kind = scope, targets, sort, kind
        self.find = find_by_expression if by_expression else find_by_name_or_position
        self.keys: list[tree.SortGroup] = []

    def key(self, node: nodes.Expr, seen: set[int], *, top: bool) -> int:
        """The resno of a grouping expression; 0: it is in the list already (transformGroupClauseExpr)."""
        target = self.find(self.scope, node, self.targets, self.kind)
        if target.resno in seen:
            return 0
        if in_sort_list(target.resno, 0, self.keys):
            return target.resno
        for known in self.sort:
            if known.resno == target.resno:
                self.keys.append(known if top else replace(known, nulls_first=False))
                return target.resno
        add_group_key(self.scope, target, self.keys, self.targets, expr_location(node))
        return target.resno

    def group(self, item: _Item) -> tree.GroupSet:
        """One grouping set: keys, a list, ROLLUP, CUBE or nested sets (transformGroupingSet)."""
        if isinstance(item, _Set):
            content = tuple(self.group(part) for part in item.content)
            if item.kind is GroupingKind.CUBE and len(content) > 12:
                raise PgError("54011", "CUBE is limited to 12 elements", location=item.location)
            return tree.GroupSet(item.kind, content)
        parts = item if isinstance(item, tuple) else (item,)
        seen: set[int] = set()
        resnos: list[int] = []
        for part in parts:
            resno = self.key(part, seen, top=False)
            if resno:
                seen.add(resno)
                resnos.append(resno)
        return tree.GroupSet(None, tuple(resnos))


def transform_group(
    scope: Scope,
    group_by: Sequence[nodes.Expr],
    targets: TargetList,
    sort: Sequence[tree.SortGroup],
    kind: ExprKind,
    *,
    by_expression: bool = False,
) -> tuple[list[tree.SortGroup], tuple[tree.GroupSet, ...] | None]:
    """The keys, and the grouping sets if there are any (transformGroupClause)."""
    reader = _Reader(scope, targets, sort, kind, by_expression)
    flat, has_sets = _flatten_top(group_by)
    if not flat and has_sets:
        return [], (tree.GroupSet(GroupingKind.EMPTY),)
    sets: list[tree.GroupSet] = []
    seen: set[int] = set()
    for item in flat:
        if isinstance(item, _Set):
            sets.append(tree.GroupSet(GroupingKind.EMPTY) if item.kind is GroupingKind.EMPTY else reader.group(item))
            continue
        assert isinstance(item, nodes.Expr)
        resno = reader.key(item, seen, top=True)
        if resno:
            seen.add(resno)
            if has_sets:
                sets.append(tree.GroupSet(None, (resno,)))
    return reader.keys, tuple(sets) if has_sets else None


def _flatten_top(group_by: Sequence[nodes.Expr]) -> tuple[list[_Item], bool]:
    """Flatten the top level: (a, b) is a and b; () beside other items is nothing (flatten_grouping_sets)."""
    result: list[_Item] = []
    has_sets = False
    for node in group_by:
        if isinstance(node, GroupingSet):
            has_sets = True
            if node.kind is not GroupingKind.EMPTY:
                result.append(_Set(node.kind, tuple(_contents(node)), node.location))
        elif isinstance(node, nodes.RowExpr) and not node.explicit:
            result += _flat_list(node)
        else:
            result.append(node)
    return result, has_sets


def _contents(node: GroupingSet) -> list[_Item]:
    """The contents of a set; nested GROUPING SETS are flattened by one level."""
    result: list[_Item] = []
    for part in node.content:
        if isinstance(part, GroupingSet):
            if part.kind is GroupingKind.SETS:
                result += _contents(part)
            else:
                result.append(_Set(part.kind, tuple(_contents(part)), part.location))
        elif isinstance(part, nodes.RowExpr) and not part.explicit:
            result.append(tuple(_flat_list(part)))
        else:
            result.append(part)
    return result


def _flat_list(node: nodes.RowExpr) -> list[nodes.Expr]:
    result: list[nodes.Expr] = []
    for part in node.args:
        if isinstance(part, nodes.RowExpr) and not part.explicit:
            result += _flat_list(part)
        else:
            result.append(part)
    return result


# --- expansion ----------------------------------------------------------------------------------------------------


def expand(clause: Sequence[tree.GroupSet], distinct: bool, location: int) -> tree.GroupingSets:
    """All sets of columns that the clause asks for, smallest first (expand_grouping_sets)."""
    result: list[tuple[int, ...]] = [()]
    for item in clause:
        own = _expanded(item)
        if len(result) * len(own) > MAX_SETS:
            message = f"too many grouping sets present (maximum {MAX_SETS})"
            raise PgError("54001", message, location=location)
        result = [_union(one, other) for one in result for other in own]
    if distinct:
        result = sorted({tuple(sorted(s)) for s in result})
    result.sort(key=len)
    return tree.GroupingSets(tuple(result), tuple(clause))


def _union(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return one + tuple(resno for n, resno in enumerate(other) if resno not in one and resno not in other[:n])


def _expanded(item: tree.GroupSet) -> list[tuple[int, ...]]:
    if item.kind is None:
        return [item.content]
    if item.kind is GroupingKind.EMPTY:
        return [()]
    if item.kind is GroupingKind.SETS:
        return [s for part in item.content for s in _expanded(part)]
    parts = [part.content for part in item.content]
    if item.kind is GroupingKind.ROLLUP:
        chosen = [parts[:size] for size in range(len(parts), -1, -1)]
    else:
        chosen = [list(some) for size in range(len(parts) + 1) for some in combinations(parts, size)]
    return [tuple(resno for part in some for resno in part) for some in chosen]


# --- windows ----------------------------------------------------------------------------------------------------------


_IN_RANGE = 3  # BTINRANGE_PROC


def transform_windows(scope: Scope, definitions: Sequence[WindowDef], targets: TargetList) -> list[tree.Window]:
    windows: list[tree.Window] = []
    for definition in definitions:
        windows.append(_window(scope, definition, targets, windows))
    return windows


def _window(scope: Scope, definition: WindowDef, targets: TargetList, known: Sequence[tree.Window]) -> tree.Window:
    name, refname, location = definition.name, definition.refname, definition.location
    if name is not None and any(w.name == name for w in known):
        raise PgError("42P20", f'window "{name}" is already defined', location=location)
    base = None
    if refname is not None:
        base = next((w for w in known if w.name == refname), None)
        if base is None:
            raise PgError("42704", f'window "{refname}" does not exist', location=location)
    order = transform_sort(scope, definition.order, targets, ExprKind.WINDOW_ORDER, by_expression=True)
    partition, _ = transform_group(
        scope, definition.partition, targets, order, ExprKind.WINDOW_PARTITION, by_expression=True
    )
    copied_order = False
    if base is not None:
        if partition:
            message = f'cannot override PARTITION BY clause of window "{refname}"'
            raise PgError("42P20", message, location=location)
        if order and base.order:
            message = f'cannot override ORDER BY clause of window "{refname}"'
            raise PgError("42P20", message, location=location)
        partition = list(base.partition)
        if not order:
            order, copied_order = list(base.order), True
        if base.explicit_frame:
            bare = name is None and not definition.order and definition.frame is None
            raise PgError(
                "42P20",
                f'cannot copy window "{refname}" because it has a frame clause',
                hint="Omit the parentheses in this OVER clause." if bare else None,
                location=location,
            )
    frame = definition.frame
    if frame is None:
        return tree.Window(name, refname, tuple(partition), tuple(order), copied_order=copied_order)
    start, end = _offsets(scope, frame, order, targets, location)
    return tree.Window(
        name,
        refname,
        tuple(partition),
        tuple(order),
        frame.mode,
        frame.start,
        frame.end if frame.end is not None else "CURRENT ROW",
        frame.end is not None,
        start,
        end,
        frame.exclude,
        explicit_frame=True,
        copied_order=copied_order,
    )


def _offsets(
    scope: Scope, frame: WindowFrame, order: Sequence[tree.SortGroup], targets: TargetList, location: int
) -> tuple[tree.Expr | None, tree.Expr | None]:
    offsets = (frame.start_offset, frame.end_offset)
    if frame.mode == "RANGE" and any(offset is not None for offset in offsets):
        if len(order) != 1:
            message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column"
            raise PgError("42P20", message, location=location)
    if frame.mode == "GROUPS" and not order:
        raise PgError("42P20", "GROUPS mode requires an ORDER BY clause", location=location)
    start, end = (_offset(scope, frame.mode, offset, order) for offset in offsets)
    return start, end


_KINDS = {
    "ROWS": ExprKind.WINDOW_FRAME_ROWS,
    "RANGE": ExprKind.WINDOW_FRAME_RANGE,
    "GROUPS": ExprKind.WINDOW_FRAME_GROUPS,
}


def _offset(scope: Scope, mode: str, raw: nodes.Expr | None, order: Sequence[tree.SortGroup]) -> tree.Expr | None:
    """The offset of a window frame, cast to what the frame needs (transformFrameOffset)."""
    if raw is None:
        return None
    expr = transform(scope, raw, _KINDS[mode])
    target = oids.INT8 if mode != "RANGE" else _range_offset_type(scope, expr, order[0])
    expr = coerce_to_specific(scope, expr, target, mode)
    check_no_columns(expr, mode)
    return expr


def _range_offset_type(scope: Scope, expr: tree.Expr, key: tree.SortGroup) -> int:
    """The type of a RANGE offset: the one that the sort column's in_range function takes."""
    member = next((a for a in builtin.amops_of_operator(key.sortop) if a.purpose == "s"), None)
    family, column = (member.family, member.lefttype) if member is not None else (0, 0)
    wanted = [
        p.righttype for p in builtin.amprocs if p.family == family and p.lefttype == column and p.number == _IN_RANGE
    ]
    column_text = lookup.type_text(scope.session, column)
    preferred = expr.type if expr.type != oids.UNKNOWN else column
    message = f"RANGE with offset PRECEDING/FOLLOWING {{}} for column type {column_text}"
    if not wanted:
        raise PgError("0A000", message.format("is not supported"), location=location_of(expr))
    fitting = [t for t in wanted if can_coerce_one(expr.type, t, Context.IMPLICIT, scope)]
    offset_text = f" and offset type {lookup.type_text(scope.session, expr.type)}"
    if not fitting:
        raise PgError(
            "0A000",
            message.format("is not supported") + offset_text,
            hint="Cast the offset value to an appropriate type.",
            location=location_of(expr),
        )
    if len(fitting) > 1 and preferred not in fitting:
        raise PgError(
            "0A000",
            message.format("has multiple interpretations") + offset_text,
            hint="Cast the offset value to the exact intended type.",
            location=location_of(expr),
        )
    return preferred if preferred in fitting else fitting[0]


# primary keys of system tables where that is not oid
_SYSTEM_KEYS = {
    "pg_aggregate": ("aggfnoid",),
    "pg_attribute": ("attrelid", "attnum"),
    "pg_db_role_setting": ("setdatabase", "setrole"),
    "pg_description": ("objoid", "classoid", "objsubid"),
    "pg_foreign_table": ("ftrelid",),
    "pg_index": ("indexrelid",),
    "pg_inherits": ("inhrelid", "inhseqno"),
    "pg_init_privs": ("objoid", "classoid", "objsubid"),
    "pg_largeobject": ("loid", "pageno"),
    "pg_partitioned_table": ("partrelid",),
    "pg_range": ("rngtypid",),
    "pg_replication_origin": ("roident",),
    "pg_seclabel": ("objoid", "classoid", "objsubid", "provider"),
    "pg_sequence": ("seqrelid",),
    "pg_shdescription": ("objoid", "classoid"),
    "pg_shseclabel": ("objoid", "classoid", "provider"),
    "pg_statistic": ("starelid", "staattnum", "stainherit"),
    "pg_statistic_ext_data": ("stxoid", "stxdinherit"),
    "pg_subscription_rel": ("srrelid", "srsubid"),
    "pg_ts_config_map": ("mapcfg", "maptokentype", "mapseqno"),
}


def check_aggregates(scope: Scope, query: tree.Query, group_sets: tuple[tree.GroupSet, ...] | None) -> tree.Query:
    """The query with its grouping sets expanded and GROUPING's arguments resolved."""
    common: set[int] | None = None
    if group_sets is not None:
        keys = [_target_expr(query, key.resno) for key in query.group]
        sets = expand(group_sets, query.group_distinct, first_location(keys))
        common = set(sets.sets[0]).intersection(*sets.sets[1:])
        if len(sets.sets) > 1 or not query.group:
            query = replace(query, grouping_sets=sets)
    has_joins = any(rte.kind is tree.RteKind.JOIN for rte in query.rtable)
    grouped = {key.resno: _target_expr(query, key.resno) for key in query.group}
    if has_joins:
        grouped = {resno: flatten_join_vars(query, expr) for resno, expr in grouped.items()}
    checker = _Checker(scope, query, grouped, common, has_joins)
    targets = tuple(replace(t, expr=checker.resolve_grouping(t.expr)) for t in query.targets)
    for target in targets:
        checker.check(flatten_join_vars(query, target.expr) if has_joins else target.expr)
    having = query.having
    if having is not None:
        having = checker.resolve_grouping(having)
        checker.check(flatten_join_vars(query, having) if has_joins else having)
    if scope.has_aggregates and any(rte.self_reference for rte in query.rtable):
        message = "aggregate functions are not allowed in a recursive query's recursive term"
        exprs = tuple(query_exprs(query))
        raise PgError("42P19", message, location=locate_aggregate(exprs, 0))
    return replace(query, targets=targets, having=having, constraint_deps=tuple(checker.keys_used))


def _target_expr(query: tree.Query, resno: int) -> tree.Expr:
    return next(t.expr for t in query.targets if t.resno == resno)


def flatten_join_vars(query: tree.Query, expr: tree.Expr, level: int = 0) -> tree.Expr:
    """Replace a join's columns by the columns they stand for (flatten_join_alias_vars). References in subqueries are
    replaced later, when the subqueries are visited."""

    def visit(node: tree.Expr) -> tree.Expr | None:
        if not isinstance(node, tree.Var) or node.levelsup != level:
            return None
        rte = query.rtable[node.varno - 1]
        if rte.kind is not tree.RteKind.JOIN:
            return None
        if node.attnum == 0:
            args = tuple(flatten_join_vars(query, v) for v in rte.join_vars if v is not None)
            names = tuple(c.name for c in rte.columns)
            return tree.RowExpr(oids.RECORD, args=args, names=names, location=node.location)
        stands_for = rte.join_vars[node.attnum - 1]
        assert stands_for is not None
        flat = flatten_join_vars(query, _raised(stands_for, level), level)
        return replace(flat, location=node.location) if isinstance(flat, tree.Var) else flat

    return rewrite(expr, visit)


def _raised(expr: tree.Expr, levels: int) -> tree.Expr:
    if not levels:
        return expr

    def visit(node: tree.Expr) -> tree.Expr | None:
        return replace(node, levelsup=node.levelsup + levels) if isinstance(node, tree.Var) else None

    return rewrite(expr, visit)


@dataclass(slots=True)
class _Checker:
    scope: Scope
    query: tree.Query
    grouped: dict[int, tree.Expr]
    common: set[int] | None  # resnos that are in every grouping set
    has_joins: bool
    dependent: set[int] = field(default_factory=set)  # relations whose primary key is grouped by
    keys_used: list[int] = field(default_factory=list)

    @property
    def only_columns(self) -> bool:
        return all(isinstance(expr, tree.Var) for expr in self.grouped.values())

    def check(self, expr: tree.Expr, level: int = 0, *, direct: bool = False) -> None:
        """Raises for a column that is neither grouped nor in an aggregate (check_ungrouped_columns_walker)."""
        if isinstance(expr, (tree.Const, tree.Param)):
            return
        if isinstance(expr, tree.Aggref):
            if expr.levelsup == level:
                for arg in expr.direct_args:
                    self.check(arg, level, direct=True)
                return
            if expr.levelsup > level:
                return
        if isinstance(expr, tree.GroupingFunc) and expr.levelsup >= level:
            return
        if level == 0 and not self.only_columns and expr in self.grouped.values():
            return
        if isinstance(expr, tree.Var):
            self.check_var(expr, level, direct)
            return
        for child in children(expr):
            self.check(child, level, direct=direct)
        if isinstance(expr, tree.SubLink) and expr.query is not None:
            self.check_query(expr.query, level + 1, direct)

    def check_query(self, query: tree.Query, level: int, direct: bool) -> None:
        for part in query_parts(query):
            if isinstance(part, tree.Query):
                self.check_query(part, level + 1, direct)
            else:
                self.check(part, level, direct=direct)

    def check_var(self, var: tree.Var, level: int, direct: bool) -> None:
        if var.levelsup != level:
            return
        if level and self.has_joins:
            flat = flatten_join_vars(self.query, replace(var, levelsup=0))
            if not isinstance(flat, tree.Var):
                self.check_flat(flat, direct, level)
                return
            var = replace(flat, levelsup=level, location=var.location)
        if (level or self.only_columns) and any(_same_column(expr, var) for expr in self.grouped.values()):
            return
        if var.varno in self.dependent or self.depends_on_key(var.varno):
            return
        rte = self.query.rtable[var.varno - 1]
        name = f"{rte.name}.{self.column_name(rte, var.attnum)}"
        if level:
            message = f'subquery uses ungrouped column "{name}" from outer query'
            raise PgError("42803", message, location=var.location)
        raise PgError(
            "42803",
            f'column "{name}" must appear in the GROUP BY clause or be used in an aggregate function',
            detail="Direct arguments of an ordered-set aggregate must use only grouped columns." if direct else None,
            location=var.location,
        )

    def check_flat(self, expr: tree.Expr, direct: bool, level: int) -> None:
        self.check(_raised(expr, level), level, direct=direct)

    def column_name(self, rte: tree.Rte, attnum: int) -> str:
        """The name of a column of a range table entry (get_rte_attribute_name)."""
        if attnum == 0:
            return "*"
        return SYSTEM_COLUMN_NAMES[attnum] if attnum < 0 else rte.columns[attnum - 1].name

    def depends_on_key(self, varno: int) -> bool:
        """Whether the relation's primary key is among the grouping columns (check_functional_grouping)."""
        rte = self.query.rtable[varno - 1]
        if rte.kind is not tree.RteKind.RELATION:
            return False
        columns = {
            expr.attnum
            for resno, expr in self.grouped.items()
            if isinstance(expr, tree.Var)
            and expr.varno == varno
            and expr.levelsup == 0
            and (self.common is None or resno in self.common)
        }
        if rte.relid < oids.FIRST_USER_OID:
            return columns.issuperset(self.system_key(rte))
        for row in rows(self.scope.session, pg_constraint, conrelid=rte.relid):
            if row.contype == "p" and not row.condeferrable and columns.issuperset(row.conkey or ()):
                self.dependent.add(varno)
                self.keys_used.append(row.oid)
                return True
        return False

    def system_key(self, rte: tree.Rte) -> set[int]:
        """The primary key columns of a system table; a non-existent attnum when it has none."""
        rel = relation(self.scope.session, rte.relid)
        names = _SYSTEM_KEYS.get(rel.name, ("oid",))
        key = {a.num for a in rel.attributes if a.name in names}
        return key if rel.kind == "r" and key else {0}

    def resolve_grouping(self, expr: tree.Expr) -> tree.Expr:
        """Check that the arguments of GROUPING(…) are grouping expressions (finalize_grouping_exprs)."""

        def visit(node: tree.Expr) -> tree.Expr | None:
            if isinstance(node, tree.Aggref) and node.levelsup == 0:
                return replace(node, direct_args=tuple(rewrite(arg, visit) for arg in node.direct_args))
            if isinstance(node, tree.GroupingFunc) and node.levelsup == 0:
                return replace(node, refs=tuple(self.reference(arg) for arg in node.args))
            return None

        return rewrite(expr, visit)

    def reference(self, arg: tree.Expr) -> int:
        flat = flatten_join_vars(self.query, arg) if self.has_joins else arg
        for resno, expr in self.grouped.items():
            if expr == flat:
                return resno
        message = "arguments to GROUPING must be grouping expressions of the associated query level"
        raise PgError("42803", message, location=location_of(arg))


def _same_column(expr: tree.Expr, var: tree.Var) -> bool:
    return isinstance(expr, tree.Var) and expr.varno == var.varno and expr.attnum == var.attnum and expr.levelsup == 0
