"""GROUP BY's rule: a column must be grouped by, depend on a grouped key, or be inside an aggregate
(parseCheckAggregates)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.expr.analyse.aggregates import locate_aggregate
from pgrepl.expr.analyse.lookup import SYSTEM_COLUMN_NAMES
from pgrepl.expr.analyse.queries.windows import expand
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.tree import (
    Aggref,
    Const,
    Expr,
    GroupingFunc,
    GroupSet,
    Param,
    Query,
    RowExpr,
    Rte,
    RteKind,
    SubLink,
    Var,
)
from pgrepl.expr.walk import children, first_location, location_of, query_exprs, query_parts, rewrite
from pgrepl.ground.errors import PgError
from pgrepl.types import oids

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


def check_aggregates(scope: Scope, query: Query, group_sets: tuple[GroupSet, ...] | None) -> Query:
    """The query with its grouping sets expanded and GROUPING's arguments resolved."""
    common: set[int] | None = None
    if group_sets is not None:
        keys = [_target_expr(query, key.resno) for key in query.group]
        sets = expand(group_sets, query.group_distinct, first_location(keys))
        common = set(sets.sets[0]).intersection(*sets.sets[1:])
        if len(sets.sets) > 1 or not query.group:
            query = replace(query, grouping_sets=sets)
    has_joins = any(rte.kind is RteKind.JOIN for rte in query.rtable)
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


def _target_expr(query: Query, resno: int) -> Expr:
    return next(t.expr for t in query.targets if t.resno == resno)


def flatten_join_vars(query: Query, expr: Expr, level: int = 0) -> Expr:
    """Replace a join's columns by the columns they stand for (flatten_join_alias_vars). References in subqueries are
    replaced later, when the subqueries are visited."""

    def visit(node: Expr) -> Expr | None:
        if not isinstance(node, Var) or node.levelsup != level:
            return None
        rte = query.rtable[node.varno - 1]
        if rte.kind is not RteKind.JOIN:
            return None
        if node.attnum == 0:
            args = tuple(flatten_join_vars(query, v) for v in rte.join_vars if v is not None)
            names = tuple(c.name for c in rte.columns)
            return RowExpr(oids.RECORD, args=args, names=names, location=node.location)
        stands_for = rte.join_vars[node.attnum - 1]
        assert stands_for is not None
        flat = flatten_join_vars(query, _raised(stands_for, level), level)
        return replace(flat, location=node.location) if isinstance(flat, Var) else flat

    return rewrite(expr, visit)


def _raised(expr: Expr, levels: int) -> Expr:
    if not levels:
        return expr

    def visit(node: Expr) -> Expr | None:
        return replace(node, levelsup=node.levelsup + levels) if isinstance(node, Var) else None

    return rewrite(expr, visit)


@dataclass(slots=True)
class _Checker:
    scope: Scope
    query: Query
    grouped: dict[int, Expr]
    common: set[int] | None  # resnos that are in every grouping set
    has_joins: bool
    dependent: set[int] = field(default_factory=set)  # relations whose primary key is grouped by
    keys_used: list[int] = field(default_factory=list)

    @property
    def only_columns(self) -> bool:
        return all(isinstance(expr, Var) for expr in self.grouped.values())

    def check(self, expr: Expr, level: int = 0, *, direct: bool = False) -> None:
        """Raises for a column that is neither grouped nor in an aggregate (check_ungrouped_columns_walker)."""
        if isinstance(expr, (Const, Param)):
            return
        if isinstance(expr, Aggref):
            if expr.levelsup == level:
                for arg in expr.direct_args:
                    self.check(arg, level, direct=True)
                return
            if expr.levelsup > level:
                return
        if isinstance(expr, GroupingFunc) and expr.levelsup >= level:
            return
        if level == 0 and not self.only_columns and expr in self.grouped.values():
            return
        if isinstance(expr, Var):
            self.check_var(expr, level, direct)
            return
        for child in children(expr):
            self.check(child, level, direct=direct)
        if isinstance(expr, SubLink) and expr.query is not None:
            self.check_query(expr.query, level + 1, direct)

    def check_query(self, query: Query, level: int, direct: bool) -> None:
        for part in query_parts(query):
            if isinstance(part, Query):
                self.check_query(part, level + 1, direct)
            else:
                self.check(part, level, direct=direct)

    def check_var(self, var: Var, level: int, direct: bool) -> None:
        if var.levelsup != level:
            return
        if level and self.has_joins:
            flat = flatten_join_vars(self.query, replace(var, levelsup=0))
            if not isinstance(flat, Var):
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

    def check_flat(self, expr: Expr, direct: bool, level: int) -> None:
        self.check(_raised(expr, level), level, direct=direct)

    def column_name(self, rte: Rte, attnum: int) -> str:
        """The name of a column of a range table entry (get_rte_attribute_name)."""
        if attnum == 0:
            return "*"
        return SYSTEM_COLUMN_NAMES[attnum] if attnum < 0 else rte.columns[attnum - 1].name

    def depends_on_key(self, varno: int) -> bool:
        """Whether the relation's primary key is among the grouping columns (check_functional_grouping)."""
        rte = self.query.rtable[varno - 1]
        if rte.kind is not RteKind.RELATION:
            return False
        columns = {
            expr.attnum
            for resno, expr in self.grouped.items()
            if isinstance(expr, Var)
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

    def system_key(self, rte: Rte) -> set[int]:
        """The primary key columns of a system table; a non-existent attnum when it has none."""
        found = relation(self.scope.session, rte.relid)
        names = _SYSTEM_KEYS.get(found.name, ("oid",))
        key = {a.num for a in found.attributes if a.name in names}
        return key if found.kind == "r" and key else {0}

    def resolve_grouping(self, expr: Expr) -> Expr:
        """Check that the arguments of GROUPING(…) are grouping expressions (finalize_grouping_exprs)."""

        def visit(node: Expr) -> Expr | None:
            if isinstance(node, Aggref) and node.levelsup == 0:
                return replace(node, direct_args=tuple(rewrite(arg, visit) for arg in node.direct_args))
            if isinstance(node, GroupingFunc) and node.levelsup == 0:
                return replace(node, refs=tuple(self.reference(arg) for arg in node.args))
            return None

        return rewrite(expr, visit)

    def reference(self, arg: Expr) -> int:
        flat = flatten_join_vars(self.query, arg) if self.has_joins else arg
        for resno, expr in self.grouped.items():
            if expr == flat:
                return resno
        message = "arguments to GROUPING must be grouping expressions of the associated query level"
        raise PgError("42803", message, location=location_of(arg))


def _same_column(expr: Expr, var: Var) -> bool:
    return isinstance(expr, Var) and expr.varno == var.varno and expr.attnum == var.attnum and expr.levelsup == 0
