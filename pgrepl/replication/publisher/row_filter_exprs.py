"""The row filters of several publications as one test: a row passes if one of them is true."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.expr import evaluate
from pgrepl.expr.context import Context
from pgrepl.expr.tree import Expr

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.arrow.program import Program
    from pgrepl.replication.publisher.plan import SendPlan

Test = Callable[[tuple[Any, ...]], bool]


def any_true(exprs: Sequence[Expr], context: Context) -> Test:
    """Whether a row passes; without a filter every row does."""
    tests = [evaluate.compile(expr, context) for expr in exprs]
    if not tests:
        return lambda row: True
    if len(tests) == 1:
        only = tests[0]
        return lambda row: only(row) is True
    return lambda row: any(test(row) is True for test in tests)


def by_columns(session: Session, plan: SendPlan) -> dict[str, Program]:
    """The row filters that ask no session, by operation. What Arrow does not evaluate as PostgreSQL does, the evaluator
    evaluates row by row."""
    from pgrepl.expr.arrow.program import any_is_true, program_of
    from pgrepl.expr.walk import map_attnums

    found = {}
    own = {n: attnum for n, attnum in enumerate(plan.from_attnums, 1) if attnum}
    for operation, exprs in plan.filters.items():
        program = program_of(map_attnums(any_is_true(exprs), own), Context(session))
        if program is not None:
            found[operation] = program
    return found


def are_columnar(programs: Iterable[Program]) -> bool:
    """Whether Arrow evaluates all of the conditions."""
    return all(program.is_columnar for program in programs)
