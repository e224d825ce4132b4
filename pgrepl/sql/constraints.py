"""Constraint attributes: joins `DEFERRABLE`, `INITIALLY DEFERRED` and their like to the column constraint before
them."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.errors import PgError
from pgrepl.sql.nodes import Constraint, ConstrType

_WITH_ATTRIBUTES = frozenset({ConstrType.PRIMARY, ConstrType.UNIQUE, ConstrType.EXCLUSION, ConstrType.FOREIGN})
_DEFERRABILITY = frozenset({ConstrType.ATTR_DEFERRABLE, ConstrType.ATTR_NOT_DEFERRABLE})
_INITIALLY = frozenset({ConstrType.ATTR_DEFERRED, ConstrType.ATTR_IMMEDIATE})
_ATTRIBUTES = _DEFERRABILITY | _INITIALLY


def transform_constraint_attrs(constraints: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    """A column's constraints, with the attributes written between them merged in (as transformConstraintAttrs does)."""
    done: list[Constraint] = []
    seen: set[ConstrType] = set()
    for constraint in constraints:
        if constraint.kind not in _ATTRIBUTES:
            done.append(constraint)
            seen = set()
            continue
        if not done or done[-1].kind not in _WITH_ATTRIBUTES:
            raise PgError("42601", f"misplaced {constraint.kind.value} clause", location=constraint.location)
        done[-1] = _with_attribute(done[-1], constraint, seen)
        seen.add(constraint.kind)
    return tuple(done)


def _with_attribute(constraint: Constraint, attribute: Constraint, seen: set[ConstrType]) -> Constraint:
    """`seen`: the attributes that stand between the constraint and this one."""
    kind = attribute.kind
    if kind in _DEFERRABILITY and seen & _DEFERRABILITY:
        message = "multiple DEFERRABLE/NOT DEFERRABLE clauses not allowed"
        raise PgError("42601", message, location=attribute.location)
    if kind in _INITIALLY and seen & _INITIALLY:
        message = "multiple INITIALLY IMMEDIATE/DEFERRED clauses not allowed"
        raise PgError("42601", message, location=attribute.location)
    if {kind, *seen} >= {ConstrType.ATTR_NOT_DEFERRABLE, ConstrType.ATTR_DEFERRED}:
        message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE"
        raise PgError("42601", message, location=attribute.location)
    deferred = kind is ConstrType.ATTR_DEFERRED
    return replace(
        constraint,
        deferrable=constraint.deferrable or deferred or kind is ConstrType.ATTR_DEFERRABLE,
        initially_deferred=constraint.initially_deferred or deferred,
    )
