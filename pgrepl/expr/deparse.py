"""Typed trees as text: pg_get_expr, pg_get_viewdef, and the expressions of pg_get_constraintdef and pg_get_indexdef.

`pretty` is the argument of PostgreSQL's functions: None where it is left out, which breaks lines (of CASE) but keeps all
parentheses; False does neither, True does both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation
from pgrepl.expr.print_expr import print_const, print_expr, print_top
from pgrepl.expr.print_names import names_of_relation
from pgrepl.expr.print_query import print_whole_query
from pgrepl.expr.printer import INDENTED, PLAIN, PRETTY, Names, Printer, Style
from pgrepl.expr.tree import CoalesceExpr, Const, Expr, FuncExpr, MinMaxExpr, NullIfExpr, Query, SQLValueFunction
from pgrepl.sql.nodes import CoercionForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgrepl.catalog.session import Session


def _style(pretty: bool | None) -> Style:
    if pretty is None:
        return INDENTED
    return PRETTY if pretty else PLAIN


def expression_text(session: Session, expr: Expr, relation: Relation | None = None, pretty: bool | None = None) -> str:
    """As pg_get_expr(expr, relation [, pretty]) does."""
    out = Printer(session, _style(pretty), [names_of_relation(session, relation)])
    print_expr(expr, out, False)
    return out.text()


def check_text(session: Session, expr: Expr, relation: Relation | None, pretty: bool | None = None) -> str:
    """The condition of a CHECK constraint as pg_get_constraintdef has it, without `CHECK (` and `)`."""
    return expression_text(session, expr, relation, pretty)


def index_expression_text(session: Session, expr: Expr, relation: Relation | None, pretty: bool = False) -> str:
    """An expression in an index or a partition key: in parentheses unless it is a call."""
    text = expression_text(session, expr, relation, pretty)
    return text if looks_like_function(expr) else f"({text})"


def looks_like_function(expr: Expr) -> bool:
    if isinstance(expr, FuncExpr):
        return expr.form in (CoercionForm.EXPLICIT_CALL, CoercionForm.SQL_SYNTAX)
    return isinstance(expr, (NullIfExpr, CoalesceExpr, MinMaxExpr, SQLValueFunction))


def constant_text(session: Session, constant: Const) -> str:
    """A constant in a partition bound: its type does not need to be said (get_const_expr with -1)."""
    out = Printer(session, PLAIN, [Names((), [], [])])
    print_const(constant, out, -1)
    return out.text()


def query_text(
    session: Session, query: Query, pretty: bool | None = None, result_names: Sequence[str] | None = None
) -> str:
    """As pg_get_viewdef(view [, pretty]) does, without the semicolon; result_names are the view's columns today."""
    out = Printer(session, _style(pretty), [])
    print_whole_query(query, out, result_names=result_names)
    return out.text()


def expression_list_text(session: Session, exprs: Sequence[Expr], relation: Relation | None) -> str:
    """Expressions separated by commas, as pg_get_expr prints pg_index.indexprs."""
    out = Printer(session, INDENTED, [names_of_relation(session, relation)])
    for number, expr in enumerate(exprs):
        out.put(", " if number else "")
        print_top(expr, out, False)
    return out.text()
