"""Set-returning functions in expressions: ProjectSet.

Functions whose arguments contain no set-returning function run side by side, until the longest has ended; then, for
each resulting row, the functions that have their values as arguments; and so on. The values are appended to the row's
computed values.

    SELECT generate_series(1, generate_series(1, 3)), generate_series(1, 2)
           ^ second            ^ first                ^ first
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeGuard

from pgrepl.expr import tree
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import returns_set, rewrite
from pgrepl.query.local.env import Env, Slot
from pgrepl.query.local.evaluator import Evaluator

SetSource = Callable[[Env], Iterable[Any]]


class TargetSets:
    """The set-returning calls of some expressions; their values begin at slot `first`."""

    def __init__(self, exprs: Iterable[Expr], evaluator: Evaluator, first: int) -> None:
        self._slots: dict[Expr, Slot] = {}
        self._rounds: list[list[SetSource]] = []
        waiting = [expr for expr in exprs if returns_set(expr)]
        while waiting:
            ready: list[tree.FuncExpr | tree.OpExpr] = []
            for expr in waiting:
                _innermost(expr, ready)
            for call in ready:
                number = first + len(self._slots)
                self._slots[call] = Slot(call.type, typmod=call.typmod, collation=call.collation, number=number)
            self._rounds.append([evaluator.compile_set(call) for call in ready])
            waiting = [expr for expr in map(self._with_slots, waiting) if returns_set(expr)]

    def __len__(self) -> int:
        return len(self._slots)

    def after(self, expr: Expr) -> Expr:
        """The expression over rows that have the values."""
        changed = self._with_slots(expr)
        while changed is not expr:  # a call is known by what it looks like after the round before
            expr, changed = changed, self._with_slots(changed)
        return expr

    def _with_slots(self, expr: Expr) -> Expr:
        return rewrite(expr, lambda node: self._slots.get(node) if _is_call(node) else None)

    def expanded(self, env: Env) -> Iterable[Env]:
        found: Iterable[Env] = (env,)
        for sources in self._rounds:
            found = _round(sources, found)
        return found


def _is_call(node: Expr) -> TypeGuard[tree.FuncExpr | tree.OpExpr]:
    return isinstance(node, (tree.FuncExpr, tree.OpExpr)) and node.retset


def _innermost(expr: Expr, found: list[tree.FuncExpr | tree.OpExpr]) -> None:
    """Add the calls whose arguments return no sets."""

    def visit(node: Expr) -> Expr | None:
        if _is_call(node) and not any(map(returns_set, node.args)):
            if node not in found:
                found.append(node)
            return node
        return None

    rewrite(expr, visit)


def _round(sources: Sequence[SetSource], envs: Iterable[Env]) -> Iterator[Env]:
    for env in envs:
        for values in zip_longest(*[source(env) for source in sources]):
            yield Env(env.rows, env.outer, (*env.computed, *values))
