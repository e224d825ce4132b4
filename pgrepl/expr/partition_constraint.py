"""The order of partitions, and the constraint that a bound implies for its rows (get_partition_qual).

A range `FROM (1, 5) TO (1, 10)` over (a, b) says `a IS NOT NULL AND b IS NOT NULL AND a = 1 AND b >= 5 AND b < 10`. A
default partition says NOT of what its siblings say. Constraints of ancestors come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cmp_to_key
from typing import Any

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_class, pg_inherits
from pgrepl.expr import tree
from pgrepl.expr.analyse.sorting import EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, opclass_operator
from pgrepl.expr.catalog_trees import (
    MAXVALUE,
    MINVALUE,
    VALUE,
    KeyColumn,
    PartitionBound,
    PartitionKey,
    RangeDatum,
    bound_from_json,
    partition_key,
)
from pgrepl.expr.evaluate.compiler import operator_function
from pgrepl.expr.print.deparse import expression_text
from pgrepl.expr.walk import map_attnums
from pgrepl.ground.frozen import frozen
from pgrepl.sql.nodes import BoolOp, CoercionForm, NullTestType
from pgrepl.types import oids
from pgrepl.types.builtin import opclass_by_oid, procs_by_name, type_by_oid

Compare = Callable[[Any, Any], int]


def comparisons(key: PartitionKey) -> tuple[Compare, ...]:
    """The comparison function of each key column."""
    return tuple(_comparison(column) for column in key.columns)


def _comparison(column: KeyColumn) -> Compare:
    """The comparison by the < and = of the column's operator class."""
    less = operator_function(opclass_operator(column.opclass, LESS), None, column.type)
    equal = operator_function(opclass_operator(column.opclass, EQUAL), None, column.type)

    def compare(one: Any, two: Any) -> int:
        if equal(one, two):
            return 0
        return -1 if less(one, two) else 1

    return compare


def compare_range(
    compare: Sequence[Compare], one: Sequence[RangeDatum], lower1: bool, two: Sequence[RangeDatum], lower2: bool
) -> int:
    """Compares range bounds as partition_rbound_cmp does: <0, 0 or >0. The absolute value is the number of the column
    that decided. An upper bound is less than an equal lower one."""
    result, number = 0, 0
    for number, (a, b) in enumerate(zip(one, two, strict=True), 1):
        if a.kind != b.kind:
            return number if a.kind > b.kind else -number
        if a.value is None or b.value is None:
            break
        result = compare[number - 1](a.value.value, b.value.value)
        if result:
            break
    if result == 0 and lower1 != lower2:
        result = 1 if lower1 else -1
    return 0 if result == 0 else number if result > 0 else -number


@frozen
class PartitionDesc:
    """The partitions of a parent in the order of their bounds; the default partition last."""

    key: PartitionKey
    oids: tuple[int, ...]
    bounds: tuple[PartitionBound, ...]

    @property
    def default(self) -> int:
        """The default partition, 0 when there is none."""
        return next((oid for oid, bound in zip(self.oids, self.bounds, strict=True) if bound.default), 0)


def partition_desc(session: Session, parent: int) -> PartitionDesc:
    """The partitions of a table in the order of their bounds (RelationBuildPartitionDesc)."""
    key = partition_key(session, parent)
    if key is None:
        raise LookupError(f"relation {parent} is not partitioned")
    bounds: list[tuple[int, PartitionBound]] = []
    children = sorted(row.inhrelid for row in store.rows(session, pg_inherits, inhparent=parent))
    for oid in children:
        row = store.one(session, pg_class, oid=oid)
        if row is not None and row.relpartbound is not None:
            bounds.append((oid, bound_from_json(row.relpartbound, session)))
    bounds = _in_order(key, bounds)
    return PartitionDesc(key, tuple(oid for oid, _ in bounds), tuple(bound for _, bound in bounds))


def leaf_partitions(session: Session, parent: int) -> Iterator[Relation]:
    """The leaf partitions of a partitioned table, in scan order."""
    for oid in partition_desc(session, parent).oids:
        part = relation(session, oid)
        if part.kind == "p":
            yield from leaf_partitions(session, oid)
        else:
            yield part


def _in_order(key: PartitionKey, bounds: list[tuple[int, PartitionBound]]) -> list[tuple[int, PartitionBound]]:
    default = [item for item in bounds if item[1].default]
    rest = [item for item in bounds if not item[1].default]
    if key.strategy == "h":
        rest.sort(key=lambda item: (item[1].modulus, item[1].remainder))
    elif key.strategy == "r":
        compare = comparisons(key)

        def by_upper(left: tuple[int, PartitionBound], right: tuple[int, PartitionBound]) -> int:
            return compare_range(compare, left[1].upper, False, right[1].upper, False)

        rest.sort(key=cmp_to_key(by_upper))
    else:
        order = cmp_to_key(comparisons(key)[0])
        with_values = [item for item in rest if any(v.value is not None for v in item[1].values)]
        with_values.sort(key=lambda item: min(order(v.value) for v in item[1].values if v.value is not None))
        rest = with_values + [item for item in rest if item not in with_values]
    return rest + default


# --- partition constraint ---------------------------------------------------------------------------------------------


def partition_constraint_text(session: Session, relid: int) -> str | None:
    """pg_get_partition_constraintdef; None if the bound implies nothing."""
    parts = partition_constraint(session, relid)
    if not parts:
        return None
    return expression_text(session, _all(parts), relation(session, relid))


def partition_constraint(session: Session, relid: int) -> list[tree.Expr]:
    """The partition constraint over the partition's own columns; the outermost ancestor's part comes first."""
    parent_row = store.one(session, pg_inherits, inhrelid=relid)
    row = store.one(session, pg_class, oid=relid)
    if parent_row is None or row is None or row.relpartbound is None:
        return []
    parent = parent_row.inhparent
    key = partition_key(session, parent)
    assert key is not None
    parts = partition_constraint(session, parent) + bound_constraint(
        session, parent, key, bound_from_json(row.relpartbound, session)
    )
    numbers = _numbers(session, parent, relid)
    return [map_attnums(part, numbers) for part in parts]


def _numbers(session: Session, parent: int, child: int) -> dict[int, int]:
    """The parent's attnums mapped to the child's, whose columns may have another order."""
    own = relation(session, child)
    numbers = {}
    for column in relation(session, parent).columns:
        attribute = own.attribute(column.name)
        numbers[column.num] = attribute.num if attribute is not None else column.num
    return numbers


def bound_constraint(session: Session, parent: int, key: PartitionKey, bound: PartitionBound) -> list[tree.Expr]:
    """The constraint of one bound, over the columns of the parent."""
    if bound.strategy == "h":
        return _hash(parent, key, bound)
    if bound.strategy == "l":
        return _list(session, parent, key, bound)
    if bound.default:
        return _range_default(session, parent, key)
    return [*_not_null(key), *_range(key, bound)] or [_true()]


# --- pieces ---------------------------------------------------------------------------------------------------------


def _true() -> tree.Const:
    return tree.Const(oids.BOOL, value=True)


def _bool(op: BoolOp, args: list[tree.Expr]) -> tree.Expr:
    return args[0] if len(args) == 1 and op is not BoolOp.NOT else tree.BoolExpr(oids.BOOL, op=op, args=tuple(args))


def _all(args: list[tree.Expr]) -> tree.Expr:
    return _bool(BoolOp.AND, args)


def _column(column: KeyColumn) -> tree.Expr:
    if column.expr is not None:
        return column.expr
    return tree.Var(column.type, typmod=column.typmod, collation=column.own_collation, varno=1, attnum=column.attnum)


def _comparable(column: KeyColumn, arg: tree.Expr) -> tree.Expr:
    """A key column as its operator class compares it: a varchar column is cast to text, with the key's collation."""
    opclass = opclass_by_oid(column.opclass)
    intype = opclass.intype if opclass is not None else column.type
    kind = type_by_oid(intype)
    other_type = intype != column.type and kind is not None and kind.typtype != "p"
    if not other_type and column.collation == column.own_collation:
        return arg
    return tree.RelabelType(intype, collation=column.collation, arg=arg, form=CoercionForm.EXPLICIT_CAST)


def _compare(column: KeyColumn, strategy: int, value: tree.Const) -> tree.Expr:
    operator = opclass_operator(column.opclass, strategy)
    args = (_comparable(column, _column(column)), value)
    return tree.OpExpr(oids.BOOL, op=operator, args=args, input_collation=column.collation)


def _null_test(column: KeyColumn, kind: NullTestType) -> tree.Expr:
    return tree.NullTest(oids.BOOL, arg=_column(column), kind=kind)


def _not_null(key: PartitionKey) -> list[tree.Expr]:
    return [_null_test(column, NullTestType.IS_NOT_NULL) for column in key.columns]


# --- list and hash ----------------------------------------------------------------------------------------------------


def _list(session: Session, parent: int, key: PartitionKey, bound: PartitionBound) -> list[tree.Expr]:
    (column,) = key.columns
    values = list(bound.values)
    if bound.default:
        bounds = partition_desc(session, parent).bounds
        values = [value for sibling in bounds if not sibling.default for value in sibling.values]
        if not values:
            return []
        values = _sorted(key, values)
    present: list[tree.Const] = [value for value in values if value.value is not None]
    with_null = len(present) < len(values)
    equal = [_one_of(column, present)] if present else []
    if not with_null:
        parts = [_null_test(column, NullTestType.IS_NOT_NULL), *equal]
    else:
        parts = [_bool(BoolOp.OR, [_null_test(column, NullTestType.IS_NULL), *equal])]
    return [tree.BoolExpr(oids.BOOL, op=BoolOp.NOT, args=(_all(parts),))] if bound.default else parts


def _sorted(key: PartitionKey, values: list[tree.Const]) -> list[tree.Const]:
    order = cmp_to_key(comparisons(key)[0])
    present = sorted((v for v in values if v.value is not None), key=lambda v: order(v.value))
    return present + [v for v in values if v.value is None]


def _one_of(column: KeyColumn, values: list[tree.Const]) -> tree.Expr:
    if len(values) == 1:
        return _compare(column, EQUAL, values[0])
    kind = type_by_oid(column.type)
    assert kind is not None
    if kind.category == "A":
        return _bool(BoolOp.OR, [_compare(column, EQUAL, value) for value in values])
    array = tree.ArrayExpr(kind.array, element_type=column.type, elements=tuple(values))
    args = (_comparable(column, _column(column)), array)
    operator = opclass_operator(column.opclass, EQUAL)
    return tree.ScalarArrayOpExpr(oids.BOOL, op=operator, use_or=True, args=args, input_collation=column.collation)


def _hash(parent: int, key: PartitionKey, bound: PartitionBound) -> list[tree.Expr]:
    (proc,) = procs_by_name("satisfies_hash_partition")
    numbers = (
        tree.Const(oids.OID, value=parent),
        tree.Const(oids.INT4, value=bound.modulus),
        tree.Const(oids.INT4, value=bound.remainder),
    )
    return [tree.FuncExpr(oids.BOOL, func=proc.oid, args=(*numbers, *(_column(column) for column in key.columns)))]


# --- range ------------------------------------------------------------------------------------------------------------


def _range_default(session: Session, parent: int, key: PartitionKey) -> list[tree.Expr]:
    siblings = [
        _all(_range(key, sibling) or [_true()])
        for sibling in partition_desc(session, parent).bounds
        if not sibling.default
    ]
    if not siblings:
        return []
    others = _all([*_not_null(key), _bool(BoolOp.OR, siblings)])
    return [tree.BoolExpr(oids.BOOL, op=BoolOp.NOT, args=(others,))]


def _range(key: PartitionKey, bound: PartitionBound) -> list[tree.Expr]:
    """The constraint of a range bound as in get_qual_for_range, without the tests for NULL."""
    parts: list[tree.Expr] = []
    compare = comparisons(key)
    first = 0
    for lower, upper in zip(bound.lower, bound.upper, strict=True):
        if lower.value is None or upper.value is None or compare[first](lower.value.value, upper.value.value):
            break
        parts.append(_compare(key.columns[first], EQUAL, lower.value))
        first += 1
    for datums, last, edge, inside, limit in (
        (bound.lower, GREATER_EQUAL, MINVALUE, GREATER, GREATER_EQUAL),
        (bound.upper, LESS, MAXVALUE, LESS, LESS_EQUAL),
    ):
        arms = _arms(key, datums, first, last, edge, inside, limit)
        if arms:
            parts.append(_bool(BoolOp.OR, arms))
    return parts


def _arms(
    key: PartitionKey, datums: tuple[RangeDatum, ...], first: int, last: int, edge: int, inside: int, limit: int
) -> list[tree.Expr]:
    """The OR of prefixes: `a > 1`, `a = 1 AND b > 2`, `a = 1 AND b = 2 AND c >= 3`; one more for each column with a
    value."""
    arms: list[tree.Expr] = []
    for end in range(first, len(datums)):
        value = datums[end].value
        if value is None:
            break
        following = datums[end + 1].kind if end + 1 < len(datums) else None
        if following is None:
            strategy = last
        else:
            strategy = limit if following == edge else inside
        arm: list[tree.Expr] = []
        for position in range(first, end):
            known = datums[position].value
            assert known is not None
            arm.append(_compare(key.columns[position], EQUAL, known))
        arms.append(_all([*arm, _compare(key.columns[end], strategy, value)]))
        if following != VALUE:
            break
    return arms
