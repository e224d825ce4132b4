"""A query, compiled once and run as often as the query around it needs.

run = compile_query(query, context)
rows = run(Env([], None))      # tuples of Python values, one for each column
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.expr import tree
from pgrepl.expr.context import Context
from pgrepl.expr.tree import Query
from pgrepl.query.local.env import Compiled, Env, Row, Run
from pgrepl.query.local.evaluator import Evaluator
from pgrepl.query.local.select import compile_select

if TYPE_CHECKING:
    from pgrepl.query.local.row_locks import RowLocker


def compile_query(query: Query, context: Context, *, of_catalogs: bool = False) -> Run:
    return QueryEvaluator(context, query, of_catalogs=of_catalogs).play()


class QueryEvaluator(Evaluator):
    """An evaluator that can run subqueries."""

    def play(self) -> Run:
        query = self.query
        if query.row_marks:
            return self._locking()
        return self._compiled(query, None)

    def _compiled(self, query: Query, locker: RowLocker | None) -> Run:
        if query.ctes:
            from pgrepl.query.local.with_queries import compile_ctes

            compile_ctes(self)
        if query.set_operation is not None:
            from pgrepl.query.local.setops import compile_set_operation

            return compile_set_operation(query, self)
        return compile_select(query, self, locker)

    def _locking(self) -> Run:
        """A query with FOR UPDATE, or another locking clause."""
        from pgrepl.query.local.row_locks import RowLocker, with_places

        query, marks = with_places(self.query)
        shown = tuple(replace(target, junk=False) for target in query.targets)

        def again(other: Query, env: Env) -> Iterable[Row]:
            return QueryEvaluator(self.context, replace(other, targets=shown), self.around).play()(env)

        if self.context.session.instruments is not None:
            self.context.session.instruments.stands_for(query, self.query)
        locker = RowLocker(self.context.session, query, marks, again)
        return QueryEvaluator(self.context, query, self.around)._compiled(query, locker)

    def sublink(self, link: tree.SubLink) -> Compiled:
        from pgrepl.query.local.sublinks import compile_sublink

        return compile_sublink(link, self)
