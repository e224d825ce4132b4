"""The common type of several expressions: CASE, COALESCE, UNION, ARRAY, IN, GREATEST (select_common_type)."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.casts import Context
from pgrepl.expr.coerce import IMPLICIT_CAST, can_coerce_one, coerce_type
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import location_of
from pgrepl.types import oids


def common_type(scope: Scope, exprs: Sequence[Expr], construct: str) -> int:
    """The common type, or an error that names the construct."""
    found, problem = _common(scope, exprs)
    if problem is not None:
        best, expr = problem
        one, other = (
            typefacts.type_text(scope.session, best),
            typefacts.type_text(scope.session, typefacts.base(expr.type)),
        )
        message = f"{construct} types {one} and {other} cannot be matched"
        raise PgError("42804", message, location=location_of(expr))
    return found


def common_type_or_none(scope: Scope, exprs: Sequence[Expr]) -> int:
    """The common type; 0 when there is none."""
    return _common(scope, exprs)[0]


def common_type_and_expr(scope: Scope, exprs: Sequence[Expr], construct: str) -> tuple[int, Expr]:
    """The common type and the first expression that has it."""
    found = common_type(scope, exprs, construct)
    return found, next((e for e in exprs if typefacts.base(e.type) == typefacts.base(found)), exprs[0])


def _common(scope: Scope, exprs: Sequence[Expr]) -> tuple[int, tuple[int, Expr] | None]:
    best = exprs[0].type
    if best != oids.UNKNOWN and all(e.type == best for e in exprs):
        return best, None
    best = typefacts.base(best)
    for expr in exprs[1:]:
        other = typefacts.base(expr.type)
        if other in (oids.UNKNOWN, best):
            continue
        if best == oids.UNKNOWN:
            best = other
        elif typefacts.category(other) != typefacts.category(best):
            return 0, (best, expr)
        elif (
            not typefacts.preferred(best)
            and can_coerce_one(best, other, Context.IMPLICIT, scope)
            and not can_coerce_one(other, best, Context.IMPLICIT, scope)
        ):
            best = other
    return (oids.TEXT if best == oids.UNKNOWN else best), None


def all_coercible(scope: Scope, exprs: Sequence[Expr], target: int) -> bool:
    """As verify_common_type does."""
    return all(can_coerce_one(e.type, target, Context.IMPLICIT, scope) for e in exprs)


def coerce_to_common(scope: Scope, expr: Expr, target: int, construct: str) -> Expr:
    """As coerce_to_common_type does."""
    if expr.type == target:
        return expr
    if can_coerce_one(expr.type, target, Context.IMPLICIT, scope):
        return coerce_type(scope, expr, expr.type, target, -1, Context.IMPLICIT, IMPLICIT_CAST, -1)
    one, other = typefacts.type_text(scope.session, expr.type), typefacts.type_text(scope.session, target)
    raise PgError("42846", f"{construct} could not convert type {one} to {other}", location=location_of(expr))


def common_typmod(exprs: Sequence[Expr], common: int) -> int:
    """The type modifier that all expressions share, else -1 (select_common_typmod)."""
    typmods = {e.typmod for e in exprs}
    return typmods.pop() if len(typmods) == 1 and all(e.type == common for e in exprs) else -1
