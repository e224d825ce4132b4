"""The forms of DuckLake's types in columns of tables that other DuckLake writers have created.

    >>> foreign_form("uint8").typoid, foreign_form("decimal(10,2)").typmod
    (21, 655366)

Each scalar is read as a PostgreSQL type that holds all its values, nested values as jsonb: fields are matched by name,
scalars without a JSON equivalent become their text. Intervals can be read, but only NULLs can be written: Arrow cannot
write their Parquet type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple, Protocol

from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.lazy import pa
from pgrepl.types import oids
from pgrepl.types.builtin import array_type
from pgrepl.types.json import read_jsonb
from pgrepl.types.lake import text as lake_text
from pgrepl.types.lake.arrays import Form, plain_array
from pgrepl.types.lake.forms import form
from pgrepl.types.lake.lists import element_text, element_value, list_form, times
from pgrepl.types.lake.text import in_quotes
from pgrepl.types.text import read_text, write_text
from pgrepl.types.times.datetime import TimeTz
from pgrepl.types.times.interval import Interval


class Nested(Protocol):
    """A column or field as the catalog describes it (lake.table.LakeField)."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def fields(self) -> tuple[Any, ...]: ...


class Field(NamedTuple):
    name: str
    type: str
    fields: tuple[Any, ...] = ()


_PLAIN = {
    "boolean": oids.BOOL, "int16": oids.INT2, "int32": oids.INT4, "int64": oids.INT8, "float32": oids.FLOAT4,
    "float64": oids.FLOAT8, "varchar": oids.TEXT, "json": oids.JSON, "blob": oids.BYTEA, "uuid": oids.UUID,
    "date": oids.DATE, "time": oids.TIME, "timestamp": oids.TIMESTAMP, "timestamptz": oids.TIMESTAMPTZ,
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


@cache
def foreign_form(lake: str) -> Form:
    """The form of any DuckLake type except lists, structs and maps."""
    if lake in _PLAIN:
        return form(_PLAIN[lake])
    match = _DECIMAL.fullmatch(lake)
    if match is not None:
        precision, scale = int(match[1]), int(match[2])
        return form(oids.NUMERIC, (precision << 16 | scale) + 4)
    make = _OTHERS.get(lake)
    if make is None:
        raise unsupported(f"a column of lake type {lake}")
    return make()


# --- numbers ------------------------------------------------------------------------------------------------------


def _narrow(lake: str, typoid: int, arrow: str, low: int, high: int) -> Callable[[], Form]:
    """The form of an integer type that is narrower than the PostgreSQL type for it."""

    def to_arrow(value: int) -> int:
        if not low <= value <= high:
            raise PgError("22003", f"value {value} is out of range for lake type {lake}")
        return value

    def kind() -> Any:
        return getattr(pa, arrow)()

    def make() -> Form:
        return replace(form(typoid), lake=lake, arrow=kind, to_arrow=to_arrow, to_inlined=to_arrow)

    return make


def _huge(lake: str, low: int, high: int, digits: int) -> Callable[[], Form]:
    """The form of an integer type that only numeric can hold. 128-bit ones are doubles in Parquet, as DuckDB writes
    them."""

    def check(value: Decimal) -> int:
        if not value.is_finite() or value != value.to_integral_value() or not low <= value <= high:
            raise PgError("22003", f"value {value} is out of range for lake type {lake}")
        return int(value)

    def arrow() -> Any:
        return pa.uint64() if lake == "uint64" else pa.float64()

    def to_arrow(value: Decimal) -> int | float:
        return check(value) if lake == "uint64" else float(check(value))

    def from_array(array: pa.Array) -> list[Any]:
        return [None if v is None else Decimal(int(v)) for v in plain_array(array).to_pylist()]

    def make() -> Form:
        return replace(
            form(oids.NUMERIC, (digits << 16) + 4),
            lake=lake,
            spark="DECIMAL(20,0)" if lake == "uint64" else "DOUBLE",
            arrow=arrow,
            to_arrow=to_arrow,
            from_arrow=lambda v: Decimal(int(v)),
            from_array=from_array,
            to_stat=lambda v: str(check(v)),
            from_raw=lambda v, scale: Decimal(int(v)),
            to_inlined=lambda v: str(check(v)),
            from_inlined=lambda v: Decimal(int(v)),
            ordered="none",
        )

    return make


# --- dates and times ----------------------------------------------------------------------------------------------


def _coarse(lake: str, unit: str, per_second: int) -> Callable[[], Form]:
    """The form of a timestamp of another precision; anything finer than microseconds is cut off."""

    def make() -> Form:
        plain = form(oids.TIMESTAMP)

        def arrow() -> Any:
            return pa.timestamp(unit)

        def to_arrow(value: int) -> int:
            usecs = int(plain.to_arrow(value))
            if abs(usecs) == lake_text.TIMESTAMP_INFINITY:
                return usecs
            scaled = usecs * per_second // 1_000_000
            if abs(scaled) >= lake_text.TIMESTAMP_INFINITY:
                raise PgError("22008", f"timestamp out of range for lake type {lake}")
            return scaled

        def from_raw(value: int, scale: int) -> int:
            if abs(value) != lake_text.TIMESTAMP_INFINITY:
                value = value * 1_000_000 // per_second
            return int(plain.from_arrow(value))

        return replace(
            plain,
            lake=lake,
            arrow=arrow,
            to_arrow=to_arrow,
            from_arrow=lambda v: from_raw(v, 0),
            from_raw=from_raw,
            ordered="none" if unit == "ns" else "full",
        )

    return make


def _timetz() -> Form:
    """The form of timetz; files contain the time in UTC only."""

    def from_array(array: pa.Array) -> list[Any]:
        return [None if v is None else TimeTz(v, 0) for v in times(array)]

    def from_inlined(text: str) -> TimeTz:
        usecs, east = lake_text.read_timetz(text)
        return TimeTz(usecs, -east)

    def arrow() -> Any:
        return pa.time64("us")

    def to_arrow(value: TimeTz) -> int:
        return (value.usecs + value.zone * 1_000_000) % 86_400_000_000

    plain = form(oids.TIMETZ)
    return replace(
        plain,
        lake="timetz",
        spark="TIME(6)",
        arrow=arrow,
        to_arrow=to_arrow,
        from_arrow=lambda v: TimeTz(v, 0),
        from_array=from_array,
        to_stat=lambda v: None,
        from_inlined=from_inlined,
        ordered="none",
    )


def _interval() -> Form:
    def from_array(array: pa.Array) -> list[Any]:
        return [None if v is None else read_parquet_interval(v) for v in plain_array(array).to_pylist()]

    def arrow() -> Any:
        return pa.binary(12)

    return replace(
        form(oids.INTERVAL),
        lake="interval",
        spark="BINARY",
        arrow=arrow,
        to_arrow=refuse("interval"),
        from_arrow=read_parquet_interval,
        from_array=from_array,
        to_stat=lambda v: None,
        ordered="none",
    )


def read_parquet_interval(value: bytes) -> Interval:
    """Months, days and milliseconds."""
    months, days, millis = (int.from_bytes(value[at : at + 4], "little", signed=at < 8) for at in (0, 4, 8))
    return Interval(months, days, millis * 1000)


def refuse(lake: str) -> Callable[[Any], Any]:
    def write(value: Any) -> Any:
        raise unsupported(f"writing a value of lake type {lake}")

    return write


_OTHERS: dict[str, Callable[[], Form]] = {
    "int8": _narrow("int8", oids.INT2, "int8", -128, 127),
    "uint8": _narrow("uint8", oids.INT2, "uint8", 0, 255),
    "uint16": _narrow("uint16", oids.INT4, "uint16", 0, 65535),
    "uint32": _narrow("uint32", oids.INT8, "uint32", 0, 2**32 - 1),
    "uint64": _huge("uint64", 0, 2**64 - 1, 20),
    "int128": _huge("int128", -(2**127), 2**127 - 1, 39),
    "uint128": _huge("uint128", 0, 2**128 - 1, 39),
    "timestamp_s": _coarse("timestamp_s", "s", 1),
    "timestamp_ms": _coarse("timestamp_ms", "ms", 1000),
    "timestamp_ns": _coarse("timestamp_ns", "ns", 1_000_000_000),
    "timetz": _timetz,
    "interval": _interval,
}


_NESTED = ("list", "struct", "map")


def nested_form(lake: str, fields: tuple[Nested, ...]) -> Form:
    if lake != "list":
        return document_form(lake, fields)
    if len(fields) != 1:
        raise PgError("XX001", "a list in the lake has no element")
    if fields[0].type in _NESTED:
        return document_form("list", fields)
    element = foreign_form(fields[0].type)
    array = array_type(element.typoid)
    return list_form(array, element.typmod, element) if array else document_form("list", fields)


def document_form(lake: str, fields: tuple[Nested, ...]) -> Form:
    """The form of nested values, as jsonb."""
    inner = [(f.name, nested_form(f.type, f.fields) if f.type in _NESTED else foreign_form(f.type)) for f in fields]
    itself = Field("", lake, fields)

    def arrow() -> Any:
        kinds = [(name, child.arrow()) for name, child in inner]
        if lake == "list":
            return pa.list_(pa.field("element", kinds[0][1]))
        if lake == "map":
            return pa.map_(kinds[0][1], kinds[1][1])
        return pa.struct([pa.field(name, kind) for name, kind in kinds])

    def from_array(array: pa.Array) -> list[Any]:
        values = _plain_values(plain_array(array), itself)
        return [None if v is None else _jsonb(v) for v in values]

    def from_inlined(text: str) -> Any:
        return _jsonb(_plain_value(lake_text.read_nested(text), itself))

    spark = {
        "list": lambda: f"ARRAY<{inner[0][1].spark}>",
        "map": lambda: f"MAP<{inner[0][1].spark}, {inner[1][1].spark}>",
        "struct": lambda: f"STRUCT<{', '.join(f'{_backticked(name)}: {child.spark}' for name, child in inner)}>",
    }[lake]()
    return replace(
        form(oids.JSONB),
        lake=lake,
        spark=spark,
        arrow=arrow,
        to_arrow=lambda text: _storable(_parsed(text), itself),
        from_arrow=_jsonb,
        from_array=from_array,
        to_stat=lambda v: None,
        to_inlined=lambda text: _nested_text(_parsed(text), itself),
        from_inlined=from_inlined,
        ordered="none",
        children=tuple(inner),
    )


# --- writing ------------------------------------------------------------------------------------------------------


def _parsed(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def _members(value: Any, field: Nested) -> list[tuple[str, Any, Any]]:
    """The fields of a struct with their values; unknown fields are refused."""
    if not isinstance(value, dict) or not value.keys() <= {f.name for f in field.fields}:
        raise _misfit(value, field)
    return [(f.name, value.get(f.name), f) for f in field.fields]


def _misfit(value: Any, field: Nested) -> PgError:
    return PgError("22023", f"{_json(value)} is no value of lake type {field.type}")


def _storable(value: Any, field: Nested) -> Any:
    """A JSON value as the Python object that Arrow builds a nested array from."""
    if value is None:
        return None
    if field.type == "struct":
        return {name: _storable(item, f) for name, item, f in _members(value, field)}
    if field.type == "map":
        if not isinstance(value, dict):
            raise _misfit(value, field)
        key, item = field.fields
        return [(_storable(k, key), _storable(v, item)) for k, v in value.items()]
    if field.type == "list":
        if not isinstance(value, list):
            raise _misfit(value, field)
        return [_storable(item, field.fields[0]) for item in value]
    child = foreign_form(field.type)
    return child.to_arrow(_scalar(value, child))


def _scalar(value: Any, child: Form) -> Any:
    """The value of a JSON scalar, read by its type's input function."""
    text = value if isinstance(value, str) and child.lake != "json" else _json(value)
    return read_text(text, child.typoid, child.typmod)


def _nested_text(value: Any, field: Nested) -> str:
    """A nested value as DuckDB prints it."""
    if field.type == "struct":
        inside = [f"{in_quotes(name)}: {_item_text(item, f)}" for name, item, f in _members(value, field)]
        return "{" + ", ".join(inside) + "}"
    if field.type == "map":
        if not isinstance(value, dict):
            raise _misfit(value, field)
        key, item = field.fields
        return "{" + ", ".join([f"{_item_text(k, key)}={_item_text(v, item)}" for k, v in value.items()]) + "}"
    if not isinstance(value, list):
        raise _misfit(value, field)
    return "[" + ", ".join([_item_text(item, field.fields[0]) for item in value]) + "]"


def _item_text(value: Any, field: Nested) -> str:
    if value is None:
        return "NULL"
    if field.type in _NESTED:
        return _nested_text(value, field)
    child = foreign_form(field.type)
    return in_quotes(element_text(child, _scalar(value, child)))


# --- reading ------------------------------------------------------------------------------------------------------


def _backticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _jsonb(value: Any) -> Any:
    return read_jsonb(_json(value))


def _json(value: Any) -> str:
    """JSON text; decimals keep all their digits."""
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_json(key)}: {_json(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([_json(item) for item in value]) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _plain_values(array: pa.Array, field: Nested) -> list[Any]:
    """The values of an Arrow column in JSON's types; scalars without a JSON equivalent become their text."""
    if field.type not in _NESTED:
        child = foreign_form(field.type)
        return [_plain_scalar(child, v) for v in child.from_array(array)]
    array = plain_array(array)
    if field.type == "struct":
        names = [array.type.field(i).name for i in range(array.type.num_fields)]
        columns = {f.name: _plain_values(array.field(f.name), f) for f in field.fields if f.name in names}
        valid = array.is_valid().to_pylist()
        return [
            {f.name: columns[f.name][i] if f.name in columns else None for f in field.fields} if valid[i] else None
            for i in range(len(array))
        ]
    lengths = array.value_lengths().to_pylist() if field.type == "list" else _map_lengths(array)
    if field.type == "list":
        items = _plain_values(array.flatten(), field.fields[0])
    else:
        start, stop = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
        keys = _plain_values(array.keys.slice(start, stop - start), field.fields[0])
        values = _plain_values(array.items.slice(start, stop - start), field.fields[1])
        items = list(zip(keys, values, strict=True))
    plain: list[Any] = []
    at = 0
    for length in lengths:
        if length is None:
            plain.append(None)
            continue
        part = items[at : at + length]
        at += length
        plain.append({_key(k): v for k, v in part} if field.type == "map" else part)
    return plain


def _map_lengths(array: pa.Array) -> list[int | None]:
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [offsets[i + 1] - offsets[i] if valid[i] else None for i in range(len(array))]


def _plain_value(value: Any, field: Nested) -> Any:
    """As `_plain_values`, for one value parsed from DuckDB's text (read_nested)."""
    if value is None:
        return None
    if field.type == "list":
        return [_plain_value(v, field.fields[0]) for v in value]
    if field.type == "struct":
        given = dict(value)
        return {f.name: _plain_value(given.get(f.name), f) for f in field.fields}
    if field.type == "map":
        return {_key(_plain_value(k, field.fields[0])): _plain_value(v, field.fields[1]) for k, v in value}
    child = foreign_form(field.type)
    return _plain_scalar(child, element_value(child, value))


def _plain_scalar(child: Form, value: Any) -> Any:
    is_number = child.lake.startswith(("int", "uint", "float", "decimal")) and child.lake != "interval"
    if value is None or isinstance(value, (bool, str)) or (is_number and value - value == 0):
        return value
    return write_text(value, child.typoid)  # infinities and NaN, too


def _key(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
