"""WITH RECURSIVE: the first term, then the second over what the last round found, until a round finds nothing new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.commands.query.env import Env, Evaluator
from pgrepl.errors import unsupported
from pgrepl.expr.context import Context
from pgrepl.expr.tree import Cte, SetOperation
from pgrepl.expr.values import hashable

if TYPE_CHECKING:
    from pgrepl.commands.query.execute import Ctes, Row, Run


def compile_recursive(cte: Cte, context: Context, ctes: Ctes) -> Run:
    from pgrepl.commands.query.execute import compile_query, compile_set_operation

    operation = cte.query.set_operation
    if not isinstance(operation, SetOperation):
        return compile_query(cte.query, context, ctes)
    if cte.search is not None or cte.cycle is not None:
        raise unsupported("SEARCH or CYCLE of a recursive query")
    working: list[list[Row]] = [[]]
    ctes.runs[cte.name] = lambda env: working[-1]
    evaluator = Evaluator(context, cte.query, lambda nested: compile_query(nested, context, ctes))
    inner = _child(ctes)
    first = compile_set_operation(cte.query, operation.left, evaluator, inner)
    again = compile_set_operation(cte.query, operation.right, evaluator, inner)
    known: list[list[Row]] = []

    def run(env: Env) -> list[Row]:
        if known:
            return known[0]
        seen: set[Any] = set()

        def fresh(rows: list[Row]) -> list[Row]:
            if operation.all:
                return rows
            new = []
            for row in rows:
                key = tuple([hashable(v) for v in row])
                if key not in seen:
                    seen.add(key)
                    new.append(row)
            return new

        found = fresh(first(env))
        working[-1] = found
        result = list(found)
        while working[-1]:
            working[-1] = fresh(again(env))
            result += working[-1]
        known.append(result)
        return result

    return run


def _child(ctes: Ctes) -> Ctes:
    """The recursive query is itself a query: its terms see the WITH list one level up."""
    return type(ctes)(ctes)
