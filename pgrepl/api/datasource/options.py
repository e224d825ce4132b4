"""The data source's options; Spark's types for PostgreSQL's; and which of Spark's filters mean the same here.

What Spark has no type for is text. A filter is taken where both sides compare the same value in the same order; a
column that is shown as text is not, but for uuid, whose text has one form.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pgrepl.api.opened import OpenedSession
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa, pc
from pgrepl.query.system.functions.names import relation_named
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
from pgrepl.types.builtin import base_type, element_type
from pgrepl.types.lake import text
from pgrepl.types.lake.arrays import plain_array
from pgrepl.types.lake.forms import form, is_row_type
from pgrepl.types.style import DEFAULT_STYLE
from pgrepl.types.text import writer

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.session.session import Session
    from pgrepl.sql.nodes import Expr
    from pgrepl.types.lake.arrays import Form

READING = frozenset(("table", "publication", "where", "pushdown", "partitions"))
STREAMING = frozenset(("table", "publication", "slot", "copy_data", "partitions"))
WRITING = frozenset(("table", "origin", "position"))
STREAM_WRITING = frozenset(("table", "origin", "checkpointlocation"))
_EVERYWHERE = frozenset(("catalog", "dbname", "user"))
_OF_SPARK = frozenset(("path", "outputmode", "queryname"))  # Spark adds these by itself


@frozen
class SourceOptions:
    """The options that a person has given with .option(…)."""

    given: dict[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        return cls({name.lower(): value for name, value in options.items()})

    def check(self, known: frozenset[str], what: str) -> None:
        """Raise for an option that means nothing here."""
        for name in self.given:
            if name not in known and name not in _EVERYWHERE and name not in _OF_SPARK:
                names = ", ".join(sorted(known | _EVERYWHERE))
                raise PgError("22023", f'unrecognized option "{name}" for {what}', hint=f"There are {names}.")

    def get(self, name: str) -> str | None:
        return self.given.get(name) or None

    def required(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise PgError("22023", f'the data source needs the option "{name}"', hint=f'Add .option("{name}", …).')
        return value

    def number(self, name: str) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        if not value.isdigit() or int(value) < 1:
            raise PgError("22023", f'invalid value for option "{name}": "{value}"')
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        value = (self.get(name) or str(default)).lower()
        if value not in ("true", "false", "on", "off", "1", "0"):
            raise PgError("22023", f'invalid value for option "{name}": "{value}"', hint="Use true or false.")
        return value in ("true", "on", "1")

    @contextmanager
    def session(self) -> Iterator[OpenedSession]:
        """A session as the options say, closed at the end."""
        catalog = self.get("catalog") or os.environ.get("PGREPL_CATALOG") or "catalog.db"
        if "://" not in catalog and not os.path.exists(catalog):
            raise PgError("58P01", f'could not open catalog "{os.path.abspath(catalog)}": No such file or directory')
        opened = OpenedSession(
            catalog,
            self.get("dbname") or os.environ.get("PGDATABASE") or "postgres",
            self.get("user") or os.environ.get("PGUSER") or "postgres",
        )
        try:
            yield opened
        finally:
            opened.close()


def find_table(session: Session, name: str) -> Relation:
    """The table of an option: `orders`, `sales.orders`, with identifiers as in SQL. It must have rows of its own."""
    table = relation_named(session, name)
    if table.kind not in ("r", "p"):
        raise PgError(
            "42809", f'"{table.name}" is not a table', hint="Query it instead: pgrepl.connect(…).execute(…).spark()."
        )
    if table.is_system:
        raise PgError("42809", f'"{table.name}" is a system table', hint="Query it with pgrepl.connect(…).execute(…).")
    return table


# --- shown ------------------------------------------------------------------------------------------------------------


_WRITTEN = (oids.UUID, oids.TIME)  # scalars that are stored as something else than their text


@frozen
class ShownColumn:
    """A column of the data source: its name, and PostgreSQL's type."""

    name: str
    typoid: int
    typmod: int
    is_text: bool = False  # arrays of several dimensions, which are no lists

    @property
    def form(self) -> Form:
        return form(self.typoid, self.typmod)

    @property
    def is_written(self) -> bool:
        """Is the value in Spark the text that PostgreSQL prints, made of what is stored?"""
        base = base_type(self.typoid)
        element = element_type(base)
        return (
            self.is_text
            or base in _WRITTEN
            or (bool(element) and (element in _WRITTEN or form(element).lake == "varchar"))
        )

    @property
    def spark(self) -> str:
        """Spark's type as DDL."""
        element = element_type(base_type(self.typoid))
        if not self.is_text and element and element in (oids.TEXT, oids.VARCHAR):
            return "ARRAY<STRING>"
        return "STRING" if self.is_written else self.form.spark

    def arrow(self) -> pa.DataType:
        """The Arrow type of a batch that Spark gets."""
        if self.spark == "STRING":
            return pa.string()
        if self.spark == "ARRAY<STRING>":
            return pa.list_(pa.string())
        return self.form.arrow()

    def array_of(self, values: list[Any]) -> pa.Array:
        """Python values as an array that can be shown."""
        return pa.array(self._texts(values), pa.string()) if self.is_text else plain_array(self.form.to_array(values))

    def _texts(self, values: Iterable[Any]) -> list[str | None]:
        write = writer(self.typoid)
        return [None if value is None else write(value, DEFAULT_STYLE) for value in values]

    def shown(self, array: pa.Array, stored: Form | None = None) -> pa.Array:
        """A stored array as Spark gets it. `stored`: its form, if another writer has chosen that."""
        if self.is_text:
            is_written = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
            return (
                array.cast(pa.string())
                if is_written
                else pa.array(self._texts(self.form.from_array(array)), pa.string())
            )
        if stored is not None and (stored.lake, stored.spark) != (self.form.lake, self.form.spark):
            array = plain_array(self.form.to_array(stored.from_array(array)))
        if self.spark == "STRING" and self.is_written:
            return pa.array(self._texts(self.form.from_array(array)), pa.string())
        self._check_finite(array)
        kind = self.arrow()
        return array if array.type == kind else array.cast(kind)

    def _check_finite(self, array: pa.Array) -> None:
        if pa.types.is_date(array.type):
            ends, most = pc.min_max(array.cast(pa.int32())), text.DATE_INFINITY
        elif pa.types.is_timestamp(array.type):
            ends, most = pc.min_max(array.cast(pa.int64())), text.TIMESTAMP_INFINITY
        else:
            return
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if low is not None and (high >= most or low <= -most):
            raise PgError(
                "22008",
                f'column "{self.name}" has infinity, which Spark has not',
                hint='Leave such rows out by the option "where", or query them with a cast to text.',
            )


def shown_column(name: str, typoid: int, typmod: int, *, is_text: bool = False) -> ShownColumn:
    """The column, or an error for a type that a task cannot print."""
    base = base_type(typoid)
    if is_row_type(base) or is_row_type(element_type(base) or base):
        raise PgError("0A000", f'column "{name}" is of a row type, which the data source does not support')
    return ShownColumn(name, typoid, typmod, is_text)


# --- pushdown ---------------------------------------------------------------------------------------------------------


_OPERATORS = {
    "EqualTo": "=", "GreaterThan": ">", "GreaterThanOrEqual": ">=", "LessThan": "<", "LessThanOrEqual": "<=",
}  # fmt: skip
_EQUALITIES = ("EqualTo", "EqualNullSafe", "In")
_NO_CHARACTERS = 0xD800, 0xDFFF  # surrogates


class _NotAlike(Exception):
    """PostgreSQL would not find the same rows."""


def conditions_of(filters: Sequence[Any], columns: Mapping[str, ShownColumn]) -> list[Expr | None]:
    """Each filter as a condition; None: only Spark knows which rows it means."""
    return [_condition_or_none(pushed, columns) for pushed in filters]


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
