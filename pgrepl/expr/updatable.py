"""Whether a view is automatically updatable, and why not."""

from __future__ import annotations

from pgrepl.errors import PgError
from pgrepl.expr.tree import Aggref, Expr, Query, RangeRef, Rte, RteKind, Var, WindowFunc
from pgrepl.expr.walk import walk

ONE_TABLE = "Views that do not select from a single table or view are not automatically updatable."


def require_updatable(query: Query) -> None:
    """Refuse WITH CHECK OPTION for a view that is not automatically updatable."""
    reason = why_not_updatable(query)
    if reason is not None:
        raise PgError(
            "0A000",
            "WITH CHECK OPTION is supported only on automatically updatable views",
            hint=reason,
        )


def why_not_updatable(query: Query) -> str | None:
    """The reason why a view is not updatable, in the words of view_query_is_auto_updatable; None: it is."""
    return _clause(query) or _source(query)


def _clause(query: Query) -> str | None:
    found = [
        ("Views containing DISTINCT", query.distinct is not None),
        ("Views containing GROUP BY", bool(query.group) or query.grouping_sets is not None),
        ("Views containing HAVING", query.having is not None),
        ("Views containing UNION, INTERSECT, or EXCEPT", query.set_operation is not None),
        ("Views containing WITH", bool(query.ctes)),
        ("Views containing LIMIT or OFFSET", query.limit is not None or query.offset is not None),
        ("Views that return aggregate functions", query.has_aggregates or _has(query, Aggref)),
        ("Views that return window functions", _has(query, WindowFunc)),
        ("Views that return set-returning functions", query.has_target_srfs),
    ]
    for what, there in found:
        if there:
            return f"{what} are not automatically updatable."
    return None


def _has(query: Query, kind: type[Expr]) -> bool:
    return any(isinstance(node, kind) for target in query.targets for node in walk(target.expr))


def _source(query: Query) -> str | None:
    if len(query.from_) != 1 or not isinstance(query.from_[0], RangeRef):
        return ONE_TABLE
    varno = query.from_[0].varno
    rte: Rte = query.rtable[varno - 1]
    if rte.kind is not RteKind.RELATION or rte.relkind not in "rfvp":
        return ONE_TABLE
    if rte.sample is not None:
        return "Views containing TABLESAMPLE are not automatically updatable."
    if not any(_is_column(target.expr, varno) for target in query.targets if not target.junk):
        return "Views that have no updatable columns are not automatically updatable."
    return None


def _is_column(expr: Expr, varno: int) -> bool:
    return isinstance(expr, Var) and expr.varno == varno and not expr.levelsup and expr.attnum > 0
