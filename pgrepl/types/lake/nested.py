"""The forms of nested types in tables that other DuckLake writers have created: jsonb.

Fields are matched by name. Scalars without a JSON equivalent become their text.
"""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import pa
from pgrepl.types import oids
from pgrepl.types.builtin import array_type
from pgrepl.types.json import read_jsonb
from pgrepl.types.lake import text as lake_text
from pgrepl.types.lake.arrays import Form, plain_array
from pgrepl.types.lake.foreign import Field, Nested, foreign_form
from pgrepl.types.lake.forms import form
from pgrepl.types.lake.lists import element_text, element_value, list_form
from pgrepl.types.text import read_text, write_text

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
        found = _plain_values(plain_array(array), itself)
        return [None if v is None else _jsonb(v) for v in found]

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
        inside = [f"{_quoted(name)}: {_item_text(item, f)}" for name, item, f in _members(value, field)]
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
    return _quoted(element_text(child, _scalar(value, child)))


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"


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
    found: list[Any] = []
    at = 0
    for length in lengths:
        if length is None:
            found.append(None)
            continue
        part = items[at : at + length]
        at += length
        found.append({_key(k): v for k, v in part} if field.type == "map" else part)
    return found


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
