"""The row filters of several publications as one test: a row passes if one of them is true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pgrepl.expr import evaluate
from pgrepl.expr.context import Context
from pgrepl.expr.tree import Expr

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
