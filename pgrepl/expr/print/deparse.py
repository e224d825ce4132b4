"""Typed trees as text: pg_get_expr and pg_get_viewdef.

`pretty` is the argument of PostgreSQL's functions: it leaves out parentheses that are not needed. Lines are broken (in
CASE, in queries) in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.facts.relation import relation as relation_of
from pgrepl.expr import stored
from pgrepl.expr.analyse.lookup import relation_rte
from pgrepl.expr.print.print_expr import UnknownForm, print_const, print_list
from pgrepl.expr.print.printer import INDENTED, PRETTY, Names, Printer, Style
from pgrepl.expr.tree import Const, Expr, Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgrepl.catalog.session.session import Session


def _style(pretty: bool) -> Style:
    return PRETTY if pretty else INDENTED


def load_forms() -> None:
    """Load the modules that print whole queries and other forms that a filter or a default seldom has. They are loaded
    only when an expression has one."""
    from pgrepl.expr.print import print_calls, print_query  # noqa: F401 they register their forms


def expression_text(
    session: Session, expr: Expr | tuple[Expr, ...], relation: Relation | None = None, pretty: bool = False
) -> str:
    """pg_get_expr(expr, relation [, pretty]). Several expressions, as in pg_index.indexprs, give a list."""
    exprs = expr if isinstance(expr, tuple) else (expr,)
    try:
        return _text(session, exprs, relation, pretty)
    except UnknownForm:
        load_forms()
        return _text(session, exprs, relation, pretty)


def _text(session: Session, exprs: tuple[Expr, ...], relation: Relation | None, pretty: bool) -> str:
    out = Printer(session, _style(pretty), [_names(relation)])
    print_list(exprs, out, False)
    return out.text()


def _names(relation: Relation | None) -> Names:
    """The column names that an expression over one relation uses (deparse_context_for)."""
    if relation is None:
        return Names((), [], [])
    rte = relation_rte(relation)
    return Names((rte,), [rte.name], [[None if c.dropped else c.name for c in rte.columns]])


def stored_expression_text(session: Session, value: Any, relid: int, pretty: bool = False) -> str:
    """pg_get_expr of an expression stored in a catalog column."""
    over = relation_of(session, relid) if relid else None
    return expression_text(session, stored.from_json(value, session), over, pretty)


def constant_text(session: Session, constant: Const) -> str:
    """A constant in a partition bound, printed without its type (get_const_expr with -1)."""
    out = Printer(session, INDENTED, [Names((), [], [])])
    print_const(constant, out, -1)
    return out.text()


def query_text(session: Session, query: Query, pretty: bool = False, result_names: Sequence[str] | None = None) -> str:
    """pg_get_viewdef(view [, pretty]), without the semicolon. `result_names` are the view's present column names."""
    from pgrepl.expr.print.print_query import print_whole_query  # a large module that plain expressions do not need

    load_forms()

    out = Printer(session, _style(pretty), [])
    print_whole_query(query, out, result_names=result_names)
    return out.text()
