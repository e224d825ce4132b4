"""The constraints of domains, tested wherever a value becomes one of the domain: casts and assignments
(CoerceToDomain), and input functions (domain_in)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.expr.compiler import Compiler
from pgrepl.expr.context import Context
from pgrepl.expr.stored import from_json
from pgrepl.expr.tree import CoerceToDomainValue, Expr
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.names import format_type
from pgrepl.types.user_types import UserType, described

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

Test = Callable[[Any], None]

_CONTEXT = ("domain tests",)  # of `derived`


def domain_value(typoid: int, typmod: int, collation: int) -> CoerceToDomainValue:
    """The node of VALUE in the constraints of a domain over this type."""
    return CoerceToDomainValue(typoid, typmod=typmod, collation=collation)


def test_of(domain: int, context: Context) -> Test | None:
    """The function that raises PostgreSQL's error for a value, NULL included, that is none of the domain's. None: the
    domain has no constraints. It is compiled once in a context."""
    known = context.domain_tests
    if domain not in known:
        known[domain] = _compiled(domain, context)
    test: Test | None = known[domain]
    return test


def _compiled(domain: int, context: Context) -> Test | None:
    not_null, exprs = constraints(domain)
    checks = [(name, Compiler(context, None).compile(expr)) for name, expr in exprs]
    if not not_null and not checks:
        return None

    def test(value: Any) -> None:
        if value is None and not_null:
            raise _fault("23502", domain, f"domain {_name(domain, context)} does not allow null values")
        for name, check in checks:
            try:
                holds = check((value,))
            except PgError as error:
                error.is_hard = True
                raise
            if holds is False:
                message = f'value for domain {_name(domain, context)} violates check constraint "{name}"'
                raise _fault("23514", domain, message, name)

    return test


def check_value(domain: int, value: Any, session: Session) -> None:
    """Test one value (domain_check). The caller has imported evaluate.py, which knows how nodes are compiled."""
    test = test_of(domain, session_context(session))
    if test is not None:
        test(value)


def session_context(session: Session) -> Context:
    """The context in which constraints are compiled for the session, until definitions, settings, role or transaction
    change."""
    style, role = session.text_style, session.role
    known = session.derived.get(_CONTEXT)
    if known is None or known[0] is not session or known[1] is not style or known[2] != role:
        known = session.derived[_CONTEXT] = session, style, role, Context(session)
    context: Context = known[3]
    return context


@cache
def constraints(domain: int) -> tuple[bool, tuple[tuple[str, Expr], ...]]:
    """Whether the domain is NOT NULL, and its CHECK constraints: of the domain below before its own, each by their
    names (load_domaintype_info)."""
    levels = list(_levels(domain))
    checks = []
    for typoid, _ in reversed(levels):
        known = described(typoid)
        if known is not None and isinstance(typoid, UserType):
            checks += [(name, from_json(json.loads(text), typoid.types)) for name, text in known.checks]
    return any(row.notnull for _, row in levels), tuple(checks)


def _levels(domain: int) -> Iterator[tuple[int, Any]]:
    """The domain and the domains that it is over."""
    row = type_by_oid(domain)
    while row is not None and row.typtype == "d":
        yield domain, row
        domain = row.basetype
        row = type_by_oid(domain)


def _name(domain: int, context: Context) -> str:
    if context.has_session:
        from pgrepl.expr.typefacts import type_text

        return type_text(context.session, domain)
    return format_type(domain)


def _fault(sqlstate: str, domain: int, message: str, constraint: str | None = None) -> PgError:
    row = type_by_oid(domain)
    assert row is not None
    return PgError(sqlstate, message, schema=row.schema, datatype=row.name, constraint=constraint)
