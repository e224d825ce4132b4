"""FOR VALUES …: from text to constants of the key's types, checked against the bounds of other partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_class, pg_partitioned_table
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.analyze import transform
from pgrepl.expr.analyse.casts import Context
from pgrepl.expr.analyse.coerce import coerce_to_target
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.scope import Scope, scope_of_relation
from pgrepl.expr.catalog_trees import (
    MAXVALUE,
    MINVALUE,
    VALUE,
    KeyColumn,
    PartitionBound,
    PartitionKey,
    RangeDatum,
    bound_to_json,
    partition_key,
    range_text,
)
from pgrepl.expr.evaluate.evaluate import evaluate
from pgrepl.expr.functions.registry import Context as EvaluationContext
from pgrepl.expr.partition_constraint import PartitionDesc, compare_range, comparisons, partition_desc
from pgrepl.expr.print.deparse import expression_text
from pgrepl.expr.tree import Const
from pgrepl.ground.errors import PgError
from pgrepl.sql.location import expr_location
from pgrepl.sql.nodes import CoercionForm, ColumnRef, Expr, PartitionBoundSpec

_WORDS = {"minvalue": MINVALUE, "maxvalue": MAXVALUE}


# --- analysis -----------------------------------------------------------------------------------------------------


def transform_bound(
    session: Session, parent: Relation, spec: PartitionBoundSpec, partition: Relation
) -> PartitionBound:
    """As transformPartitionBound does. Names in the bound are looked for in `partition`, only to be refused."""
    key = partition_key(session, parent.oid)
    assert key is not None
    if spec.strategy == "d":
        if key.strategy == "h":
            raise PgError("42P16", "a hash-partitioned table may not have a default partition")
        return PartitionBound(key.strategy, default=True, location=spec.location)
    if spec.strategy != key.strategy:
        word = {"h": "hash", "l": "list", "r": "range"}[key.strategy]
        raise PgError("42P16", f"invalid bound specification for a {word} partition", location=spec.location)
    if key.strategy == "h":
        if spec.modulus <= 0:
            raise PgError("42P16", "modulus for hash partition must be an integer value greater than zero")
        if spec.remainder >= spec.modulus:
            raise PgError("42P16", "remainder for hash partition must be less than modulus")
        return PartitionBound("h", modulus=spec.modulus, remainder=spec.remainder, location=spec.location)
    scope = scope_of_relation(session, partition)
    if key.strategy == "l":
        column = key.columns[0]
        name = _column_name(session, parent, column)
        values = tuple(dict.fromkeys(_value(scope, value, name, column) for value in spec.list_values))
        return PartitionBound("l", values=values, location=spec.location)
    if len(spec.lower) != len(key.columns):
        raise PgError("42P16", "FROM must specify exactly one value per partitioning column")
    if len(spec.upper) != len(key.columns):
        raise PgError("42P16", "TO must specify exactly one value per partitioning column")
    lower = _range(scope, parent, key, spec.lower)
    return PartitionBound("r", lower=lower, upper=_range(scope, parent, key, spec.upper), location=spec.location)


def _column_name(session: Session, parent: Relation, column: KeyColumn) -> str:
    attribute = parent.attribute_by_number(column.attnum)
    if attribute is not None:
        return attribute.name
    assert column.expr is not None
    return expression_text(session, column.expr, parent)


def _range(scope: Scope, parent: Relation, key: PartitionKey, values: Sequence[Expr]) -> tuple[RangeDatum, ...]:
    """The bound of a range partition, value by value (transformPartitionRangeBounds, validateInfiniteBounds)."""
    datums: list[RangeDatum] = []
    for value, column in zip(values, key.columns, strict=True):
        location = expr_location(value)
        kind = _WORDS.get(str(value.fields[0])) if isinstance(value, ColumnRef) and len(value.fields) == 1 else None
        if kind is not None:
            datums.append(RangeDatum(kind, None, location))
            continue
        constant = _value(scope, value, _column_name(scope.session, parent, column), column)
        if constant.value is None:
            raise PgError("42P17", "cannot specify NULL in range bound")
        datums.append(RangeDatum(VALUE, constant, location))
    infinite = VALUE
    for datum in datums:
        if datum.kind == infinite:
            continue
        if infinite != VALUE:
            word = "MAXVALUE" if infinite == MAXVALUE else "MINVALUE"
            raise PgError("42804", f"every bound following {word} must also be {word}", location=datum.location)
        infinite = datum.kind
    return tuple(datums)


def _value(scope: Scope, raw: Expr, name: str, column: KeyColumn) -> Const:
    """One value of a bound as a constant of the key's type, as transformPartitionBoundValue does."""
    expr = transform(scope, raw, ExprKind.PARTITION_BOUND)
    typed = coerce_to_target(
        scope, expr, expr.type, column.type, column.typmod, Context.ASSIGNMENT, CoercionForm.IMPLICIT_CAST, -1
    )
    location = expr_location(raw)
    if typed is None:
        type_ = lookup.type_text(scope.session, column.type)
        raise PgError("42804", f'specified value cannot be cast to type {type_} for column "{name}"', location=location)
    if isinstance(typed, Const):
        value = typed.value
    else:
        value = evaluate(assign_collations(typed), (), EvaluationContext(scope.session))
    return Const(column.type, typmod=column.typmod, collation=column.collation, location=location, value=value)


# --- against the other partitions ---------------------------------------------------------------------------------


def check_bound(session: Session, name: str, parent: Relation, bound: PartitionBound) -> int:
    """Refuse a bound that is empty or overlaps another's, as check_new_partition_bound does. Returns the OID of the
    default partition, whose rows must not satisfy the new bound."""
    desc = partition_desc(session, parent.oid)
    if bound.default:
        if desc.default:
            other = relation(session, desc.default).name
            raise PgError(
                "42P17",
                f'partition "{name}" conflicts with existing default partition "{other}"',
                location=bound.location,
            )
        return 0
    if bound.strategy == "h":
        _check_hash(session, name, desc, bound)
    elif bound.strategy == "l":
        _check_list(session, name, desc, bound)
    else:
        _check_range(session, name, desc, bound)
    return desc.default


def _overlap(session: Session, name: str, other: int, location: int) -> NoReturn:
    raise PgError(
        "42P17", f'partition "{name}" would overlap partition "{relation(session, other).name}"', location=location
    )


def _check_hash(session: Session, name: str, desc: PartitionDesc, bound: PartitionBound) -> None:
    """Every modulus is a factor of the next larger one, and no remainder is taken twice."""
    modulus, remainder = bound.modulus, bound.remainder
    if not desc.oids:
        return

    def refuse(text: str, number: int) -> NoReturn:
        raise PgError(
            "42P17",
            "every hash partition modulus must be a factor of the next larger modulus",
            detail=f"The new modulus {modulus} is {text}{desc.bounds[number].modulus}, the modulus of existing "
            f'partition "{relation(session, desc.oids[number]).name}".',
        )

    pairs = [(other.modulus, other.remainder) for other in desc.bounds]
    before = sum(pair <= (modulus, remainder) for pair in pairs) - 1
    if before >= 0 and modulus % pairs[before][0]:
        refuse("not divisible by ", before)
    if before + 1 < len(pairs) and pairs[before + 1][0] % modulus:
        refuse("not a factor of ", before + 1)
    greatest = pairs[-1][0]
    taken = {r: n for n, (m, start) in enumerate(pairs) for r in range(start, greatest, m)}
    for candidate in range(remainder % greatest, max(greatest, remainder % greatest + 1), modulus):
        if candidate in taken:
            _overlap(session, name, desc.oids[taken[candidate]], bound.location)


def _check_list(session: Session, name: str, desc: PartitionDesc, bound: PartitionBound) -> None:
    compare = comparisons(desc.key)[0]
    for value in bound.values:
        for oid, other in zip(desc.oids, desc.bounds, strict=True):
            for taken in other.values:
                if value.value is None or taken.value is None:
                    same = value.value is taken.value
                else:
                    same = compare(value.value, taken.value) == 0
                if same:
                    _overlap(session, name, oid, value.location)


def _check_range(session: Session, name: str, desc: PartitionDesc, bound: PartitionBound) -> None:
    compare = comparisons(desc.key)
    lower, upper = bound.lower, bound.upper
    empty = compare_range(compare, lower, True, upper, False)
    if empty > 0:
        raise PgError(
            "42P17",
            f'empty range bound specified for partition "{name}"',
            detail=f"Specified lower bound {range_text(session, lower)} is greater than or equal to upper bound "
            f"{range_text(session, upper)}.",
            location=lower[empty - 1].location,
        )
    edges = _edges(desc)
    at, last = _search(desc, edges, lower)
    if at + 1 < len(edges) and edges[at + 1][1] >= 0:
        where = lower[0] if last == 0 else lower[abs(last) - 1]
        _overlap(session, name, desc.oids[edges[at + 1][1]], where.location)
    if at + 1 < len(edges):
        against = compare_range(compare, edges[at + 1][0], edges[at + 1][1] == -1, upper, False)
        if against < 0:
            _overlap(session, name, desc.oids[edges[at + 2][1]], upper[abs(against) - 1].location)


Edge = tuple[tuple[RangeDatum, ...], int]  # an upper edge has the number of its partition, a lower one -1


def _edges(desc: PartitionDesc) -> list[Edge]:
    """All edges in order; where two partitions touch there is one edge, the upper one of the first."""
    edges: list[Edge] = []
    for number, bound in enumerate(desc.bounds):
        if bound.default:
            continue
        if not edges or edges[-1][0] != bound.lower:
            edges.append((bound.lower, -1))
        edges.append((bound.upper, number))
    return edges


def _search(desc: PartitionDesc, edges: Sequence[Edge], lower: tuple[RangeDatum, ...]) -> tuple[int, int]:
    """The last edge that is not above the new lower one, and the last comparison made: it tells PostgreSQL which value
    to point at (partition_range_bsearch)."""
    compare = comparisons(desc.key)
    low, high, last = -1, len(edges) - 1, 0
    while low < high:
        middle = (low + high + 1) // 2
        last = compare_range(compare, edges[middle][0], edges[middle][1] == -1, lower, True)
        if last > 0:
            high = middle - 1
            continue
        low = middle
        if last == 0:
            break
    return low, last


def store_bound(session: Session, table: int, parent: Relation, bound: PartitionBound) -> None:
    """Stores a partition's bound (StorePartitionBound)."""
    store.update(session, pg_class, {"oid": table}, relpartbound=bound_to_json(bound), relispartition=True)
    if bound.default:
        store.update(session, pg_partitioned_table, {"partrelid": parent.oid}, partdefid=table)
