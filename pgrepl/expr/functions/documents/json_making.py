"""Constructing JSON from values: to_json, row_to_json, json_build_*, json_object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgrepl.expr.functions.registry import Call, Family
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import base_type, element_type, type_by_oid
from pgrepl.types.json import Jsonb, escape_json, jsonb_tree, parse_tree, sorted_object, to_jsonb
from pgrepl.types.numeric import read_numeric
from pgrepl.types.style import TextStyle, guessed_type
from pgrepl.types.text import write_text
from pgrepl.types.times.dates import INFINITY

implements = Family()

_NUMBERS = frozenset({oids.INT2, oids.INT4, oids.INT8, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC})
_MOMENTS = frozenset({oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ})


def _is_row(typoid: int) -> bool:
    if typoid == oids.RECORD:
        return True
    row = type_by_oid(typoid)
    return row is None or row.typtype == "c"  # the row type of a user's table is not among the built-in ones


def is_structured(typoid: int) -> bool:
    """Whether a type is an array or a row type."""
    return bool(element_type(typoid)) or _is_row(typoid)


def _moment(value: int, typoid: int, style: TextStyle) -> str:
    """A date or time in ISO 8601 with a T, whatever DateStyle is (JsonEncodeDateTime)."""
    if abs(value) == INFINITY:
        return "infinity" if value > 0 else "-infinity"
    text = write_text(value, typoid, TextStyle(timezone=style.timezone))
    if typoid != oids.DATE:
        text = text.replace(" ", "T", 1)
    if typoid == oids.TIMESTAMPTZ:
        body, era = (text[:-3], " BC") if text.endswith(" BC") else (text, "")
        if body[-3] in "+-":
            body += ":00"
        text = body + era
    return text


def to_json_text(call: Call, value: Any, typoid: int, pretty: str | None = None) -> str:
    """The JSON text of a value (datum_to_json). pretty: the separator between members of the outermost array or row."""
    if value is None:
        return "null"
    style = call.style
    typoid = base_type(typoid)
    if typoid == oids.BOOL:
        return "true" if value else "false"
    if typoid in (oids.JSON, oids.JSONB):
        return str(value)
    if typoid in _NUMBERS:
        text = write_text(value, typoid, style)
        return text if text[-1].isdigit() else escape_json(text)
    if typoid in _MOMENTS:
        return escape_json(_moment(value, typoid, style))
    if isinstance(value, PgArray) and element_type(typoid):
        return _array_text(call, value, pretty)
    if _is_row(typoid):
        return _row_text(call, value, pretty)
    return escape_json(write_text(value, typoid, style))


def _array_text(call: Call, array: PgArray, pretty: str | None) -> str:
    words = [to_json_text(call, item, array.elemtype) for item in array.items]
    if not words:
        return "[]"
    for number, size in enumerate(reversed(array.dims), 1):
        separator = pretty if pretty is not None and number == len(array.dims) else ","
        words = ["[" + separator.join(words[at : at + size]) + "]" for at in range(0, len(words), size)]
    return words[0]


def fields_of(value: Sequence[Any]) -> list[tuple[str, Any, int]]:
    """Name, value and type of each field of a row."""
    types: Sequence[int] = getattr(value, "types", ())
    names: Sequence[str] = getattr(value, "names", ())
    if not types:
        types = [guessed_type(item) for item in value]
        names = [f"f{number}" for number in range(1, len(value) + 1)]
    return list(zip(names, value, types, strict=True))


def _row_text(call: Call, value: Sequence[Any], pretty: str | None) -> str:
    separator = "," if pretty is None else pretty
    pairs = [f"{escape_json(name)}:{to_json_text(call, item, typoid)}" for name, item, typoid in fields_of(value)]
    return "{" + separator.join(pairs) + "}"


def to_jsonb_tree(call: Call, value: Any, typoid: int) -> Any:
    """The jsonb tree of a value."""
    if value is None:
        return None
    typoid = base_type(typoid)
    if typoid == oids.BOOL:
        return value
    if typoid == oids.JSONB:
        return jsonb_tree(value)
    if typoid == oids.JSON:
        return parse_tree(value)
    if typoid in _NUMBERS:
        text = write_text(value, typoid, call.style)
        return read_numeric(text) if text[-1].isdigit() else text
    if typoid in _MOMENTS:
        return _moment(value, typoid, call.style)
    if isinstance(value, PgArray) and element_type(typoid):
        members = [to_jsonb_tree(call, item, value.elemtype) for item in value.items]
        for size in reversed(value.dims):
            members = [members[at : at + size] for at in range(0, len(members), size)]
        return members[0] if value.dims else []
    if _is_row(typoid):
        return sorted_object({name: to_jsonb_tree(call, item, kind) for name, item, kind in fields_of(value)})
    return write_text(value, typoid, call.style)


def object_key(call: Call, key: Any, typoid: int) -> str:
    """A scalar as an object key."""
    typoid = base_type(typoid)
    if element_type(typoid) or _is_row(typoid) or typoid in (oids.JSON, oids.JSONB):
        raise PgError("22023", "key value must be scalar, not array, composite, or json")
    if typoid == oids.BOOL:
        return "true" if key else "false"
    if typoid in _MOMENTS:
        return _moment(key, typoid, call.style)
    return write_text(key, typoid, call.style)


@implements("to_json", context=True)
def to_json(call: Call, value: Any) -> str:
    return to_json_text(call, value, call.argtypes[0])


implements("to_jsonb", context=True)(lambda call, value: to_jsonb(to_jsonb_tree(call, value, call.argtypes[0])))


@implements("array_to_json", "row_to_json", context=True)
def array_to_json(call: Call, value: Any) -> str:
    return to_json_text(call, value, call.argtypes[0])


@implements("array_to_json_pretty", "row_to_json_pretty", context=True)
def array_to_json_pretty(call: Call, value: Any, pretty: bool) -> str:
    return to_json_text(call, value, call.argtypes[0], ",\n " if pretty else None)


def _given(call: Call, values: tuple[Any, ...]) -> list[tuple[Any, int]] | None:
    """Values and types of VARIADIC "any" arguments; None when the VARIADIC array is NULL."""
    if not call.variadic:
        return list(zip(values, call.argtypes, strict=True))
    (array,) = values
    return None if array is None else [(item, array.elemtype) for item in array.items]


@implements("json_build_array", "json_build_array_noargs", context=True)
def json_build_array(call: Call, *values: Any) -> str | None:
    given = _given(call, values)
    if given is None:
        return None
    return "[" + ", ".join(to_json_text(call, value, typoid) for value, typoid in given) + "]"


@implements("jsonb_build_array", "jsonb_build_array_noargs", context=True)
def jsonb_build_array(call: Call, *values: Any) -> Jsonb | None:
    given = _given(call, values)
    return None if given is None else to_jsonb([to_jsonb_tree(call, value, typoid) for value, typoid in given])


def _pairs(given: list[tuple[Any, int]], name: str) -> list[tuple[tuple[Any, int], tuple[Any, int]]]:
    if len(given) % 2:
        hint = f"The arguments of {name}() must consist of alternating keys and values."
        raise PgError("22023", "argument list must have even number of elements", hint=hint)
    return list(zip(given[::2], given[1::2], strict=True))


@implements("json_build_object", "json_build_object_noargs", context=True)
def json_build_object(call: Call, *values: Any) -> str | None:
    given = _given(call, values)
    if given is None:
        return None
    parts = []
    for (key, key_type), (value, typoid) in _pairs(given, "json_build_object"):
        if key is None:
            raise PgError("22004", "null value not allowed for object key")
        parts.append(f"{escape_json(object_key(call, key, key_type))} : {to_json_text(call, value, typoid)}")
    return "{" + ", ".join(parts) + "}"


@implements("jsonb_build_object", "jsonb_build_object_noargs", context=True)
def jsonb_build_object(call: Call, *values: Any) -> Jsonb | None:
    given = _given(call, values)
    if given is None:
        return None
    tree: dict[str, Any] = {}
    for number, ((key, key_type), (value, typoid)) in enumerate(_pairs(given, "jsonb_build_object")):
        if key is None:
            raise PgError("22023", f"argument {2 * number + 1}: key must not be null")
        tree[object_key(call, key, key_type)] = to_jsonb_tree(call, value, typoid)
    return to_jsonb(sorted_object(tree))


def _text_pairs(array: PgArray) -> list[tuple[str | None, str | None]]:
    """The pairs of json_object(text[]): a flat array, or an array of two-element rows."""
    if not array.dims:
        return []
    if len(array.dims) == 1 and array.dims[0] % 2:
        raise PgError("2202E", "array must have even number of elements")
    if len(array.dims) == 2 and array.dims[1] != 2:
        raise PgError("2202E", "array must have two columns")
    if len(array.dims) > 2:
        raise PgError("2202E", "wrong number of array subscripts")
    return list(zip(array.items[::2], array.items[1::2], strict=True))


def _two_arrays(keys: PgArray, values: PgArray) -> list[tuple[str | None, str | None]]:
    if len(keys.dims) > 1 or len(keys.dims) != len(values.dims):
        raise PgError("2202E", "wrong number of array subscripts")
    if len(keys.items) != len(values.items):
        raise PgError("2202E", "mismatched array dimensions")
    return list(zip(keys.items, values.items, strict=True))


def _checked(pairs: list[tuple[str | None, str | None]]) -> list[tuple[str, str | None]]:
    checked = []
    for key, value in pairs:
        if key is None:
            raise PgError("22004", "null value not allowed for object key")
        checked.append((key, value))
    return checked


def _object_text(pairs: list[tuple[str, str | None]]) -> str:
    shown = [f"{escape_json(key)} : {'null' if value is None else escape_json(value)}" for key, value in pairs]
    return "{" + ", ".join(shown) + "}"


implements("json_object")(lambda array: _object_text(_checked(_text_pairs(array))))
implements("json_object_two_arg")(lambda keys, values: _object_text(_checked(_two_arrays(keys, values))))
implements("jsonb_object")(lambda array: to_jsonb(sorted_object(dict(_checked(_text_pairs(array))))))


@implements("jsonb_object_two_arg")
def jsonb_object_two_arg(keys: PgArray, values: PgArray) -> Jsonb:
    return to_jsonb(sorted_object(dict(_checked(_two_arrays(keys, values)))))
