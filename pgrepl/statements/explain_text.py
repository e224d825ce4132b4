"""Expressions in a plan: as the deparser prints them, with subqueries by number."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.expr import tree
from pgrepl.expr.deparse import load_forms
from pgrepl.expr.print_expr import Printed, print_expr
from pgrepl.expr.print_names import names_of_query, relation_text
from pgrepl.expr.printer import Names, Printer, Style
from pgrepl.expr.tree import Expr, Query, Rte, RteKind, SortGroup
from pgrepl.expr.walk import rewrite
from pgrepl.sql.nodes import SubLinkType
from pgrepl.sql.quote import quote_identifier

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


class Texts:
    """The texts of the expressions of one query level."""

    def __init__(self, session: Session, query: Query, parent: Texts | None) -> None:
        self.session = session
        self.query = query
        outside: list[Names] = [] if parent is None else parent.names
        self.names: list[Names] = [names_of_query(session, query, outside), *outside]
        self.subplans: list[tree.SubLink] = []

    def name(self, varno: int) -> str:
        return quote_identifier(self.alias(varno))

    def alias(self, varno: int) -> str:
        return self.names[0].relations[varno - 1] or "unnamed"

    def relation(self, relid: int) -> str:
        return relation_text(self.session, relid, ())

    def functions(self, entry: Rte) -> str:
        from pgrepl.types.builtin import proc_by_oid

        names = []
        for function in entry.functions:
            proc = proc_by_oid(function.func) if isinstance(function, tree.FuncExpr) else None
            names.append(proc.name if proc is not None else entry.name)
        return ", ".join(names)

    def text(self, expr: Expr) -> str:
        out = Printer(self.session, Style(), self.names, prefix=len(self.names) > 1 or len(self.query.rtable) > 1)
        load_forms()
        print_expr(self._without_subqueries(self.flat(expr)), out, True)
        return out.text()

    def sort_key(self, expr: Expr, key: SortGroup) -> str:
        from pgrepl.expr.print_query import print_direction

        out = Printer(self.session, Style(), self.names)
        print_direction(expr.type, key.sortop, key.nulls_first, out)
        return self.text(expr) + out.text()

    def flat(self, expr: Any) -> Any:
        """The expression with the columns of joins replaced by those of the joined relations."""

        def stands_for(node: Expr) -> Expr | None:
            if isinstance(node, tree.Var) and node.levelsup == 0 and node.attnum > 0:
                entry = self.query.rtable[node.varno - 1]
                if entry.kind is RteKind.JOIN:
                    meant = entry.join_vars[node.attnum - 1]
                    return rewrite(meant, stands_for) if meant is not None else None
                return replace(node, varno_written=0, attnum_written=0)
            return None

        return rewrite(expr, stands_for)

    def _without_subqueries(self, expr: Expr) -> Expr:
        def said(node: Expr) -> Expr | None:
            if not isinstance(node, tree.SubLink):
                return None
            if node not in self.subplans:
                self.subplans.append(node)
            name = f"SubPlan {self.subplans.index(node) + 1}"
            if node.kind in (SubLinkType.ANY, SubLinkType.ALL, SubLinkType.EXISTS):
                name = f"{node.kind.value.upper()} {name}"
            return Printed(node.type, typmod=node.typmod, collation=node.collation, text=f"({name})")

        return rewrite(expr, said)


def kilobytes(size: int) -> int:
    """As PostgreSQL shows them (BYTES_TO_KILOBYTES)."""
    return (size + 1023) // 1024
