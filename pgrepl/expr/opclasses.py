"""Operator classes: a type's default class, and the < = > operators that sorting and grouping use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pgrepl.catalog import operators
from pgrepl.errors import PgError
from pgrepl.expr import lookup, typefacts
from pgrepl.expr.casts import is_binary_coercible
from pgrepl.frozen import frozen
from pgrepl.types import builtin, oids
from pgrepl.types.builtin import Amop, OpClass

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.tree import SetOperation

BTREE = 403
HASH = 405

_STRATEGY_SYMBOLS = {1: "<", 2: "<=", 3: "=", 4: ">=", 5: ">"}


def default_opclass(typoid: int, method: int) -> OpClass | None:
    """The default operator class of a type, or of a type that it is binary coercible to (GetDefaultOpClass)."""
    typoid = typefacts.base(typoid)
    exact = builtin.default_opclass(typoid, method)
    if exact is not None:
        return exact
    candidates = [
        c for c in builtin.opclasses if c.default and c.method == method and is_binary_coercible(typoid, c.intype)
    ]
    preferred = [c for c in candidates if typefacts.is_preferred(typefacts.category(typoid), c.intype)]
    if len(preferred) == 1:
        return preferred[0]
    return candidates[0] if not preferred and len(candidates) == 1 else None


@frozen
class SortOperators:
    """The < = > operators of a type; 0: the type has none. hashable: it can be grouped by hashing."""

    lt: int = 0
    eq: int = 0
    gt: int = 0
    hashable: bool = False


def sort_operators(session: Session, typoid: int) -> SortOperators:
    """The sort operators as lookup_type_cache finds them: by the btree class, or = by the hash class. Arrays and rows
    need those of their elements and fields."""
    typoid = typefacts.base(typoid)
    if typefacts.is_complex(typoid):
        parts = [sort_operators(session, a.type) for a in lookup.row_attributes(session, typoid) if not a.dropped]
        return _over(oids.RECORD, parts)
    element = typefacts.element(typoid) if typoid not in (oids.INT2VECTOR, oids.OIDVECTOR) else 0
    if element:
        return _over(typoid, [sort_operators(session, element)])
    return _sort_operators(typoid)


def _over(typoid: int, parts: Sequence[SortOperators]) -> SortOperators:
    """The operators of an array or row type that those of its parts leave."""
    if not all(part.eq for part in parts):
        return SortOperators()
    whole, hashable = _sort_operators(typoid), all(part.hashable for part in parts)
    if not all(part.lt for part in parts):
        return SortOperators(0, whole.eq, 0, hashable)
    return replace(whole, hashable=hashable)


def check_recursive_union(session: Session, operation: SetOperation) -> None:
    """Check that the rows of a recursive UNION can be hashed (generate_recursion_path)."""
    if not operation.all and not all(sort_operators(session, column.type).hashable for column in operation.columns):
        raise PgError("0A000", "could not implement recursive UNION", detail="All column datatypes must be hashable.")


def _sort_operators(typoid: int) -> SortOperators:
    hashing = default_opclass(typoid, HASH)
    btree = default_opclass(typoid, BTREE)
    if btree is not None:
        found = {a.strategy: a.operator for a in _own_members(btree)}
        return SortOperators(found.get(1, 0), found.get(3, 0), found.get(5, 0), hashing is not None)
    if hashing is not None:
        found = {a.strategy: a.operator for a in _own_members(hashing)}
        return SortOperators(0, found.get(1, 0), 0, True)
    return SortOperators()


def _own_members(opclass: OpClass) -> list[Amop]:
    return [
        a
        for a in builtin.amops_of_family(opclass.family)
        if a.purpose == "s" and a.lefttype == a.righttype == opclass.intype
    ]


def btree_meanings(operator: int, session: Session | None = None) -> list[tuple[int, str]]:
    """The btree families of an operator, with its strategy there: < <= = >= > <> (get_op_btree_interpretation)."""
    found = [
        (a.family, _STRATEGY_SYMBOLS[a.strategy])
        for a in builtin.amops_of_operator(operator)
        if a.method == BTREE and a.purpose == "s"
    ]
    if found:
        return found
    known = builtin.operator_by_oid(operator) if session is None else operators.operator(session, operator)
    if known is None or not known.negator:
        return []
    return [
        (a.family, "<>")
        for a in builtin.amops_of_operator(known.negator)
        if a.method == BTREE and a.purpose == "s" and a.strategy == 3
    ]


@frozen
class OrderingOperator:
    """The operator in ORDER BY … USING: its direction, and the = operator of its class."""

    eq: int
    descending: bool


@lru_cache(maxsize=512)
def ordering_operator(operator: int) -> OrderingOperator | None:
    """The sort order of an operator in ORDER BY … USING. None: it is not the < or > of a btree class
    (get_equality_op_for_ordering_op)."""
    for member in builtin.amops_of_operator(operator):
        if member.method == BTREE and member.purpose == "s" and member.strategy in (1, 5):
            for other in builtin.amops_of_family(member.family):
                if other.strategy == 3 and (other.lefttype, other.righttype) == (member.lefttype, member.righttype):
                    return OrderingOperator(other.operator, member.strategy == 5)
    return None


LESS, LESS_EQUAL, EQUAL, GREATER_EQUAL, GREATER = 1, 2, 3, 4, 5  # strategies of btree classes
HASH_EQUAL = 1


@lru_cache(maxsize=512)
def family_member(family: int, left: int, right: int, strategy: int) -> int:
    """The operator of a family for two input types; 0: it has none (get_opfamily_member)."""
    for amop in builtin.amops_of_family(family):
        if (amop.lefttype, amop.righttype, amop.strategy, amop.purpose) == (left, right, strategy, "s"):
            return amop.operator
    return 0


def opclass_operator(opclass: int, strategy: int) -> int:
    """The operator of a class over its own input type."""
    found = builtin.opclass_by_oid(opclass)
    return family_member(found.family, found.intype, found.intype, strategy) if found is not None else 0


def equality_operator(opclass: int) -> int:
    """The = operator of an operator class."""
    found = builtin.opclass_by_oid(opclass)
    return opclass_operator(opclass, HASH_EQUAL if found is not None and found.method == HASH else EQUAL)
