"""Partition keys and partition bounds: what they are, how they are remembered and printed, how bounds are ordered.

A key is a strategy (l, r, h: list, range, hash) and columns or expressions, each with an operator class and a
collation.
A bound says which rows of its parent a partition takes. `PartitionDesc` is a parent's partitions in the order of their
bounds, which is the order PostgreSQL names and visits them in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any

from pgrepl.catalog import store
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_attribute, pg_class, pg_inherits, pg_partitioned_table
from pgrepl.expr import stored
from pgrepl.expr.deparse import constant_text
from pgrepl.expr.evaluate import operator_function
from pgrepl.expr.opclasses import EQUAL, LESS, opclass_operator
from pgrepl.expr.tree import Const, Expr

MINVALUE, VALUE, MAXVALUE = -1, 0, 1  # compare as what they stand for
_KINDS = {MINVALUE: "MINVALUE", MAXVALUE: "MAXVALUE"}


@dataclass(frozen=True, slots=True)
class KeyColumn:
    attnum: int  # 0: an expression
    expr: Expr | None
    opclass: int
    collation: int
    type: int
    typmod: int
    own_collation: int  # that of the column or expression; `collation` is what the key compares by


@dataclass(frozen=True, slots=True)
class PartitionKey:
    strategy: str  # l, r, h
    columns: tuple[KeyColumn, ...]


@dataclass(frozen=True, slots=True)
class RangeDatum:
    kind: int
    value: Const | None = None
    location: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class PartitionBound:
    strategy: str
    default: bool = False
    modulus: int = 0
    remainder: int = 0
    values: tuple[Const, ...] = ()
    lower: tuple[RangeDatum, ...] = ()
    upper: tuple[RangeDatum, ...] = ()
    location: int = field(default=-1, compare=False)


def partition_key(session: Session, relid: int) -> PartitionKey | None:
    """The key of a partitioned table, None of any other relation."""
    row = store.one(session, pg_partitioned_table, partrelid=relid)
    if row is None:
        return None
    exprs = iter(row.partexprs or ())
    types = {
        a.attnum: (a.atttypid, a.atttypmod, a.attcollation) for a in store.rows(session, pg_attribute, attrelid=relid)
    }
    columns = []
    for attnum, opclass, collation in zip(row.partattrs, row.partclass, row.partcollation, strict=True):
        if attnum:
            columns.append(KeyColumn(attnum, None, opclass, collation, *types[attnum]))
        else:
            expr = stored.from_json(next(exprs))
            columns.append(KeyColumn(0, expr, opclass, collation, expr.type, expr.typmod, expr.collation))
    return PartitionKey(row.partstrat, tuple(columns))


def bound_to_json(bound: PartitionBound) -> dict[str, Any]:
    if bound.default:
        return {"strategy": bound.strategy, "default": True}
    if bound.strategy == "h":
        return {"strategy": "h", "modulus": bound.modulus, "remainder": bound.remainder}
    if bound.strategy == "l":
        return {"strategy": "l", "values": [stored.to_json(value) for value in bound.values]}
    return {
        "strategy": "r",
        "lower": [_datum_to_json(datum) for datum in bound.lower],
        "upper": [_datum_to_json(datum) for datum in bound.upper],
    }


def _datum_to_json(datum: RangeDatum) -> Any:
    return _KINDS[datum.kind] if datum.value is None else stored.to_json(datum.value)


def bound_from_json(data: dict[str, Any]) -> PartitionBound:
    return PartitionBound(
        data["strategy"],
        data.get("default", False),
        data.get("modulus", 0),
        data.get("remainder", 0),
        tuple(_const(value) for value in data.get("values", ())),
        tuple(_datum_from_json(datum) for datum in data.get("lower", ())),
        tuple(_datum_from_json(datum) for datum in data.get("upper", ())),
    )


def _const(data: Any) -> Const:
    value = stored.from_json(data)
    assert isinstance(value, Const)
    return value


def _datum_from_json(data: Any) -> RangeDatum:
    if isinstance(data, str):
        return RangeDatum(MINVALUE if data == "MINVALUE" else MAXVALUE)
    return RangeDatum(VALUE, _const(data))


def bound_text(session: Session, bound: PartitionBound) -> str:
    """As pg_get_expr(relpartbound) prints it: `FOR VALUES FROM (1) TO (10)`."""
    if bound.default:
        return "DEFAULT"
    if bound.strategy == "h":
        return f"FOR VALUES WITH (modulus {bound.modulus}, remainder {bound.remainder})"
    if bound.strategy == "l":
        return f"FOR VALUES IN ({', '.join(constant_text(session, value) for value in bound.values)})"
    return f"FOR VALUES FROM {range_text(session, bound.lower)} TO {range_text(session, bound.upper)}"


def range_text(session: Session, datums: Sequence[RangeDatum]) -> str:
    """As get_range_partbound_string does."""
    texts = (_KINDS[d.kind] if d.value is None else constant_text(session, d.value) for d in datums)
    return f"({', '.join(texts)})"


Compare = Callable[[Any, Any], int]


def comparisons(key: PartitionKey) -> tuple[Compare, ...]:
    """How values of each key column are ordered."""
    return tuple(_comparison(column) for column in key.columns)


def _comparison(column: KeyColumn) -> Compare:
    """By the < and = of the column's operator class."""
    less = operator_function(opclass_operator(column.opclass, LESS))
    equal = operator_function(opclass_operator(column.opclass, EQUAL))

    def compare(one: Any, two: Any) -> int:
        if equal(one, two):
            return 0
        return -1 if less(one, two) else 1

    return compare


def compare_range(
    compare: Sequence[Compare], one: Sequence[RangeDatum], lower1: bool, two: Sequence[RangeDatum], lower2: bool
) -> int:
    """<0, 0 or >0, and in absolute value the number of the column that decided, as partition_rbound_cmp does: an upper
    bound is smaller than an equal lower one."""
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


@dataclass(frozen=True, slots=True)
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
    """As RelationBuildPartitionDesc does."""
    key = partition_key(session, parent)
    if key is None:
        raise LookupError(f"relation {parent} is not partitioned")
    found: list[tuple[int, PartitionBound]] = []
    children = sorted(row.inhrelid for row in store.rows(session, pg_inherits, inhparent=parent))
    for oid in children:
        row = store.one(session, pg_class, oid=oid)
        if row is not None and row.relpartbound is not None:
            found.append((oid, bound_from_json(row.relpartbound)))
    found = _in_order(key, found)
    return PartitionDesc(key, tuple(oid for oid, _ in found), tuple(bound for _, bound in found))


def _in_order(key: PartitionKey, found: list[tuple[int, PartitionBound]]) -> list[tuple[int, PartitionBound]]:
    default = [item for item in found if item[1].default]
    rest = [item for item in found if not item[1].default]
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
