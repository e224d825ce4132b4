"""Conditions that Spark pushes down, as bounds of columns. They leave out files, row groups and rows; Spark tests what
is left again, so that a condition without bounds costs no more than reading."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.builtin import base_type

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.lake.bounds import Bound

_DAY = date(2000, 1, 1).toordinal()
_MOMENT = datetime(2000, 1, 1)
_UTC_MOMENT = datetime(2000, 1, 1, tzinfo=timezone.utc)


@frozen
class Condition:
    """`column op value`, with op one of = < <= > >= in prefix."""

    column: str
    op: str
    value: Any


def bounds_of(table: Relation, conditions: Sequence[Condition]) -> list[Bound]:
    found = []
    for condition in conditions:
        attribute = table.attribute(condition.column)
        bound = None if attribute is None else _bound(attribute.num, base_type(attribute.type), condition)
        found += [] if bound is None else [bound]
    return found


def _bound(attnum: int, typoid: int, condition: Condition) -> Bound | None:
    from pgrepl.lake.bounds import Bound

    op, value = condition.op, condition.value
    if op == "in":
        values = [_value(typoid, each) for each in value if each is not None]
        return None if any(v is None for v in values) or not values else Bound(attnum, values=tuple(values))
    if op == "prefix":
        high = _after(value) if typoid in (oids.TEXT, oids.VARCHAR) else None
        return None if high is None else Bound(attnum, value, high, True, False)
    own = _value(typoid, value)
    if own is None:
        return None
    low = own if op in ("=", ">", ">=") else None
    high = own if op in ("=", "<", "<=") else None
    return Bound(attnum, low, high, op != ">", op != "<")


def _value(typoid: int, value: Any) -> Any:
    """Spark's value as PostgreSQL's; None: they cannot be compared here."""
    if typoid in oids.INTEGERS:
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if typoid in (oids.FLOAT4, oids.FLOAT8):
        return value if isinstance(value, float) and value == value else None
    if typoid == oids.NUMERIC:
        return value if isinstance(value, Decimal) else None
    if typoid in (oids.TEXT, oids.VARCHAR):
        return value if isinstance(value, str) else None
    if typoid == oids.DATE:
        return value.toordinal() - _DAY if isinstance(value, date) and not isinstance(value, datetime) else None
    if typoid in (oids.TIMESTAMP, oids.TIMESTAMPTZ) and isinstance(value, datetime):
        start = _MOMENT if value.tzinfo is None else _UTC_MOMENT
        if (value.tzinfo is None) != (typoid == oids.TIMESTAMP):
            return None
        passed = value - start
        return (passed.days * 86400 + passed.seconds) * 1_000_000 + passed.microseconds
    return None


def _after(prefix: Any) -> str | None:
    """The least text above all that begin with the prefix."""
    if not isinstance(prefix, str) or not prefix:
        return None
    last = ord(prefix[-1]) + 1
    if 0xD800 <= last <= 0xDFFF:
        last = 0xE000
    return None if last > 0x10FFFF else prefix[:-1] + chr(last)
