"""A table's columns as an Iceberg schema, with DuckLake's column ids as field ids; bounds and defaults as Iceberg has
them.

A column that Iceberg lacks a type for, or whose values readers would get wrong, is left out: the reason stands in
`left_out`, and in the table's properties.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.types.lake.foreign import foreign_form
from pgrepl.types.lake.text import DATE_INFINITY, TIMESTAMP_INFINITY, date_text, read_blob, time_text, timestamp_text

Bound = Callable[[str], "bytes | None"]
_BAD = (ValueError, ArithmeticError, KeyError, struct.error, PgError)  # a text of another writer
_PACKED = {"boolean": "<?", "int": "<i", "long": "<q", "float": "<f", "double": "<d", "date": "<i", "time": "<q",
           "timestamp": "<q", "timestamptz": "<q"}  # fmt: skip
_SINGLE = 1e-6  # how far a single's shortest text may be from its value as a double


def bound(lake: str, kind: str, *, high: bool) -> Bound:
    """The function that encodes bounds of a column of DuckLake's type `lake` and Iceberg's type `kind`. It gives None
    where the text says nothing: then the bound is left out, which is always right."""
    encode = _floating(kind, high=high) if kind in ("float", "double") else _encoder(kind)
    read = _reader(lake)

    def encoded(text: str) -> bytes | None:
        try:
            return encode(read(text))
        except _BAD:
            return None

    return encoded


def _reader(lake: str) -> Callable[[str], Any]:
    """From the text to what Parquet holds."""
    if lake.startswith(("int", "uint")):
        return int
    if lake in ("varchar", "json"):
        return str
    form = foreign_form(lake)
    read, write = form.from_stat, form.to_arrow
    return lambda text: write(read(text))


def _encoder(kind: str) -> Callable[[Any], bytes]:
    if kind == "string":
        return str.encode
    if kind in ("uuid", "binary"):
        return bytes
    if kind.startswith("decimal"):
        scale = int(kind[kind.index(",") + 1 : -1])
        return lambda value: _big_endian(int(value.scaleb(scale)))
    packed = struct.Struct(_PACKED[kind])
    return packed.pack


def _big_endian(number: int) -> bytes:
    return number.to_bytes(((number if number >= 0 else ~number).bit_length() // 8) + 1, "big", signed=True)


def _floating(kind: str, *, high: bool) -> Callable[[float], bytes]:
    """Bounds of floats. The zeros are equal here, but -0.0 is less than 0.0 for some readers; a file from when a column
    was narrower has singles' texts."""
    packed = struct.Struct(_PACKED[kind])

    def encode(value: float) -> bytes:
        if value == 0:
            value = 0.0 if high else -0.0
        elif kind == "double" and abs(value) != float("inf"):
            value += abs(value) * _SINGLE * (1 if high else -1)
        return packed.pack(value)

    return encode


# --- defaults -----------------------------------------------------------------------------------------------------

_EPOCH = date(1970, 1, 1)


class NoJson(Exception):
    """A value that JSON cannot have: NaN, infinity, a year without four digits."""


def default(lake: str, kind: str, text: str) -> Any:
    """An initial default in JSON."""
    try:
        if kind == "binary":
            return read_blob(text).hex()
        value = _reader(lake)(text)
        if kind in ("float", "double"):
            if value - value != 0:
                raise NoJson
            return value
        if kind.startswith("decimal"):
            return f"{Decimal(value):f}"
        if kind == "uuid":
            return text.lower()
        if kind in _TEXTS:
            return _TEXTS[kind](value)
        return value
    except _BAD as problem:
        raise NoJson from problem


def _date(days: int) -> str:
    if abs(days) == DATE_INFINITY or not 0 < (_EPOCH.toordinal() + days) <= date.max.toordinal():
        raise NoJson
    return date_text(days)


def _timestamp(usecs: int) -> str:
    if abs(usecs) == TIMESTAMP_INFINITY or not -(2**56) < usecs < 2**58:
        raise NoJson
    _date(usecs // 86_400_000_000)
    return timestamp_text(usecs).replace(" ", "T")


_TEXTS: dict[str, Callable[[int], str]] = {
    "date": _date,
    "time": time_text,
    "timestamp": _timestamp,
    "timestamptz": lambda usecs: _timestamp(usecs) + "+00:00",
}


@lru_cache(1000)
def milliseconds(moment: Any) -> int:
    """A snapshot's time, as the catalog has it."""
    when = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return round((when - datetime(1970, 1, 1, tzinfo=when.tzinfo)) / timedelta(milliseconds=1))


_PLAIN = {
    "boolean": "boolean", "int8": "int", "int16": "int", "int32": "int", "uint8": "int", "uint16": "int",
    "int64": "long", "float32": "float", "float64": "double", "date": "date", "time": "time",
    "timestamp": "timestamp", "timestamptz": "timestamptz", "uuid": "uuid", "blob": "binary", "varchar": "string",
    "json": "string",
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


class ColumnRow(NamedTuple):
    """A row of ducklake_column."""

    column_id: int
    name: str
    type: str
    parent: int | None
    initial: str | None
    begin: int
    end: int | None


@frozen
class Field:
    """A column at a snapshot, or a field in one."""

    id: int
    name: str
    type: str  # DuckLake's
    initial: str | None  # DuckLake's text of the value of rows that are older than the column
    since: int  # the snapshot that added it
    fields: tuple[Field, ...] = ()

    @property
    def every(self) -> Iterator[Field]:
        yield self
        for field in self.fields:
            yield from field.every


class _LeftOut(Exception):
    """A column is left out, and why."""


def iceberg_type(field: Field) -> Any:
    inner = field.fields
    if field.type == "list":
        return {"type": "list", "element-id": inner[0].id, "element": iceberg_type(inner[0]), "element-required": False}
    if field.type == "map":
        key, value = inner
        return {"type": "map", "key-id": key.id, "key": iceberg_type(key), "value-id": value.id,
                "value": iceberg_type(value), "value-required": False}  # fmt: skip
    if field.type == "struct":
        return {"type": "struct", "fields": [_field(child) for child in inner]}
    if decimal := _DECIMAL.fullmatch(field.type):
        return f"decimal({decimal[1]}, {decimal[2]})"
    if field.type not in _PLAIN:
        raise _LeftOut(f"Iceberg has no type for {field.type}")
    return _PLAIN[field.type]


def _field(field: Field) -> dict[str, Any]:
    """NOT NULL is not told: in files every column is optional."""
    return {"id": field.id, "name": field.name, "required": False, "type": iceberg_type(field)}


class Columns:
    """The columns of a table, of every snapshot."""

    def __init__(self, rows: Sequence[ColumnRow]) -> None:
        self.rows = rows
        self._known: dict[int, tuple[Field, ...]] = {}  # of each version

    @property
    def highest_id(self) -> int:
        return max((row.column_id for row in self.rows), default=0)

    @cached_property
    def _since(self) -> dict[int, int]:
        since: dict[int, int] = {}
        for row in self.rows:
            since[row.column_id] = min(row.begin, since.get(row.column_id, row.begin))
        return since

    @cached_property
    def changes(self) -> list[int]:
        """The snapshots that changed columns."""
        return sorted({when for row in self.rows for when in (row.begin, row.end) if when is not None})

    def version(self, snapshot: int) -> int:
        """The number of the schema at a snapshot: that of the last change before it."""
        before = bisect_right(self.changes, snapshot)
        return self.changes[before - 1] if before else 0

    def at(self, snapshot: int) -> tuple[Field, ...]:
        version = self.version(snapshot)
        if version not in self._known:
            alive = [row for row in self.rows if row.begin <= version and (row.end is None or row.end > version)]
            self._known[version] = self._in(alive, None)
        return self._known[version]

    def _in(self, rows: Sequence[ColumnRow], parent: int | None) -> tuple[Field, ...]:
        return tuple([
            Field(row.column_id, row.name, row.type, row.initial, self._since[row.column_id],
                  self._in(rows, row.column_id))
            for row in rows if row.parent == parent
        ])  # fmt: skip


class Leaf(NamedTuple):
    """What is known of a scalar column: its id, and how its bounds are encoded."""

    id: int
    kind: str
    low: Bound
    high: Bound
    is_float: bool
    is_column: bool  # not a field of a struct


class Shape:
    """What is shown of the columns at a snapshot. `left_out`: why a column is not; `defaults`: initial ones in JSON."""

    def __init__(
        self, version: int, fields: tuple[Field, ...], left_out: Mapping[str, str], defaults: dict[int, Any]
    ) -> None:
        self.version = version  # the number of the schema
        self.fields = fields
        self.left_out = left_out
        self.defaults = defaults

    @property
    def json(self) -> dict[str, Any]:
        fields = []
        for field in self.fields:
            shown = _field(field)
            if field.id in self.defaults:
                shown["initial-default"] = shown["write-default"] = self.defaults[field.id]
            fields.append(shown)
        return {"type": "struct", "schema-id": self.version, "fields": fields}

    @cached_property
    def leaves(self) -> list[Leaf]:
        """The scalar columns, and scalar fields of structs: their files' statistics are shown. Iceberg has none of
        elements of lists."""
        leaves = []
        for field in _scalars(self.fields):
            kind = iceberg_type(field)
            low, high = (bound(field.type, kind, high=high) for high in (False, True))
            is_float, is_column = kind in ("float", "double"), field in self.fields
            leaves.append(Leaf(field.id, kind, low, high, is_float, is_column))
        return leaves

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(field.id for field in self.fields)

    @cached_property
    def types(self) -> str:
        """What of the columns decides how a manifest is written."""
        return repr([(leaf.id, leaf.kind) for leaf in self.leaves])


def _scalars(fields: Iterable[Field]) -> Iterator[Field]:
    for field in fields:
        if field.type == "struct":
            yield from _scalars(field.fields)
        elif not field.fields:
            yield field


def shape(
    columns: Columns, snapshot: int, *, format_version: int, omits_time: bool, lacking: Collection[int],
    unreadable: Mapping[int, str],
) -> Shape:  # fmt: skip
    """The shape at a snapshot. `lacking`: columns with a default that some files do not have; `unreadable`: columns
    that cannot be read from every file, and why."""
    shown, left_out, defaults = [], {}, {}
    for field in columns.at(snapshot):
        try:
            if field.id in unreadable:
                raise _LeftOut(unreadable[field.id])
            iceberg_type(field)
            if omits_time and any(part.type == "time" for part in field.every):
                raise _LeftOut("left out by the table's option iceberg.time")
            if field.id in lacking:
                defaults[field.id] = _default(field, format_version)
        except _LeftOut as problem:
            left_out[field.name] = str(problem)
        else:
            shown.append(field)
    return Shape(columns.version(snapshot), tuple(shown), left_out, defaults)


def lacking_columns(columns: Columns, snapshot: int, is_in_files: Callable[[Field], bool]) -> set[int]:
    """The columns with a value in rows of files that do not have them."""
    added = [field for field in columns.at(snapshot) if field.initial is not None]
    return {field.id for field in added if not is_in_files(field)}


def _default(field: Field, format_version: int) -> Any:
    if format_version < 3:
        raise _LeftOut("files from before it was added need its default, which format version 3 has; or VACUUM FULL")
    try:
        return default(field.type, str(iceberg_type(field)), field.initial or "")
    except NoJson:
        raise _LeftOut(f"Iceberg cannot say its default, {field.initial}") from None
