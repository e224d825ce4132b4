"""Parts of raw trees: an expression's location (exprLocation), constraint attributes, and values of options
(define.c).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.sql.keywords import near
from pgrepl.sql.scanner import scan
from pgrepl.types.numbers import read_oid


def expr_location(node: object) -> int:
    """The 0-based offset of the leftmost token, or -1. Most nodes know it themselves."""
    if isinstance(node, (list, tuple)):
        return next((location for location in map(expr_location, node) if location >= 0), -1)
    location: int = getattr(node, "location", -1)
    if isinstance(node, nodes.AExpr):
        return leftmost(location, expr_location(node.lexpr))
    if isinstance(node, (nodes.BoolExpr, nodes.FuncCall)):
        return leftmost(location, expr_location(node.args))
    if isinstance(node, nodes.TypeCast):
        return leftmost(expr_location(node.arg), node.type_name.location, location)
    if isinstance(node, (nodes.NullTest, nodes.BooleanTest, nodes.IsDocument, nodes.NamedArg)):
        return leftmost(location, expr_location(node.arg))
    if isinstance(node, nodes.CollateClause):
        return expr_location(node.arg)
    if isinstance(node, nodes.SubLink):
        return leftmost(expr_location(node.test), location)
    if isinstance(node, nodes.MultiAssign):
        return expr_location(node.source)
    if isinstance(node, nodes.SortBy):
        return expr_location(node.node)
    return -1 if isinstance(node, nodes.AIndirection) else location


def leftmost(*locations: int) -> int:
    return min((location for location in locations if location >= 0), default=-1)


# --- constraints ------------------------------------------------------------------------------------------------------


_WITH_ATTRIBUTES = frozenset(
    {nodes.ConstrType.PRIMARY, nodes.ConstrType.UNIQUE, nodes.ConstrType.EXCLUSION, nodes.ConstrType.FOREIGN}
)
_DEFERRABILITY = frozenset({nodes.ConstrType.ATTR_DEFERRABLE, nodes.ConstrType.ATTR_NOT_DEFERRABLE})
_INITIALLY = frozenset({nodes.ConstrType.ATTR_DEFERRED, nodes.ConstrType.ATTR_IMMEDIATE})
_ENFORCEMENT = frozenset({nodes.ConstrType.ATTR_ENFORCED, nodes.ConstrType.ATTR_NOT_ENFORCED})
_ATTRIBUTES = _DEFERRABILITY | _INITIALLY | _ENFORCEMENT
_WITH_ENFORCEMENT = frozenset({nodes.ConstrType.CHECK, nodes.ConstrType.FOREIGN})


def transform_constraint_attrs(constraints: tuple[nodes.Constraint, ...]) -> tuple[nodes.Constraint, ...]:
    """A column's constraints, with the attributes written between them merged in (as transformConstraintAttrs does)."""
    done: list[nodes.Constraint] = []
    seen: set[nodes.ConstrType] = set()
    for constraint in constraints:
        if constraint.kind not in _ATTRIBUTES:
            done.append(constraint)
            seen = set()
            continue
        fitting = _WITH_ENFORCEMENT if constraint.kind in _ENFORCEMENT else _WITH_ATTRIBUTES
        if not done or done[-1].kind not in fitting:
            raise PgError("42601", f"misplaced {constraint.kind.value} clause", location=constraint.location)
        done[-1] = _with_attribute(done[-1], constraint, seen)
        seen.add(constraint.kind)
    return tuple(done)


def _with_attribute(
    constraint: nodes.Constraint, attribute: nodes.Constraint, seen: set[nodes.ConstrType]
) -> nodes.Constraint:
    """`seen`: the attributes that stand between the constraint and this one."""
    kind = attribute.kind
    if kind in _DEFERRABILITY and seen & _DEFERRABILITY:
        message = "multiple DEFERRABLE/NOT DEFERRABLE clauses not allowed"
        raise PgError("42601", message, location=attribute.location)
    if kind in _INITIALLY and seen & _INITIALLY:
        message = "multiple INITIALLY IMMEDIATE/DEFERRED clauses not allowed"
        raise PgError("42601", message, location=attribute.location)
    if kind in _ENFORCEMENT:
        if seen & _ENFORCEMENT:
            message = "multiple ENFORCED/NOT ENFORCED clauses not allowed"
            raise PgError("42601", message, location=attribute.location)
        if kind is nodes.ConstrType.ATTR_ENFORCED:
            return constraint
        return replace(constraint, enforced=False, skip_validation=True)
    if {kind, *seen} >= {nodes.ConstrType.ATTR_NOT_DEFERRABLE, nodes.ConstrType.ATTR_DEFERRED}:
        message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE"
        raise PgError("42601", message, location=attribute.location)
    deferred = kind is nodes.ConstrType.ATTR_DEFERRED
    return replace(
        constraint,
        deferrable=constraint.deferrable or deferred or kind is nodes.ConstrType.ATTR_DEFERRABLE,
        initially_deferred=constraint.initially_deferred or deferred,
    )


def refuse_newer(query: str, place: int) -> None:
    """Refuse what only PostgreSQL 18 has, where 17 finds the first word that it does not expect."""
    if place >= 0:
        _, _, start, end = next(scan(query[place:]))
        raise near("syntax error", query, place + start, place + end)


# --- def elem ---------------------------------------------------------------------------------------------------------


INT8_MIN, INT8_MAX = -(2**63), 2**63 - 1


def type_name_to_string(name: nodes.TypeName) -> str:
    """A type as it was written, `pg_catalog.int4`, `t.a%TYPE`, `foo[]`, as TypeNameToString does."""
    text = ".".join(name.names)
    if name.pct_type:
        text += "%TYPE"
    return text + ("[]" if name.array_bounds else "")


def get_string(option: nodes.DefElem) -> str:
    value = option.value
    if value is None:
        raise PgError("42601", f"{option.name} requires a parameter")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, nodes.FloatText):
        return value.text
    if isinstance(value, nodes.TypeName):
        return type_name_to_string(value)
    if isinstance(value, tuple):
        return ".".join(str(part) for part in value)
    return str(value)


def get_boolean(option: nodes.DefElem) -> bool:
    value = option.value
    if value is None:
        return True
    if isinstance(value, int) and not isinstance(value, bool):
        if value in (0, 1):
            return bool(value)
    else:
        word = get_string(option).lower()
        if word in ("true", "on"):
            return True
        if word in ("false", "off"):
            return False
    raise PgError("42601", f"{option.name} requires a Boolean value")


def get_streaming(option: nodes.DefElem) -> str:
    """f, t or p: a boolean, or the word `parallel` (defGetStreamingMode)."""
    modes: dict[object, str] = {"false": "f", "off": "f", "true": "t", "on": "t", "parallel": "p", 0: "f", 1: "t"}
    value = option.value
    if value is None:
        return "t"
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    mode = modes.get(value if is_integer else get_string(option).lower())
    if mode is None:
        raise PgError("42601", f'{option.name} requires a Boolean value or "parallel"')
    return mode


def get_int64(option: nodes.DefElem) -> int:
    value = option.value
    if isinstance(value, nodes.FloatText):
        return _int8(value.text)
    if isinstance(value, int) and not isinstance(value, bool):
        if not INT8_MIN <= value <= INT8_MAX:
            raise PgError("22003", f'value "{value}" is out of range for type bigint')
        return value
    raise PgError("42601", f"{option.name} requires a numeric value")


def get_int32(option: nodes.DefElem) -> int:
    value = option.value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise PgError("42601", f"{option.name} requires an integer value")


def get_object_id(option: nodes.DefElem) -> int:
    value = option.value
    if isinstance(value, nodes.FloatText):
        return read_oid(value.text)
    if isinstance(value, int) and not isinstance(value, bool):
        return value % 2**32
    raise PgError("42601", f"{option.name} requires a numeric value")


def _int8(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise PgError("22P02", f'invalid input syntax for type bigint: "{text}"') from None
    if not INT8_MIN <= number <= INT8_MAX:
        raise PgError("22003", f'value "{text}" is out of range for type bigint')
    return number


def get_qualified_name(option: nodes.DefElem) -> tuple[str, ...]:
    value = option.value
    if value is None:
        raise PgError("42601", f"{option.name} requires a parameter")
    if isinstance(value, nodes.TypeName):
        return value.names
    if isinstance(value, tuple):
        return value
    if isinstance(value, str):
        return (value,)
    raise PgError("42601", f"argument of {option.name} must be a name")


def get_type_name(option: nodes.DefElem) -> nodes.TypeName:
    value = option.value
    if value is None:
        raise PgError("42601", f"{option.name} requires a parameter")
    if isinstance(value, nodes.TypeName):
        return value
    if isinstance(value, str):
        return nodes.TypeName((value,))
    raise PgError("42601", f"argument of {option.name} must be a type name")


def conflicting(option: nodes.DefElem) -> NoReturn:
    """The error for an option given twice (errorConflictingDefElem)."""
    raise PgError("42601", "conflicting or redundant options", location=option.location)
