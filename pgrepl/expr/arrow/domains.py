"""The constraints of domains, tested for whole columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.expr.arrow.program import none_is_false, program_of
from pgrepl.expr.context import Context
from pgrepl.expr.domains import check_value, constraints, session_context
from pgrepl.expr.tree import CoerceToDomainValue, Expr, Var
from pgrepl.expr.walk import rewrite
from pgrepl.types.lake_forms import form

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

Holds = Callable[[Any], bool]


def check_column(domain: int, array: Any, session: Session) -> None:
    """Raise the error of the first value of a column, in storage form, that is none of the domain's."""
    context = session_context(session)
    key = ("column", domain)
    if key not in context.domain_tests:
        context.domain_tests[key] = _test(domain, context)
    holds: Holds | None = context.domain_tests[key]
    if holds is None or not holds(array):
        for value in form(domain).from_array(array):
            check_value(domain, value, session)


def over_column(expr: Expr, attnum: int) -> Expr:
    """A constraint with a column as VALUE."""

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, CoerceToDomainValue):
            return Var(node.type, typmod=node.typmod, collation=node.collation, attnum=attnum)
        return None

    return rewrite(expr, visit)


def _test(domain: int, context: Context) -> Holds | None:
    """Whether all values of a column are the domain's; None: that is known of single values only."""
    not_null, checks = constraints(domain)
    test = None
    if checks:
        program = program_of(none_is_false([over_column(expr, 1) for _, expr in checks]), context)
        if program is None:
            return None
        test = program.test({1: form(domain)})

    def holds(array: Any) -> bool:
        if not_null and array.null_count:
            return False
        try:
            return test is None or test({1: array}, len(array)).true_count == len(array)
        except PgError:  # raised again for the value that it is about
            return False

    return holds
