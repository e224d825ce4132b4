"""Queries as text, in the layout of pg_get_viewdef."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.expr import tree
from pgrepl.expr.analyse.sorting import sort_operators
from pgrepl.expr.print.print_expr import operator_name, print_const, print_expr, print_var
from pgrepl.expr.print.print_from import names_of_query, print_from, print_values
from pgrepl.expr.print.printer import STEP, VAR, Names, Printer
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.nodes import GroupingKind, SubLinkType


def print_subquery(
    query: tree.Query, out: Printer, *, result_names: Sequence[str] | None = None, names_visible: bool = True
) -> None:
    """A query inside the text of another (get_query_def)."""
    _print_query(query, out, out.names, result_names, names_visible)


def _print_query(
    query: tree.Query, around: Printer, parents: list[Names], result_names: Sequence[str] | None, names_visible: bool
) -> None:
    names = names_of_query(around.session, query, parents)
    out = around.inside(names, query, prefix=bool(parents) or len(query.rtable) != 1)
    out.names, out.result_names = [names, *parents], result_names
    _print_select(query, out, names_visible)


def print_whole_query(query: tree.Query, out: Printer, *, result_names: Sequence[str] | None = None) -> None:
    """Print a top-level query."""
    _print_query(query, out, [], result_names, names_visible=True)


def _print_select(query: tree.Query, out: Printer, names_visible: bool) -> None:
    print_with(query, out)
    if query.set_operation is not None:
        _print_set_operation(query.set_operation, query, out, names_visible)
    else:
        _print_basic(query, out, names_visible)
    if query.sort:
        out.keyword(" ORDER BY ", -STEP, STEP, 1)
        print_order(query.sort, out, by_number=query.set_operation is not None)
    if query.offset is not None:
        out.keyword(" OFFSET ", -STEP, STEP, 0)
        print_expr(query.offset, out, False)
    if query.limit is not None:
        _print_limit(query.limit, query.with_ties, out)
    for mark in query.row_marks:
        if mark.pushed_down:
            continue
        out.keyword(f" FOR {mark.strength}", -STEP, STEP, 0)
        out.put(f" OF {quote_identifier(out.names[0].relations[mark.varno - 1] or '')}")
        if mark.wait is not None:
            out.put(f" {mark.wait}")


def _print_limit(limit: tree.Expr, with_ties: bool, out: Printer) -> None:
    if with_ties:
        out.keyword(" FETCH FIRST ", -STEP, STEP, 0)
        out.put("(")
        print_expr(limit, out, False)
        out.put(") ROWS WITH TIES")
        return
    out.keyword(" LIMIT ", -STEP, STEP, 0)
    if isinstance(limit, tree.Const) and limit.value is None:
        out.put("ALL")
    else:
        print_expr(limit, out, False)


# --- WITH ---------------------------------------------------------------------------------------------------------


def print_with(query: tree.Query, out: Printer) -> None:
    if not query.ctes:
        return
    if out.style.indent:
        out.indent += STEP
        out.put(" ")
    separator = "WITH RECURSIVE " if query.recursive else "WITH "
    for cte in query.ctes:
        out.put(separator)
        _print_cte(cte, out)
        separator = ", "
    if out.style.indent:
        out.indent -= STEP
        out.keyword("", 0, 0, 0)
    else:
        out.put(" ")


def _name_list(names: Sequence[str]) -> str:
    return ", ".join(quote_identifier(name) for name in names)


def _print_cte(cte: tree.Cte, out: Printer) -> None:
    out.put(quote_identifier(cte.name))
    if cte.columns:
        out.put(f"({_name_list(cte.columns)})")
    out.put(" AS ")
    if cte.materialized is not None:
        out.put("MATERIALIZED " if cte.materialized else "NOT MATERIALIZED ")
    out.put("(")
    if out.style.indent:
        out.keyword("", 0, 0, 0)
    print_subquery(cte.query, out)
    if out.style.indent:
        out.keyword("", 0, 0, 0)
    out.put(")")
    if cte.search is not None:
        order = "BREADTH" if cte.search.breadth_first else "DEPTH"
        out.put(f" SEARCH {order} FIRST BY {_name_list(cte.search.columns)}")
        out.put(f" SET {quote_identifier(cte.search.sequence)}")
    if cte.cycle is not None:
        cycle = cte.cycle
        out.put(f" CYCLE {_name_list(cycle.columns)} SET {quote_identifier(cycle.mark)}")
        if not (_is_constant(cycle.mark_value, True) and _is_constant(cycle.mark_default, False)):
            out.put(" TO ")
            print_expr(cycle.mark_value, out, False)
            out.put(" DEFAULT ")
            print_expr(cycle.mark_default, out, False)
        out.put(f" USING {quote_identifier(cycle.path)}")


def _is_constant(expr: tree.Expr, value: bool) -> bool:
    return isinstance(expr, tree.Const) and expr.value is value


# --- SELECT -------------------------------------------------------------------------------------------------------


def _simple_values(query: tree.Query, out: Printer) -> tree.Rte | None:
    """The VALUES list, if the query is nothing but that list (get_simple_values_rte)."""
    lists = [rte for rte in query.rtable if rte.kind is tree.RteKind.VALUES and rte.in_from]
    if len(lists) != 1 or len(query.rtable) != 1:
        return None
    rte = lists[0]
    if len(query.targets) != len(rte.columns):
        return None
    for number, (target, column) in enumerate(zip(query.targets, rte.columns, strict=True)):
        if target.junk or _result_name(target, number, out) != column.name:
            return None
    return rte


def _result_name(target: tree.Target, number: int, out: Printer) -> str:
    if out.result_names is not None and number < len(out.result_names):
        return out.result_names[number]
    return target.name


def _print_basic(query: tree.Query, out: Printer, names_visible: bool) -> None:
    if out.style.indent:
        out.indent += STEP
        out.put(" ")
    values = _simple_values(query, out)
    if values is not None:
        print_values(values, out)
        return
    out.put("SELECT")
    if query.distinct is not None:
        out.put(" DISTINCT")
        if query.distinct_on:
            out.put(" ON (")
            _print_keys(query.distinct, out)
            out.put(")")
    print_targets(query.targets, out, names_visible)
    print_from(query, " FROM ", out, print_subquery)
    if query.where is not None:
        out.keyword(" WHERE ", -STEP, STEP, 1)
        print_expr(query.where, out, False)
    if query.group or query.grouping_sets is not None:
        out.keyword(" GROUP BY ", -STEP, STEP, 1)
        if query.group_distinct:
            out.put("DISTINCT ")
        saved, out.in_group_by = out.in_group_by, True
        if query.grouping_sets is None:
            _print_keys(query.group, out)
        else:
            for number, item in enumerate(query.grouping_sets.clause):
                out.put(", " if number else "")
                _print_group_set(item, out, bare=True)
        out.in_group_by = saved
    if query.having is not None:
        out.keyword(" HAVING ", -STEP, STEP, 0)
        print_expr(query.having, out, False)
    _print_windows(query.windows, out)


def print_targets(targets: Sequence[tree.Target], out: Printer, names_visible: bool) -> None:
    separator, number, was_multiline = " ", 0, False
    for target in targets:
        if target.junk:
            continue
        out.put(separator)
        separator = ", "
        number += 1
        item = out.apart()
        if isinstance(target.expr, tree.Var):
            own = print_var(target.expr, item, top=True)
        else:
            print_expr(target.expr, item, True)
            own = None if names_visible else "?column?"
        name = _result_name(target, number - 1, out)
        if own is None or own != name:
            item.put(f" AS {quote_identifier(name)}")
        text = item.text()
        if out.style.indent and out.style.wrap >= 0:
            starts_line = text.startswith("\n")
            if starts_line:
                out.strip_spaces()
            elif number > 1 and (_overflows(out, text) or was_multiline):
                out.keyword("", -STEP, STEP, VAR)
            was_multiline = "\n" in text[1 if starts_line else 0 :]
        out.put(text)


def _overflows(out: Printer, text: str) -> bool:
    last_line = out.text().rpartition("\n")[2]
    return len(last_line.encode()) + len(text.encode()) > out.style.wrap


def _target(resno: int, out: Printer) -> tree.Target:
    return next(t for t in out.targets if t.resno == resno)


def _print_keys(keys: Sequence[tree.SortGroup], out: Printer) -> None:
    for number, key in enumerate(keys):
        if number:
            out.put(", ")
        print_sort_expr(_target(key.resno, out).expr, out)


def print_sort_expr(expr: tree.Expr, out: Printer) -> None:
    """Print a sort or group key. A constant must not be read as a position, nor a column as an output column
    (get_rule_sortgroupclause)."""
    if isinstance(expr, tree.Const):
        print_const(expr, out, 1)
    elif isinstance(expr, tree.Var):
        saved, out.in_order_by = out.in_order_by, True
        print_var(expr, out)
        out.in_order_by = saved
    else:
        parens = out.style.paren or isinstance(expr, (tree.FuncExpr, tree.Aggref, tree.WindowFunc))
        out.put("(" if parens else "")
        print_expr(expr, out, True)
        out.put(")" if parens else "")


def print_direction(typoid: int, sortop: int, nulls_first: bool, out: Printer) -> None:
    """Print DESC, USING and NULLS FIRST, where they are not the default."""
    operators = sort_operators(out.session, typoid)
    if sortop == operators.lt:
        out.put(" NULLS FIRST" if nulls_first else "")
    elif sortop == operators.gt:
        out.put(" DESC" if nulls_first else " DESC NULLS LAST")
    else:
        out.put(f" USING {operator_name(out, sortop, typoid, typoid)}")
        out.put(" NULLS FIRST" if nulls_first else " NULLS LAST")


def print_order(keys: Sequence[tree.SortGroup], out: Printer, *, by_number: bool = False) -> None:
    for number, key in enumerate(keys):
        if number:
            out.put(", ")
        target = _target(key.resno, out)
        if by_number:
            out.put(str(target.resno))
        else:
            print_sort_expr(target.expr, out)
        print_direction(target.expr.type, key.sortop, key.nulls_first, out)


def _print_group_set(item: tree.GroupSet, out: Printer, *, bare: bool) -> None:
    if item.kind is GroupingKind.EMPTY:
        out.put("()")
        return
    if item.kind is None:
        parens = not bare or len(item.content) != 1
        out.put("(" if parens else "")
        for number, resno in enumerate(item.content):
            out.put(", " if number else "")
            print_sort_expr(_target(resno, out).expr, out)
        out.put(")" if parens else "")
        return
    out.put({GroupingKind.ROLLUP: "ROLLUP(", GroupingKind.CUBE: "CUBE("}.get(item.kind, "GROUPING SETS ("))
    for number, part in enumerate(item.content):
        out.put(", " if number else "")
        _print_group_set(part, out, bare=item.kind is not GroupingKind.SETS)
    out.put(")")


# --- windows ------------------------------------------------------------------------------------------------------


def _print_windows(windows: Sequence[tree.Window], out: Printer) -> None:
    first = True
    for window in windows:
        if window.name is None:
            continue
        if first:
            out.keyword(" WINDOW ", -STEP, STEP, 1)
        else:
            out.put(", ")
        out.put(f"{quote_identifier(window.name)} AS ")
        print_window(window, out)
        first = False


def print_window(window: tree.Window, out: Printer) -> None:
    out.put("(")
    space = ""
    if window.refname is not None:
        out.put(quote_identifier(window.refname))
        space = " "
    if window.partition and window.refname is None:
        out.put("PARTITION BY ")
        _print_keys(window.partition, out)
        space = " "
    if window.order and not window.copied_order:
        out.put(f"{space}ORDER BY ")
        print_order(window.order, out)
        space = " "
    if window.explicit_frame:
        out.put(f"{space}{window.frame_mode} ")
        if window.frame_between:
            out.put("BETWEEN ")
        _print_bound(window.frame_start, window.start_offset, out)
        if window.frame_between:
            out.put(" AND ")
            _print_bound(window.frame_end, window.end_offset, out)
        if window.exclude is not None:
            out.put(f" EXCLUDE {window.exclude}")
    out.put(")")


def _print_bound(bound: str, offset: tree.Expr | None, out: Printer) -> None:
    if offset is not None:
        print_expr(offset, out, False)
        out.put(" ")
    out.put(bound)


def _print_set_operation(
    node: tree.SetOperation | tree.RangeRef, query: tree.Query, out: Printer, names_visible: bool
) -> None:
    if isinstance(node, tree.RangeRef):
        part = query.rtable[node.varno - 1].subquery
        assert part is not None
        parens = bool(
            part.ctes or part.sort or part.row_marks or part.offset or part.limit or part.set_operation is not None
        )
        out.put("(" if parens else "")
        print_subquery(part, out, result_names=out.result_names, names_visible=names_visible)
        out.put(")" if parens else "")
        return
    left = node.left
    parens = isinstance(left, tree.SetOperation) and not (left.op is node.op and left.all == node.all)
    indent = STEP if parens else 0
    if parens:
        out.put("(")
        out.keyword("", indent, 0, 0)
    _print_set_operation(left, query, out, names_visible)
    if parens:
        out.keyword(") ", -indent, 0, 0)
    elif out.style.indent:
        out.keyword("", 0, 0, 0)
    else:
        out.put(" ")
    out.put(f"{node.op.name} ")
    if node.all:
        out.put("ALL ")
    parens = isinstance(node.right, tree.SetOperation)
    indent = STEP if parens else 0
    if parens:
        out.put("(")
    out.keyword("", indent, 0, 0)
    _print_set_operation(node.right, query, out, False)
    if out.style.indent:
        out.indent -= indent
    if parens:
        out.keyword(")", 0, 0, 0)


# --- subqueries in expressions ------------------------------------------------------------------------------------


@print_expr.register(tree.SubLink)
def _(expr: tree.SubLink, out: Printer, implicit: bool) -> None:
    assert expr.query is not None
    out.put("ARRAY(" if expr.kind is SubLinkType.ARRAY else "(")
    name = ""
    test = expr.test
    if isinstance(test, tree.OpExpr):
        print_expr(test.args[0], out, True)
        name = operator_name(out, test.op, test.args[0].type, test.args[1].type)
    elif isinstance(test, tree.BoolExpr):
        out.put("(")
        for number, pair in enumerate(test.args):
            assert isinstance(pair, tree.OpExpr)
            out.put(", " if number else "")
            print_expr(pair.args[0], out, True)
            name = name or operator_name(out, pair.op, pair.args[0].type, pair.args[1].type)
        out.put(")")
    elif isinstance(test, tree.RowCompareExpr):
        out.put("(")
        for number, left in enumerate(test.left):
            out.put(", " if number else "")
            print_expr(left, out, True)
        out.put(")")
        name = operator_name(out, test.ops[0], test.left[0].type, test.right[0].type)
    out.put(_between(expr.kind, name))
    print_subquery(expr.query, out, names_visible=False)
    out.put("))" if expr.kind not in (SubLinkType.EXPR, SubLinkType.ARRAY) else ")")


def _between(kind: SubLinkType, name: str) -> str:
    """The text between the left side and the subquery."""
    if kind is SubLinkType.EXISTS:
        return "EXISTS ("
    if kind is SubLinkType.ANY:
        return " IN (" if name == "=" else f" {name} ANY ("
    if kind is SubLinkType.ALL:
        return f" {name} ALL ("
    return f" {name} (" if kind is SubLinkType.ROWCOMPARE else ""
