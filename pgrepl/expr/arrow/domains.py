"""Casts to domains by columns: the constraints are tested for whole columns.

Where a value breaks a constraint Arrow's error is raised, so that rows are evaluated one by one, up to PostgreSQL's
error for the first of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.arrow.compiler import Columnar, Columns, NotColumnar, condition, storage_of
from pgrepl.expr.arrow.operations import columnar
from pgrepl.expr.context import Context
from pgrepl.expr.domains import constraints, test_of
from pgrepl.expr.walk import rewrite
from pgrepl.types.builtin import base_type_and_typmod
from pgrepl.types.lake_forms import form

Holds = Callable[[Any], bool]


def check_column(domain: int, array: Any, context: Context) -> None:
    """Raise the error of the first value of a column, in storage form, that is none of the domain's."""
    key = ("column", domain)
    if key not in context.domain_tests:
        context.domain_tests[key] = _test_or_none(domain)
    holds: Holds | None = context.domain_tests[key]
    test = test_of(domain, context)
    if test is None or (holds is not None and holds(array)):
        return
    for value in form(domain).from_array(array):
        test(value)


@columnar.register
def _(node: tree.CoerceToDomain) -> Columnar:
    import pyarrow as pa

    assert node.arg is not None
    arg, holds = columnar(node.arg), _test(node.type)
    if holds is None:
        return arg
    if arg.type != storage_of(*base_type_and_typmod(node.type, -1)):
        raise NotColumnar("a domain of another form")

    def run(columns: Columns) -> Any:
        value = arg.run(columns)
        if not holds(pa.array([value.as_py()], value.type) if isinstance(value, pa.Scalar) else value):
            raise pa.ArrowInvalid("a value that is none of the domain's")
        return value

    return Columnar(arg.typoid, arg.type, run)


def _test_or_none(domain: int) -> Holds | None:
    try:
        return _test(domain)
    except NotColumnar:
        return None


def _test(domain: int) -> Holds | None:
    """Whether all values of a column are the domain's, NULLs among them. None: it has no constraints."""
    not_null, checks = constraints(domain)
    tests = [condition(_over_column(expr)) for _, expr in checks]
    if not not_null and not tests:
        return None

    def holds(array: Any) -> bool:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not_null and array.null_count:
            return False
        try:
            return all(pc.all(test({1: array})).as_py() is not False for test in tests)
        except pa.ArrowException:  # an error for some value, maybe
            return False

    return holds


def _over_column(expr: tree.Expr) -> tree.Expr:
    """A constraint with column 1 as VALUE."""

    def visit(node: tree.Expr) -> tree.Expr | None:
        if isinstance(node, tree.CoerceToDomainValue):
            return tree.Var(node.type, typmod=node.typmod, collation=node.collation, attnum=1)
        return None

    return rewrite(expr, visit)
