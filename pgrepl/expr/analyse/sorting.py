"""ORDER BY, DISTINCT and GROUP BY keys: the target list entry of each, and the operators that they use
(parse_clause.c).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import namespace
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import Context, is_binary_coercible
from pgrepl.expr.analyse.coerce import IMPLICIT_CAST, coerce_type
from pgrepl.expr.analyse.kinds import ExprKind, aggregate_refused, window_refused
from pgrepl.expr.analyse.operators import compatible_operator
from pgrepl.expr.analyse.scope import Scope, column_by_name
from pgrepl.expr.analyse.transform import transform
from pgrepl.expr.tree import Aggref, Expr, SortGroup, Target, WindowFunc
from pgrepl.expr.walk import location_of, walk, walk_deep, without_implicit_casts
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql import nodes
from pgrepl.sql.location import expr_location
from pgrepl.sql.nodes import AConst, AConstKind, ColumnRef, NullsOrder, SortBy, SortDir
from pgrepl.types import builtin, oids
from pgrepl.types.builtin import Amop, OpClass

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.tree import SetOperation

BTREE = 403
HASH = 405

_STRATEGY_SYMBOLS = {1: "<", 2: "<=", 3: "=", 4: ">=", 5: ">"}


def default_opclass(typoid: int, method: int) -> OpClass | None:
    """The default operator class of a type, or of a type that it is binary coercible to (GetDefaultOpClass)."""
    typoid = lookup.base(typoid)
    exact = builtin.default_opclass(typoid, method)
    if exact is not None:
        return exact
    candidates = [
        c for c in builtin.opclasses if c.default and c.method == method and is_binary_coercible(typoid, c.intype)
    ]
    preferred = [c for c in candidates if lookup.is_preferred(lookup.category(typoid), c.intype)]
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
    typoid = lookup.base(typoid)
    if lookup.is_complex(typoid):
        parts = [sort_operators(session, a.type) for a in lookup.row_attributes(session, typoid) if not a.dropped]
        return _over(oids.RECORD, parts)
    element = lookup.element(typoid) if typoid not in (oids.INT2VECTOR, oids.OIDVECTOR) else 0
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
        operators = {a.strategy: a.operator for a in _own_members(btree)}
        return SortOperators(operators.get(1, 0), operators.get(3, 0), operators.get(5, 0), hashing is not None)
    if hashing is not None:
        operators = {a.strategy: a.operator for a in _own_members(hashing)}
        return SortOperators(0, operators.get(1, 0), 0, True)
    return SortOperators()


def _own_members(opclass: OpClass) -> list[Amop]:
    return [
        a
        for a in builtin.amops_of_family(opclass.family)
        if a.purpose == "s" and a.lefttype == a.righttype == opclass.intype
    ]


def btree_meanings(operator: int, session: Session | None = None) -> list[tuple[int, str]]:
    """The btree families of an operator, with its strategy there: < <= = >= > <> (get_op_btree_interpretation)."""
    meanings = [
        (a.family, _STRATEGY_SYMBOLS[a.strategy])
        for a in builtin.amops_of_operator(operator)
        if a.method == BTREE and a.purpose == "s"
    ]
    if meanings:
        return meanings
    known = builtin.operator_by_oid(operator) if session is None else namespace.operator(session, operator)
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
    row = builtin.opclass_by_oid(opclass)
    return family_member(row.family, row.intype, row.intype, strategy) if row is not None else 0


def equality_operator(opclass: int) -> int:
    """The = operator of an operator class."""
    row = builtin.opclass_by_oid(opclass)
    return opclass_operator(opclass, HASH_EQUAL if row is not None and row.method == HASH else EQUAL)


# --- sorting ----------------------------------------------------------------------------------------------------------


class TargetList:
    """The target list while clauses are analysed; they refer to entries, give literals a type, and add junk entries."""

    def __init__(self, targets: Sequence[Target] = ()) -> None:
        self.items = list(targets)

    def __getitem__(self, resno: int) -> Target:
        return next(t for t in self.items if t.resno == resno)

    def set_expr(self, resno: int, expr: Expr) -> None:
        self.items = [replace(t, expr=expr) if t.resno == resno else t for t in self.items]

    def add_junk(self, scope: Scope, expr: Expr) -> Target:
        target = Target(expr, "", scope.next_resno, junk=True)
        scope.next_resno += 1
        self.items.append(target)
        return target


def find_by_expression(scope: Scope, node: nodes.Expr, targets: TargetList, kind: ExprKind) -> Target:
    """The entry of an equal expression, or a new junk entry (findTargetlistEntrySQL99)."""
    expr = transform(scope, node, kind)
    for target in targets.items:
        if without_implicit_casts(target.expr) == expr:
            return target
    return targets.add_junk(scope, expr)


def find_by_name_or_position(scope: Scope, node: nodes.Expr, targets: TargetList, kind: ExprKind) -> Target:
    """The entry of a key: a name is first an output column, a number is a position (findTargetlistEntrySQL92)."""
    if isinstance(node, ColumnRef) and len(node.fields) == 1 and isinstance(node.fields[0], str):
        name = node.fields[0]
        if kind is not ExprKind.GROUP_BY or column_by_name(scope, name, node.location, local_only=True) is None:
            target = _by_name(scope, name, node.location, targets, kind)
            if target is not None:
                return target
    if isinstance(node, AConst):
        return _by_position(scope, node, targets, kind)
    return find_by_expression(scope, node, targets, kind)


def _by_name(scope: Scope, name: str, location: int, targets: TargetList, kind: ExprKind) -> Target | None:
    match: Target | None = None
    for target in targets.items:
        if target.junk or target.name != name:
            continue
        if match is None:
            match = target
        elif match.expr != target.expr:
            raise PgError("42702", f'{kind.title} "{name}" is ambiguous', location=location)
    if match is not None:
        _check_allowed(scope, match.expr, kind)
    return match


def _by_position(scope: Scope, constant: AConst, targets: TargetList, kind: ExprKind) -> Target:
    if constant.kind is not AConstKind.INTEGER:
        raise PgError("42601", f"non-integer constant in {kind.title}", location=constant.location)
    shown = [t for t in targets.items if not t.junk]
    position = int(constant.value or 0)
    if not 1 <= position <= len(shown):
        message = f"{kind.title} position {position} is not in select list"
        raise PgError("42P10", message, location=constant.location)
    _check_allowed(scope, shown[position - 1].expr, kind)
    return shown[position - 1]


def _check_allowed(scope: Scope, expr: Expr, kind: ExprKind) -> None:
    """Raises for an aggregate or window function that a clause does not allow (checkTargetlistEntrySQL92)."""
    if kind is not ExprKind.GROUP_BY:
        return
    for node, level in walk_deep(expr):
        if isinstance(node, Aggref) and node.levelsup == level:
            problem = aggregate_refused(kind, "aggregate functions", node.location)
            assert problem is not None
            raise problem
    for node in walk(expr):
        if isinstance(node, WindowFunc):
            problem = window_refused(kind, node.location)
            assert problem is not None
            raise problem


def transform_sort(
    scope: Scope, order_by: Sequence[SortBy], targets: TargetList, kind: ExprKind, *, by_expression: bool = False
) -> list[SortGroup]:
    """The keys of ORDER BY (transformSortClause)."""
    keys: list[SortGroup] = []
    find = find_by_expression if by_expression else find_by_name_or_position
    for item in order_by:
        add_sort_key(scope, find(scope, item.node, targets, kind), keys, targets, item)
    return keys


def add_sort_key(scope: Scope, target: Target, keys: list[SortGroup], targets: TargetList, item: SortBy) -> None:
    """Adds a key of ORDER BY with its operators (addTargetToSortList)."""
    expr = known_type(scope, target.expr)
    if expr is not target.expr:
        targets.set_expr(target.resno, expr)
    location = item.location if item.location >= 0 else expr_location(item.node)
    try:
        if item.dir is SortDir.USING:
            sortop, eqop, reverse = _using(scope, item.using, expr.type, location)
        else:
            reverse = item.dir is SortDir.DESC
            operators = sort_operators(scope.session, expr.type)
            _require_ordering(scope, operators.gt if reverse else operators.lt, expr.type)
            sortop, eqop = operators.gt if reverse else operators.lt, operators.eq
    except PgError as error:
        raise error.at(location) from None
    if in_sort_list(target.resno, sortop, keys):
        return
    nulls_first = reverse if item.nulls is NullsOrder.DEFAULT else item.nulls is NullsOrder.FIRST
    keys.append(SortGroup(target.resno, eqop, sortop, reverse, nulls_first))


def _using(scope: Scope, name: tuple[str, ...], typoid: int, location: int) -> tuple[int, int, bool]:
    operator = compatible_operator(scope, name, typoid, typoid, location)
    ordering = ordering_operator(operator.oid)
    if ordering is None:
        raise PgError(
            "42809",
            f"operator {name[-1]} is not a valid ordering operator",
            hint='Ordering operators must be "<" or ">" members of btree operator families.',
        )
    return operator.oid, ordering.eq, ordering.descending


def known_type(scope: Scope, expr: Expr) -> Expr:
    """The expression, as text where it is a literal of unknown type."""
    if expr.type != oids.UNKNOWN:
        return expr
    return coerce_type(scope, expr, expr.type, oids.TEXT, -1, Context.IMPLICIT, IMPLICIT_CAST, -1)


def _require_ordering(scope: Scope, operator: int, typoid: int) -> None:
    if not operator:
        raise PgError(
            "42883",
            f"could not identify an ordering operator for type {lookup.type_text(scope.session, typoid)}",
            hint="Use an explicit ordering operator or modify the query.",
        )


def equality_operators(scope: Scope, typoid: int, location: int) -> SortOperators:
    """The sort operators of a type, which must have at least = (get_sort_group_operators)."""
    operators = sort_operators(scope.session, typoid)
    if not operators.eq:
        text = lookup.type_text(scope.session, typoid)
        raise PgError("42883", f"could not identify an equality operator for type {text}", location=location)
    return operators


def in_sort_list(resno: int, sortop: int, keys: Sequence[SortGroup]) -> bool:
    """Whether a target is a sort key already (targetIsInSortList); sortop 0: by any operator."""
    for key in keys:
        if key.resno != resno:
            continue
        known = builtin.operator_by_oid(key.sortop)
        if sortop in (0, key.sortop) or (known is not None and sortop == known.commutator):
            return True
    return False


def add_group_key(scope: Scope, target: Target, keys: list[SortGroup], targets: TargetList, location: int) -> None:
    """Adds a key of GROUP BY with its operators (addTargetToGroupList)."""
    expr = known_type(scope, target.expr)
    if expr is not target.expr:
        targets.set_expr(target.resno, expr)
    if in_sort_list(target.resno, 0, keys):
        return
    operators = equality_operators(scope, expr.type, location)
    keys.append(SortGroup(target.resno, operators.eq, operators.lt))


def transform_distinct(
    scope: Scope, targets: TargetList, sort: Sequence[SortGroup], *, aggregate: bool = False
) -> list[SortGroup]:
    """As transformDistinctClause does: first the ORDER BY keys, then the rest of the select list."""
    keys: list[SortGroup] = []
    for key in sort:
        target = targets[key.resno]
        if target.junk:
            message = (
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list"
                if aggregate
                else "for SELECT DISTINCT, ORDER BY expressions must appear in select list"
            )
            raise PgError("42P10", message, location=location_of(target.expr))
        keys.append(key)
    for target in list(targets.items):
        if not target.junk:
            add_group_key(scope, target, keys, targets, location_of(target.expr))
    if not keys:
        what = "an aggregate with DISTINCT must have at least one argument" if aggregate else None
        raise PgError("42601", what or "SELECT DISTINCT must have at least one column")
    return keys


def transform_distinct_on(
    scope: Scope, exprs: Sequence[nodes.Expr], targets: TargetList, sort: Sequence[SortGroup]
) -> list[SortGroup]:
    """The keys of DISTINCT ON, in the order of ORDER BY (transformDistinctOnClause)."""
    wanted = [find_by_name_or_position(scope, e, targets, ExprKind.DISTINCT_ON).resno for e in exprs]
    mismatch = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions"
    keys: list[SortGroup] = []
    skipped = False
    for key in sort:
        if key.resno not in wanted:
            skipped = True
        elif skipped:
            raise PgError("42P10", mismatch, location=expr_location(exprs[wanted.index(key.resno)]))
        else:
            keys.append(key)
    for expr, resno in zip(exprs, wanted, strict=True):
        if in_sort_list(resno, 0, keys):
            continue
        if skipped:
            raise PgError("42P10", mismatch, location=expr_location(expr))
        add_group_key(scope, targets[resno], keys, targets, expr_location(expr))
    return keys
