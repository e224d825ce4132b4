"""Typed trees as text: pg_get_expr and pg_get_viewdef.

`pretty` is the argument of PostgreSQL's functions: it leaves out parentheses that are not needed. Lines are broken (in
CASE, in queries) in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation
from pgrepl.expr.print_expr import print_const, print_list
from pgrepl.expr.print_names import names_of_relation
from pgrepl.expr.print_query import print_whole_query
from pgrepl.expr.printer import INDENTED, PRETTY, Names, Printer, Style
from pgrepl.expr.tree import Const, Expr, Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgrepl.catalog.session import Session


def _style(pretty: bool) -> Style:
    return PRETTY if pretty else INDENTED


def expression_text(
    session: Session, expr: Expr | tuple[Expr, ...], relation: Relation | None = None, pretty: bool = False
) -> str:
    """As pg_get_expr(expr, relation [, pretty]) does; of several expressions, as in pg_index.indexprs, a list."""
    out = Printer(session, _style(pretty), [names_of_relation(session, relation)])
    print_list(expr if isinstance(expr, tuple) else (expr,), out, False)
    return out.text()


def constant_text(session: Session, constant: Const) -> str:
    """A constant in a partition bound: its type does not need to be said (get_const_expr with -1)."""
    out = Printer(session, INDENTED, [Names((), [], [])])
    print_const(constant, out, -1)
    return out.text()


def query_text(session: Session, query: Query, pretty: bool = False, result_names: Sequence[str] | None = None) -> str:
    """As pg_get_viewdef(view [, pretty]) does, without the semicolon; result_names are the view's columns today."""
    out = Printer(session, _style(pretty), [])
    print_whole_query(query, out, result_names=result_names)
    return out.text()
