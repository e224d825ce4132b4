"""Constructs as text: CASE, arrays, rows, COALESCE and its like, subscripts and fields."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.expr import tree, typefacts
from pgrepl.expr.print_expr import operator_name, print_expr, print_list, print_top
from pgrepl.expr.printer import VAR, Printer, type_with_typmod
from pgrepl.expr.rows import named_row_columns
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import Expr, OpExpr, Var
from pgrepl.expr.walk import without_implicit_casts
from pgrepl.sql.nodes import CoercionForm
from pgrepl.sql.quote import quote_identifier
from pgrepl.types import oids


@print_expr.register(tree.CaseExpr)
def _(expr: tree.CaseExpr, out: Printer, implicit: bool) -> None:
    out.keyword("CASE", 0, VAR, 0)
    if expr.arg is not None:
        out.put(" ")
        print_expr(expr.arg, out, True)
    for condition, result in expr.whens:
        if expr.arg is not None:
            condition = _compared_with(condition)
        _line(out, "WHEN ", 0)
        print_expr(condition, out, False)
        out.put(" THEN ")
        print_expr(result, out, True)
    assert expr.default is not None
    _line(out, "ELSE ", 0)
    print_expr(expr.default, out, True)
    _line(out, "END", -VAR)


def _line(out: Printer, word: str, before: int) -> None:
    if not out.style.indent:
        out.put(" ")
    out.keyword(word, before, 0, 0)


def _compared_with(condition: Expr) -> Expr:
    """The expression after WHEN in CASE x WHEN …: the right side of its comparison with x."""
    if isinstance(condition, OpExpr) and len(condition.args) == 2:
        left, right = condition.args
        if isinstance(without_implicit_casts(left), tree.CaseTestExpr):
            return right
    return condition


@print_expr.register(tree.CaseTestExpr)
def _(expr: tree.CaseTestExpr, out: Printer, implicit: bool) -> None:
    out.put("CASE_TEST_EXPR")


@print_expr.register(tree.ArrayExpr)
def _(expr: tree.ArrayExpr, out: Printer, implicit: bool) -> None:
    out.put("ARRAY[")
    print_list(expr.elements, out, True)
    out.put("]")
    if not expr.elements:
        out.put(f"::{type_with_typmod(out.session, expr.type, -1)}")


@print_expr.register(tree.RowExpr)
def _(expr: tree.RowExpr, out: Printer, implicit: bool) -> None:
    columns = named_row_columns(Scope(out.session), expr.type) if expr.type != oids.RECORD else ()
    out.put("ROW(")
    separator = ""
    for number, arg in enumerate(expr.args):
        if number < len(columns) and columns[number].dropped:
            continue
        out.put(separator)
        print_top(arg, out, True)
        separator = ", "
    for column in columns[len(expr.args) :]:
        if not column.dropped:
            out.put(f"{separator}NULL")
            separator = ", "
    out.put(")")
    if expr.form is CoercionForm.EXPLICIT_CAST:
        out.put(f"::{type_with_typmod(out.session, expr.type, -1)}")


def print_list_top(exprs: Sequence[Expr], out: Printer, implicit: bool) -> None:
    for number, expr in enumerate(exprs):
        if number:
            out.put(", ")
        print_top(expr, out, implicit)


@print_expr.register(tree.RowCompareExpr)
def _(expr: tree.RowCompareExpr, out: Printer, implicit: bool) -> None:
    out.put("(ROW(")
    print_list_top(expr.left, out, True)
    out.put(f") {operator_name(out, expr.ops[0], expr.left[0].type, expr.right[0].type)} ROW(")
    print_list_top(expr.right, out, True)
    out.put("))")


@print_expr.register(tree.CoalesceExpr)
def _(expr: tree.CoalesceExpr, out: Printer, implicit: bool) -> None:
    out.put("COALESCE(")
    print_list(expr.args, out, True)
    out.put(")")


@print_expr.register(tree.MinMaxExpr)
def _(expr: tree.MinMaxExpr, out: Printer, implicit: bool) -> None:
    out.put("GREATEST(" if expr.greatest else "LEAST(")
    print_list(expr.args, out, True)
    out.put(")")


@print_expr.register(tree.SubscriptingRef)
def _(expr: tree.SubscriptingRef, out: Printer, implicit: bool) -> None:
    assert expr.container is not None
    parens = not isinstance(expr.container, (Var, tree.FieldSelect))
    out.put("(" if parens else "")
    print_expr(expr.container, out, implicit)
    out.put(")" if parens else "")
    for number, upper in enumerate(expr.upper):
        out.put("[")
        if expr.is_slice:
            lower = expr.lower[number]
            if lower is not None:
                print_expr(lower, out, False)
            out.put(":")
        if upper is not None:
            print_expr(upper, out, False)
        out.put("]")


@print_expr.register(tree.FieldSelect)
def _(expr: tree.FieldSelect, out: Printer, implicit: bool) -> None:
    arg = expr.arg
    assert arg is not None
    parens = not isinstance(arg, (tree.SubscriptingRef, tree.FieldSelect))
    out.put("(" if parens else "")
    print_expr(arg, out, True)
    out.put(")" if parens else "")
    name = expr.name
    if typefacts.is_complex(arg.type):
        columns = named_row_columns(Scope(out.session), arg.type)
        if expr.fieldnum <= len(columns):
            name = columns[expr.fieldnum - 1].name
    out.put(f".{quote_identifier(name)}")


@print_expr.register(tree.NamedArg)
def _(expr: tree.NamedArg, out: Printer, implicit: bool) -> None:
    assert expr.arg is not None
    out.put(f"{quote_identifier(expr.name)} => ")
    print_expr(expr.arg, out, implicit)
