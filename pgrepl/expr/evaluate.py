"""The evaluator: the typed tree compiled into Python closures.

    value = compile(expr, context)           # once
    value(row)                               # for each row

A closure takes an environment. Here it is a row, and a `Var` is its attnum-th member; a query passes `special`, which
compiles the nodes that only a query can answer (`Var`, `SubLink`, slots of aggregates) for environments of its own.

Logic is three-valued with None for NULL, strict functions are not called with NULL, CASE, COALESCE and AND are lazy,
and all arguments of a function are computed before NULLs among them are looked at, as PostgreSQL does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.expr import compile_assignments, compile_coercions, compile_composites, compile_logic, tree
from pgrepl.expr.compiler import Compiled, Compiler, Special, operator_function
from pgrepl.expr.context import Context
from pgrepl.types.values import hashable, sorted_values

if TYPE_CHECKING:
    from pgrepl.expr.functions.aggregates import Accumulator

__all__ = [
    "Compiled",
    "Context",
    "Special",
    "accumulator",
    "compile",
    "compile_rows",
    "compile_set",
    "evaluate",
    "hashable",
    "operator_function",
    "ordered_set",
    "sorted_values",
]

NODES = (
    compile_logic,
    compile_coercions,
    compile_composites,
    compile_assignments,
)  # importing them registers every node


def evaluate(expr: tree.Expr, row: Sequence[Any] = (), context: Context | None = None) -> Any:
    """The value of an expression over one row."""
    return compile(expr, context)(row)


def compile(expr: tree.Expr, context: Context | None = None, special: Special | None = None) -> Compiled:
    return Compiler(context or Context(), special).compile(expr)


def compile_set(
    expr: tree.Expr, context: Context | None = None, special: Special | None = None
) -> Callable[[Any], Iterable[Any]]:
    """The values of an expression that contains set-returning functions."""
    from pgrepl.expr import evaluate_sets

    return evaluate_sets.compile_set(expr, context, special)


def compile_rows(
    expr: tree.Expr,
    context: Context | None = None,
    special: Special | None = None,
    defined: tuple[tree.Column, ...] | None = None,
) -> Callable[[Any], Iterator[tuple[Any, ...] | None]]:
    """The rows of a function in FROM."""
    from pgrepl.expr import evaluate_sets

    return evaluate_sets.compile_rows(expr, context, special, defined)


def accumulator(node: tree.Aggref | tree.WindowFunc, context: Context) -> Accumulator:
    """A new state of an aggregate: `add(*values)` for each row, then `result()`."""
    from pgrepl.expr.functions.aggregates import new_accumulator

    return new_accumulator(node, context)


def ordered_set(node: tree.Aggref, direct: Sequence[Any], rows: Sequence[tuple[Any, ...]]) -> Any:
    """An ordered-set or hypothetical-set aggregate over rows that have been sorted."""
    from pgrepl.expr.functions.ordered_sets import ordered_set

    return ordered_set(node, direct, rows)
