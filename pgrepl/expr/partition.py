"""Partition keys and partition bounds: what they are, how the catalog stores them and how they are printed.

A key is a strategy (l, r, h: list, range, hash) and columns or expressions, each with an operator class and a
collation. A bound says which rows of its parent a partition takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from pgrepl.catalog import store
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_attribute, pg_partitioned_table
from pgrepl.expr import stored
from pgrepl.expr.deparse import constant_text
from pgrepl.expr.tree import Const, Expr
from pgrepl.frozen import frozen

MINVALUE, VALUE, MAXVALUE = -1, 0, 1  # in sort order, as in PartitionRangeDatumKind
_KINDS = {MINVALUE: "MINVALUE", MAXVALUE: "MAXVALUE"}


@frozen
class KeyColumn:
    attnum: int  # 0: an expression
    expr: Expr | None
    opclass: int
    collation: int
    type: int
    typmod: int
    own_collation: int  # that of the column or expression; `collation` is what the key compares by


@frozen
class PartitionKey:
    strategy: str  # l, r, h
    columns: tuple[KeyColumn, ...]


@frozen
class RangeDatum:
    kind: int
    value: Const | None = None
    location: int = field(default=-1, compare=False)


@frozen
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
    """The key of a partitioned table; None for any other relation."""
    row = store.one(session, pg_partitioned_table, partrelid=relid)
    if row is None:
        return None
    exprs = iter(row.partexprs or ())
    types = {
        a.attnum: (session.type_of(a.atttypid), a.atttypmod, session.collation_of(a.attcollation))
        for a in store.rows(session, pg_attribute, attrelid=relid)
    }
    columns = []
    for attnum, opclass, collation in zip(row.partattrs, row.partclass, row.partcollation, strict=True):
        if attnum:
            columns.append(KeyColumn(attnum, None, opclass, collation, *types[attnum]))
        else:
            expr = stored.from_json(next(exprs), session)
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


def bound_from_json(data: dict[str, Any], session: Session) -> PartitionBound:
    return PartitionBound(
        data["strategy"],
        data.get("default", False),
        data.get("modulus", 0),
        data.get("remainder", 0),
        tuple(_const(value, session) for value in data.get("values", ())),
        tuple(_datum_from_json(datum, session) for datum in data.get("lower", ())),
        tuple(_datum_from_json(datum, session) for datum in data.get("upper", ())),
    )


def _const(data: Any, session: Session) -> Const:
    value = stored.from_json(data, session)
    assert isinstance(value, Const)
    return value


def _datum_from_json(data: Any, session: Session) -> RangeDatum:
    if isinstance(data, str):
        return RangeDatum(MINVALUE if data == "MINVALUE" else MAXVALUE)
    return RangeDatum(VALUE, _const(data, session))


def bound_text(session: Session, bound: PartitionBound) -> str:
    """The bound as pg_get_expr(relpartbound) prints it: `FOR VALUES FROM (1) TO (10)`."""
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
