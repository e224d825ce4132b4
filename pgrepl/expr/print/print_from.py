"""FROM as text: relations with their aliases, joins, functions, VALUES."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgrepl.catalog.facts.relation import relation
from pgrepl.expr.analyse import lookup
from pgrepl.expr.print.print_expr import collation_text, print_expr, print_list, print_top
from pgrepl.expr.print.print_names import relation_text
from pgrepl.expr.print.printer import JOIN, STEP, VAR, Printer, type_with_typmod
from pgrepl.expr.tree import (
    CoalesceExpr,
    Column,
    Expr,
    FuncExpr,
    Join,
    JsonTableExpr,
    MinMaxExpr,
    NullIfExpr,
    Query,
    RangeRef,
    Rte,
    RteKind,
    SqlJson,
    SQLValueFunction,
    TableSample,
)
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.nodes import CoercionForm, JoinType
from pgrepl.types import builtin

_UNNEST = 2331  # unnest(anyarray)

PrintQuery = Callable[[Query, Printer], None]  # prints the queries in FROM


def print_from(query: Query, prefix: str, out: Printer, print_subquery: PrintQuery) -> None:
    first = True
    for item in query.from_:
        if isinstance(item, RangeRef) and not query.rtable[item.varno - 1].in_from:
            continue
        if first:
            out.keyword(prefix, -STEP, STEP, 2)
            first = False
            _print_item(item, query, out, print_subquery)
            continue
        out.put(", ")
        part = out.apart()
        _print_item(item, query, part, print_subquery)
        text = part.text()
        if out.style.indent and out.style.wrap >= 0:
            if text.startswith("\n"):
                out.strip_spaces()
            elif len(out.text().rpartition("\n")[2].encode()) + len(text.encode()) > out.style.wrap:
                out.keyword("", -STEP, STEP, VAR)
        out.put(text)


def _print_item(item: RangeRef | Join, query: Query, out: Printer, print_subquery: PrintQuery) -> None:
    if isinstance(item, Join):
        _print_join(item, query, out, print_subquery)
        return
    rte = query.rtable[item.varno - 1]
    if rte.lateral:
        out.put("LATERAL ")
    coldefs = False
    if rte.kind is RteKind.RELATION:
        out.put(("" if rte.inh else "ONLY ") + relation_text(out.session, rte.relid, out.names))
    elif rte.kind is RteKind.SUBQUERY:
        assert rte.subquery is not None
        out.put("(")
        print_subquery(rte.subquery, out)
        out.put(")")
    elif rte.kind is RteKind.FUNCTION:
        coldefs = _print_functions(rte, out)
    elif rte.kind is RteKind.VALUES:
        out.put("(")
        print_values(rte, out)
        out.put(")")
    elif rte.kind is RteKind.CTE:
        out.put(quote_identifier(rte.cte or ""))
    _print_alias(rte, item.varno, out)
    if coldefs:
        _print_coldefs(rte.columns, out.names[0].columns[item.varno - 1], out)
    else:
        _print_column_aliases(item.varno, out)
    if rte.sample is not None:
        _print_sample(rte.sample, out)


def _print_alias(rte: Rte, varno: int, out: Printer) -> None:
    """Print an alias as get_rte_alias does, unless it equals the relation's own name."""
    name = out.names[0].relations[varno - 1] or ""
    _, print_columns = out.names[0].aliases[varno]
    if rte.alias is None and not print_columns:
        if rte.functions and isinstance(rte.functions[0], JsonTableExpr):
            return
        if rte.kind is RteKind.RELATION:
            if relation(out.session, rte.relid).name == name:
                return
        elif rte.kind is RteKind.CTE and rte.cte == name:
            return
    out.put(f" {quote_identifier(name)}")


def _print_column_aliases(varno: int, out: Printer) -> None:
    names, shown = out.names[0].aliases[varno]
    if shown and names:
        out.put(f"({', '.join(quote_identifier(name) for name in names)})")


def print_values(rte: Rte, out: Printer) -> None:
    out.put("VALUES ")
    for number, row in enumerate(rte.values):
        out.put(", (" if number else "(")
        for place, expr in enumerate(row):
            out.put("," if place else "")
            print_top(expr, out, False)
        out.put(")")


def _print_functions(rte: Rte, out: Printer) -> bool:
    """Print a function in FROM. Returns whether a column definition list must follow its alias."""
    coldefs = False
    if len(rte.functions) == 1 and not (rte.function_coldefs[0] and rte.ordinality):
        _print_call(rte.functions[0], out)
        coldefs = rte.function_coldefs[0]
    elif all(isinstance(f, FuncExpr) and f.func == _UNNEST for f in rte.functions) and not any(rte.function_coldefs):
        args = [arg for f in rte.functions if isinstance(f, FuncExpr) for arg in f.args]
        out.put("UNNEST(")
        print_list(args, out, True)
        out.put(")")
    else:
        out.put("ROWS FROM(")
        first = 0
        for number, (function, count) in enumerate(zip(rte.functions, rte.function_columns, strict=True)):
            out.put(", " if number else "")
            _print_call(function, out)
            columns = rte.columns[first : first + count]
            if rte.function_coldefs[number]:
                out.put(" AS ")
                _print_coldefs(columns, [c.name for c in columns], out)
            first += count
        out.put(")")
    if rte.ordinality:
        out.put(" WITH ORDINALITY")
    return coldefs


def _print_call(call: Expr, out: Printer) -> None:
    """Print a function in FROM; an expression that is printed without call syntax is put into CAST(…)
    (get_rule_expr_funccall)."""
    looks_like_call = isinstance(call, (NullIfExpr, CoalesceExpr, MinMaxExpr, SQLValueFunction, SqlJson)) or (
        isinstance(call, FuncExpr) and call.form in (CoercionForm.EXPLICIT_CALL, CoercionForm.SQL_SYNTAX)
    )
    if looks_like_call:
        print_expr(call, out, True)
        return
    out.put("CAST(")
    print_expr(call, out, False)
    out.put(f" AS {type_with_typmod(out.session, call.type, call.typmod)})")


def _print_coldefs(columns: Sequence[Column], names: Sequence[str | None], out: Printer) -> None:
    out.put("(")
    for number, (column, name) in enumerate(zip(columns, names, strict=False)):
        out.put(", " if number else "")
        out.put(f"{quote_identifier(name or '')} {type_with_typmod(out.session, column.type, column.typmod)}")
        if column.collation and column.collation != lookup.collation(column.type):
            out.put(f" COLLATE {collation_text(out, column.collation)}")
    out.put(")")


def _print_sample(sample: TableSample, out: Printer) -> None:
    method = builtin.proc_by_oid(sample.method)
    assert method is not None
    out.put(f" TABLESAMPLE {quote_identifier(method.name)} (")
    for number, arg in enumerate(sample.args):
        out.put(", " if number else "")
        print_expr(arg, out, False)
    out.put(")")
    if sample.repeatable is not None:
        out.put(" REPEATABLE (")
        print_expr(sample.repeatable, out, False)
        out.put(")")


_JOINS = {JoinType.LEFT: " LEFT JOIN ", JoinType.FULL: " FULL JOIN ", JoinType.RIGHT: " RIGHT JOIN "}


def _print_join(join: Join, query: Query, out: Printer, print_subquery: PrintQuery) -> None:
    rte = query.rtable[join.varno - 1]
    parens = not out.style.paren or rte.alias is not None
    right = join.right
    right_parens = out.style.paren and isinstance(right, Join) and query.rtable[right.varno - 1].alias is None
    out.put("(" if parens else "")
    _print_item(join.left, query, out, print_subquery)
    word = _JOINS.get(join.kind) or (" JOIN " if join.quals is not None else " CROSS JOIN ")
    out.keyword(word, -STEP, STEP, JOIN)
    out.put("(" if right_parens else "")
    _print_item(right, query, out, print_subquery)
    out.put(")" if right_parens else "")
    if join.using:
        names = out.names[0].joins[join.varno].using
        out.put(f" USING ({', '.join(quote_identifier(name) for name in names)})")
        if rte.join_using_alias is not None:
            out.put(f" AS {quote_identifier(rte.join_using_alias)}")
    elif join.quals is not None:
        out.put(" ON " if out.style.paren else " ON (")
        print_expr(join.quals, out, False)
        out.put("" if out.style.paren else ")")
    elif join.kind in _JOINS:
        out.put(" ON TRUE")
    out.put(")" if parens else "")
    if rte.alias is not None:
        out.put(f" {quote_identifier(out.names[0].relations[join.varno - 1] or '')}")
        _print_column_aliases(join.varno, out)
