"""The partitions that can hold rows which satisfy a condition; the others are not touched (partprune.c, as far as
constants go)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.expr import tree
from pgrepl.expr.catalog_trees import MAXVALUE, MINVALUE, RangeDatum
from pgrepl.expr.partition_constraint import Compare, PartitionDesc, comparisons, partition_desc
from pgrepl.ground.frozen import frozen
from pgrepl.query.reads import bounds_in, conjuncts, unequal_in
from pgrepl.rows.checks_table import chooser
from pgrepl.sql.nodes import BoolOp, NullTestType

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.functions.registry import Context
    from pgrepl.lake.read.bounds import Bound

_MOST = 1000  # combinations of values that are tried


@frozen
class Restrictions:
    """The requirements of conditions on columns, by attnum: all of these, and one part of each `either`."""

    bounds: tuple[Bound, ...] = ()
    null: frozenset[int] = frozenset()
    not_null: frozenset[int] = frozenset()
    unequal: tuple[tuple[int, Any], ...] = ()
    either: tuple[tuple[Restrictions, ...], ...] = ()


def restrictions_of(query: tree.Query, conditions: Sequence[tree.Expr], varno: int, context: Context) -> Restrictions:
    """The requirements of conditions that all hold on one relation."""
    restrictions = Restrictions()
    for condition in conditions:
        if isinstance(condition, tree.BoolExpr) and condition.op is BoolOp.OR:
            parts = tuple(restrictions_of(query, conjuncts(arg), varno, context) for arg in condition.args)
            restrictions = replace(restrictions, either=(*restrictions.either, parts))
        elif isinstance(condition, tree.NullTest) and not condition.argisrow:
            attnum = _own_column(condition.arg, varno)
            name = "null" if condition.kind is NullTestType.IS_NULL else "not_null"
            if attnum:
                restrictions = replace(restrictions, **{name: getattr(restrictions, name) | {attnum}})
        else:
            bounds = [bound for number, bound in bounds_in(query, condition, context) if number == varno]
            others = [(a, value) for number, a, value in unequal_in(query, condition, context) if number == varno]
            restrictions = replace(
                restrictions, bounds=(*restrictions.bounds, *bounds), unequal=(*restrictions.unequal, *others)
            )
    return restrictions


def contradicts(what: Restrictions) -> bool:
    """Whether a column would have to equal two values (generate_base_implied_equalities_const)."""
    equal: dict[int, Any] = {}
    for bound in what.bounds:
        only = _values(bound.attnum, [bound])
        if only is not None and len(only) == 1 and equal.setdefault(bound.attnum, only[0]) != only[0]:
            return True
    return False


def _own_column(expr: tree.Expr | None, varno: int) -> int:
    while isinstance(expr, tree.RelabelType):
        expr = expr.arg
    return expr.attnum if isinstance(expr, tree.Var) and expr.varno == varno and not expr.levelsup else 0


def leaves(session: Session, top: Relation, what: Restrictions) -> Iterator[Relation]:
    """The leaves below a partitioned table that can hold rows which satisfy the conditions, in partition order."""
    desc = partition_desc(session, top.oid)
    kept = _kept(desc, what)
    for position, oid in enumerate(desc.oids):
        if position not in kept:
            continue
        part = relation(session, oid)
        if part.kind == "p":
            yield from leaves(session, part, _moved(what, lambda n, part=part: _number_in(part, top, n)))  # type: ignore[misc]
        else:
            yield part


def _number_in(part: Relation, top: Relation, attnum: int) -> int:
    own = part.attribute(top.attributes[attnum - 1].name) if attnum > 0 else None
    return own.num if own is not None else 0


def _moved(what: Restrictions, number: Callable[[int], int]) -> Restrictions:
    """The requirements with the attnums of a partition."""
    return Restrictions(
        tuple(replace(bound, attnum=number(bound.attnum)) for bound in what.bounds),
        frozenset(map(number, what.null)),
        frozenset(map(number, what.not_null)),
        tuple((number(attnum), value) for attnum, value in what.unequal),
        tuple(tuple(_moved(part, number) for part in parts) for parts in what.either),
    )


def _kept(desc: PartitionDesc, what: Restrictions) -> set[int]:
    kept = _by_values(desc, what)
    for parts in what.either:
        kept &= set().union(*[_kept(desc, part) for part in parts])
    return kept


def _by_values(desc: PartitionDesc, what: Restrictions) -> set[int]:
    everything = set(range(len(desc.oids)))
    attnums = [column.attnum for column in desc.key.columns]
    strict = {bound.attnum for bound in what.bounds} | what.not_null | {attnum for attnum, _ in what.unequal}
    if any(attnum and attnum in what.null and attnum in strict for attnum in attnums):
        return set()
    lists = [[None] if a and a in what.null else _values(a, what.bounds) for a in attnums]
    if all(values is not None for values in lists):
        known = [values for values in lists if values is not None]
        count = 1
        for values in known:
            count *= len(values)
        if count <= _MOST:
            choose = chooser(desc)
            return {choose(values) for values in product(*known)} & everything
    first = attnums[0]
    if desc.key.strategy == "h" or not first:
        return everything
    own = [bound for bound in what.bounds if bound.attnum == first]
    compare = comparisons(desc.key)[0]
    if desc.key.strategy == "l":
        others = [value for attnum, value in what.unequal if attnum == first]
        if not own and not others:
            return everything
        return {n for n in everything if desc.bounds[n].default or _lists(desc, n, own, others, compare)}
    if not own:
        return everything
    alone = len(attnums) == 1
    met = {n for n in everything if not desc.bounds[n].default and _meets(desc, n, own, compare, alone)}
    spare = {n for n in everything if desc.bounds[n].default}
    return met if alone and spare and _is_covered(desc, own, compare) else met | spare


def _values(attnum: int, bounds: Sequence[Bound]) -> list[Any] | None:
    """The only values that the column can have, if they are known."""
    for bound in bounds:
        if attnum and bound.attnum == attnum:
            if bound.values is not None:
                return list(bound.values)
            if bound.low is not None and bound.low == bound.high and bound.low_inclusive and bound.high_inclusive:
                return [bound.low]
    return None


def _lists(
    desc: PartitionDesc, position: int, bounds: Sequence[Bound], others: Sequence[Any], compare: Compare
) -> bool:
    """Has a partition by list a value within the bounds that is none of the others?"""
    values = [v.value for v in desc.bounds[position].values if v.value is not None]
    return any(
        all(_within(value, bound, compare) for bound in bounds) and all(compare(value, other) != 0 for other in others)
        for value in values
    )


def _meets(desc: PartitionDesc, position: int, bounds: Sequence[Bound], compare: Compare, alone: bool) -> bool:
    partition = desc.bounds[position]
    return all(_overlaps(partition.lower[0], partition.upper[0], bound, compare, alone) for bound in bounds)


def _is_covered(desc: PartitionDesc, bounds: Sequence[Bound], compare: Compare) -> bool:
    """Do partitions by range of one column leave no gap between the bounds, so that the default one has none of it?"""
    low = high = None
    reaches = True  # up to the upper bound itself
    for bound in bounds:
        if bound.values is not None:
            continue
        if bound.low is not None and (low is None or compare(bound.low, low) > 0):
            low = bound.low
        if bound.high is not None and (high is None or compare(bound.high, high) < 0):
            high, reaches = bound.high, bound.high_inclusive
    if low is None or high is None:
        return False
    at = low
    for partition in desc.bounds:  # in their order
        if partition.default:
            continue
        lower, upper = partition.lower[0], partition.upper[0]
        if lower.kind == MAXVALUE or (lower.value is not None and compare(lower.value.value, at) > 0):
            return False
        if upper.kind == MAXVALUE:
            return True
        if upper.value is None or compare(upper.value.value, at) <= 0:
            continue
        at = upper.value.value
        order = compare(at, high)
        if order > 0 or (order == 0 and not reaches):
            return True
    return False


def _within(value: Any, bound: Bound, compare: Compare) -> bool:
    if bound.values is not None:
        return any(compare(value, one) == 0 for one in bound.values)
    if bound.low is not None:
        order = compare(value, bound.low)
        if order < 0 or (order == 0 and not bound.low_inclusive):
            return False
    if bound.high is not None:
        order = compare(value, bound.high)
        if order > 0 or (order == 0 and not bound.high_inclusive):
            return False
    return True


def _overlaps(lower: RangeDatum, upper: RangeDatum, bound: Bound, compare: Compare, alone: bool) -> bool:
    """Whether a range partition can hold values within the bound, by the first column of the key. If that is not the
    only column (`alone`), the partition can hold its upper bound, too."""
    low, high = bound.low, bound.high
    if bound.values is not None:
        return True
    if low is not None and upper.kind != MAXVALUE:
        if upper.kind == MINVALUE or upper.value is None:
            return False
        order = compare(low, upper.value.value)
        if order > 0 or (order == 0 and alone):
            return False
    if high is not None and lower.kind != MINVALUE:
        if lower.kind == MAXVALUE or lower.value is None:
            return False
        order = compare(high, lower.value.value)
        if order < 0 or (order == 0 and not bound.high_inclusive):
            return False
    return True
