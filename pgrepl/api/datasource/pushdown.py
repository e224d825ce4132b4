"""Spark's filters as conditions of PostgreSQL's: only those that are true for the same rows in both.

Spark compares what it is shown, PostgreSQL what is stored. So a filter is taken where both are the same value in the
same order: numbers with NaN above all others, dates, timestamps in microseconds, booleans, bytes, and text, which
pgrepl compares by code point as Spark does by bytes. A column that is shown as text is none of these (char(n), enums,
time, numeric without precision), but for uuid, whose text has one form. The others stay with Spark.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pgrepl.sql.nodes import (
    AConst,
    AConstKind,
    AExpr,
    AExprKind,
    BoolExpr,
    BoolOp,
    ColumnRef,
    NullTest,
    NullTestType,
    TypeCast,
    TypeName,
)
from pgrepl.types import oids
from pgrepl.types.builtin import base_type

if TYPE_CHECKING:
    from pgrepl.api.datasource.shown import ShownColumn
    from pgrepl.sql.nodes import Expr

_OPERATORS = {
    "EqualTo": "=", "GreaterThan": ">", "GreaterThanOrEqual": ">=", "LessThan": "<", "LessThanOrEqual": "<=",
}  # fmt: skip
_EQUALITIES = ("EqualTo", "EqualNullSafe", "In")
_NO_CHARACTERS = 0xD800, 0xDFFF  # surrogates


class _NotAlike(Exception):
    """PostgreSQL would not find the same rows."""


def conditions_of(filters: Sequence[Any], columns: Mapping[str, ShownColumn]) -> list[Expr | None]:
    """Each filter as a condition; None: only Spark knows which rows it means."""
    return [_condition_or_none(each, columns) for each in filters]


def _condition_or_none(filter: Any, columns: Mapping[str, ShownColumn]) -> Expr | None:
    try:
        return _condition(filter, columns)
    except _NotAlike:
        return None


def _condition(filter: Any, columns: Mapping[str, ShownColumn]) -> Expr:
    kind = type(filter).__name__
    if kind == "Not":
        return BoolExpr(BoolOp.NOT, (_condition(filter.child, columns),))
    name = filter.attribute[0]
    if len(filter.attribute) != 1 or name not in columns:
        raise _NotAlike
    column, reference = columns[name], ColumnRef((name,))
    if kind in ("IsNull", "IsNotNull"):
        return NullTest(reference, NullTestType.IS_NULL if kind == "IsNull" else NullTestType.IS_NOT_NULL)
    typoid = _typoid(column)
    if typoid == oids.UUID and kind not in _EQUALITIES:
        raise _NotAlike
    if kind == "In":
        members = tuple([_literal(typoid, value) for value in filter.value])
        if not members:
            raise _NotAlike
        return AExpr(AExprKind.IN, ("=",), reference, members)
    if filter.value is None:
        raise _NotAlike
    if kind == "EqualNullSafe":
        return _both(
            NullTest(reference, NullTestType.IS_NOT_NULL), _compared(reference, "=", _literal(typoid, filter.value))
        )
    if kind == "StringStartsWith" and typoid in (oids.TEXT, oids.VARCHAR):
        return _starts_with(reference, typoid, filter.value)
    if kind not in _OPERATORS:
        raise _NotAlike
    return _compared(reference, _OPERATORS[kind], _literal(typoid, filter.value))


def _typoid(column: ShownColumn) -> int:
    typoid = base_type(column.typoid)
    if typoid not in _LITERALS or column.is_text or (column.spark == "STRING" and typoid == oids.NUMERIC):
        raise _NotAlike
    return typoid


def _compared(left: Expr, operator: str, right: Expr) -> Expr:
    return AExpr(AExprKind.OP, (operator,), left, right)


def _both(*parts: Expr) -> Expr:
    return BoolExpr(BoolOp.AND, parts)


def _starts_with(reference: Expr, typoid: int, prefix: str) -> Expr:
    """As a range of text, by which files are left out."""
    low = _compared(reference, ">=", _literal(typoid, prefix))
    after = _after_all(prefix)
    return low if after is None else _both(low, _compared(reference, "<", _literal(typoid, after)))


def _after_all(prefix: str) -> str | None:
    """The least string above all that begin with the prefix; None: there is none."""
    kept = prefix.rstrip(chr(0x10FFFF))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_NO_CHARACTERS[1] + 1 if following == _NO_CHARACTERS[0] else following)


# --- literals ---------------------------------------------------------------------------------------------------------


def _literal(typoid: int, value: Any) -> Expr:
    if value is None:
        return AConst(AConstKind.NULL, None)
    name, python, text = _LITERALS[typoid]
    if not isinstance(value, python) or (isinstance(value, bool) and typoid != oids.BOOL):
        raise _NotAlike
    return TypeCast(AConst(AConstKind.STRING, text(value)), TypeName(("pg_catalog", name)))


def _text(value: str) -> str:
    if "\0" in value:  # which is in no text of PostgreSQL's
        raise _NotAlike
    return value


def _uuid(value: str) -> str:
    try:
        if str(UUID(value)) == value:
            return value
    except ValueError:
        pass
    raise _NotAlike


def _local(value: datetime.datetime) -> str:
    if value.tzinfo is not None:
        raise _NotAlike
    return value.isoformat(" ")


def _instant(value: datetime.datetime) -> str:
    if value.tzinfo is None:
        raise _NotAlike
    return value.astimezone(datetime.timezone.utc).isoformat(" ")


_Literal = tuple[str, type | tuple[type, ...], Callable[[Any], str]]
_INTEGER = int, str
_LITERALS: dict[int, _Literal] = {
    oids.BOOL: ("bool", bool, str),
    oids.INT2: ("int2", *_INTEGER),
    oids.INT4: ("int4", *_INTEGER),
    oids.INT8: ("int8", *_INTEGER),
    oids.FLOAT4: ("float4", (float, int), str),
    oids.FLOAT8: ("float8", (float, int), str),
    oids.NUMERIC: ("numeric", (Decimal, int), str),
    oids.TEXT: ("text", str, _text),
    oids.VARCHAR: ("text", str, _text),
    oids.UUID: ("uuid", str, _uuid),
    oids.BYTEA: ("bytea", (bytes, bytearray), lambda value: "\\x" + value.hex()),
    oids.DATE: ("date", datetime.date, datetime.date.isoformat),
    oids.TIMESTAMP: ("timestamp", datetime.datetime, _local),
    oids.TIMESTAMPTZ: ("timestamptz", datetime.datetime, _instant),
}
