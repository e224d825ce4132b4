"""The columns of row-valued expressions (get_expr_result_tupdesc, expandRecordVariable)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.routines import routine
from pgrepl.expr import lookup, typefacts
from pgrepl.expr.scope import Scope, WithItem
from pgrepl.expr.tree import Column, Expr, FuncExpr, OpExpr, Query, RowExpr, Rte, RteKind, Var
from pgrepl.types import builtin, oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def function_columns(scope: Scope, call: Expr) -> tuple[Column, ...] | None:
    """The columns of a function's result, from OUT parameters or a named row type; None: it has neither."""
    if isinstance(call, FuncExpr):
        proc = routine(scope.session, call.func)
        if proc is not None and proc.allargtypes is not None and proc.argmodes is not None:
            outs = [i for i, mode in enumerate(proc.argmodes) if mode in ("o", "b", "t")]
            if proc.rettype == oids.RECORD and outs:
                return _out_columns(scope.session, call, proc, outs)
    if typefacts.is_complex(call.type):
        return named_row_columns(scope, call.type)
    return None


def _out_columns(session: Session, call: FuncExpr, proc: builtin.Proc, outs: list[int]) -> tuple[Column, ...]:
    assert proc.allargtypes is not None
    declared = [proc.allargtypes[i] for i in outs]
    if any(t in typefacts.POLYMORPHIC for t in declared):
        from pgrepl.expr.polymorphic import resolve

        actual = [arg.type for arg in call.args]
        declared = [resolve(session, actual, proc.argtypes, t)[1] for t in declared]
    names = proc.argnames or ("",) * len(proc.allargtypes)
    return tuple(
        Column(names[i] or f"column{n}", typoid, -1, typefacts.collation(typoid))
        for n, (i, typoid) in enumerate(zip(outs, declared, strict=True), 1)
    )


def named_row_columns(scope: Scope, typoid: int) -> tuple[Column, ...]:
    return tuple(
        Column(a.name, a.type, a.typmod, a.collation or typefacts.collation(a.type), a.dropped)
        for a in lookup.row_attributes(scope.session, typefacts.base(typoid))
    )


def row_columns(scope: Scope, row: Expr) -> tuple[Column, ...] | None:
    """The columns of a row-valued expression; None: unknown."""
    if isinstance(row, Var) and row.type == oids.RECORD:
        return record_var_columns(scope, row)
    if isinstance(row, RowExpr) and row.type == oids.RECORD:
        return tuple(
            Column(name, arg.type, arg.typmod, arg.collation) for name, arg in zip(row.names, row.args, strict=True)
        )
    if isinstance(row, (FuncExpr, OpExpr)):
        return function_columns(scope, row)
    if typefacts.is_complex(row.type):
        return named_row_columns(scope, row.type)
    return None


def record_var_columns(scope: Scope, var: Var) -> tuple[Column, ...] | None:
    """The columns of a Var of type record, traced to the expression that built the row (expandRecordVariable)."""
    level = scope.up(var.levelsup)
    rte = level.rtable[var.varno - 1]
    if var.attnum == 0:
        return tuple(c for c in rte.columns if not c.dropped)
    expr: Expr | None = None
    inner = level
    if rte.kind is RteKind.SUBQUERY and rte.subquery is not None:
        expr = _target(rte.subquery, var.attnum)
        inner = query_scope(level, rte.subquery)
    elif rte.kind is RteKind.JOIN:
        expr = rte.join_vars[var.attnum - 1]
    elif rte.kind is RteKind.CTE and not rte.self_reference:
        found = _cte_query(level, rte)
        if found is not None:
            query, home = found
            expr = _target(query, var.attnum)
            inner = query_scope(home, query)
    if expr is None:
        return None
    if isinstance(expr, Var) and expr.type == oids.RECORD:
        return record_var_columns(inner, expr)
    return row_columns(inner, expr)


def _target(query: Query, attnum: int) -> Expr | None:
    return next((t.expr for t in query.targets if t.resno == attnum and not t.junk), None)


def _cte_query(scope: Scope, rte: Rte) -> tuple[Query, Scope] | None:
    home = scope.up(rte.cte_levelsup)
    cte = next((c for c in home.ctes if c.name == rte.cte), None)
    return (cte.query, home) if cte is not None and cte.query is not None else None


def query_scope(parent: Scope, query: Query) -> Scope:
    """The scope of an analysed query, rebuilt."""
    ctes = [WithItem(c.name, c.columns, query=c.query) for c in query.ctes]
    return Scope(parent.session, parent, rtable=list(query.rtable), ctes=ctes)
