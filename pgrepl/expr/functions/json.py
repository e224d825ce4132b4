"""Reading and changing json and jsonb: members, paths, elements, containment, set and delete.

A json value answers with pieces of its own text, a jsonb value with new jsonb.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr.functions import implements
from pgrepl.types.arrays import PgArray
from pgrepl.types.json import Jsonb, JsonNode, escape_json, jsonb_tree, parse_json, sorted_object, to_jsonb
from pgrepl.types.numbers import SPACE

# ------------------------------------------------------------------------------------------------------ json: its text


def _node(text: str) -> JsonNode:
    return parse_json(text, decode=True)


def _raw(text: str, node: JsonNode) -> str:
    return text[node.start : node.end]


def _as_text(text: str, node: JsonNode) -> str | None:
    if node.kind == "null":
        return None
    return node.value if node.kind == "string" else _raw(text, node)


def _member(node: JsonNode | None, key: str) -> JsonNode | None:
    if node is None or node.kind != "object":
        return None
    return next((value for name, value in reversed(node.value) if name == key), None)


def _item(node: JsonNode | None, index: int) -> JsonNode | None:
    if node is None or node.kind != "array":
        return None
    index = index if index >= 0 else len(node.value) + index
    return node.value[index] if 0 <= index < len(node.value) else None


def _walk(node: JsonNode | None, path: Sequence[str | None]) -> JsonNode | None:
    for step in path:
        if node is None or step is None:
            return None
        if node.kind == "object":
            node = _member(node, step)
        else:
            index = _path_index(step)
            node = _item(node, index) if index is not None else None
    return node


def _path_index(step: str) -> int | None:
    """As strtoint reads it; None when it is no integer."""
    digits = step.strip(SPACE) if step[-1:] not in SPACE else ""
    sign = digits[1:] if digits[:1] in ("+", "-") else digits
    if not sign.isascii() or not sign.isdigit() or abs(int(digits)) >= 1 << 31:
        return None
    return int(digits)


def _shown(text: str, node: JsonNode | None) -> str | None:
    return None if node is None else _raw(text, node)


def _shown_text(text: str, node: JsonNode | None) -> str | None:
    return None if node is None else _as_text(text, node)


@implements("json_object_field")
def json_object_field(text: str, key: str) -> str | None:
    return _shown(text, _member(_node(text), key))


@implements("json_object_field_text")
def json_object_field_text(text: str, key: str) -> str | None:
    return _shown_text(text, _member(_node(text), key))


@implements("json_array_element")
def json_array_element(text: str, index: int) -> str | None:
    return _shown(text, _item(_node(text), index))


@implements("json_array_element_text")
def json_array_element_text(text: str, index: int) -> str | None:
    return _shown_text(text, _item(_node(text), index))


@implements("json_extract_path")
def json_extract_path(text: str, path: PgArray) -> str | None:
    return _shown(text, _walk(_node(text), path.items))


@implements("json_extract_path_text")
def json_extract_path_text(text: str, path: PgArray) -> str | None:
    return _shown_text(text, _walk(_node(text), path.items))


@implements("json_typeof")
def json_typeof(text: str) -> str:
    kind = _node(text).kind
    return "boolean" if kind in ("true", "false") else kind


@implements("json_array_length")
def json_array_length(text: str) -> int:
    node = _node(text)
    if node.kind != "array":
        what = "a non-array" if node.kind == "object" else "a scalar"
        raise PgError("22023", f"cannot get array length of {what}")
    return len(node.value)


def _object_members(text: str, array_message: str, scalar_message: str) -> list[tuple[str, JsonNode]]:
    node = _node(text)
    if node.kind != "object":
        raise PgError("22023", array_message if node.kind == "array" else scalar_message)
    members: list[tuple[str, JsonNode]] = node.value
    return members


@implements("json_each")
def json_each(text: str) -> Iterator[tuple[str, str]]:
    members = _object_members(text, "cannot deconstruct an array as an object", "cannot deconstruct a scalar")
    return iter([(key, _raw(text, node)) for key, node in members])


@implements("json_each_text")
def json_each_text(text: str) -> Iterator[tuple[str, str | None]]:
    members = _object_members(text, "cannot deconstruct an array as an object", "cannot deconstruct a scalar")
    return iter([(key, _as_text(text, node)) for key, node in members])


@implements("json_object_keys")
def json_object_keys(text: str) -> Iterator[str]:
    name = "json_object_keys"
    members = _object_members(text, f"cannot call {name} on an array", f"cannot call {name} on a scalar")
    return iter([key for key, _ in members])


def _elements(text: str, function: str) -> list[JsonNode]:
    node = _node(text)
    if node.kind != "array":
        what = "a non-array" if node.kind == "object" else "a scalar"
        raise PgError("22023", f"cannot call {function} on {what}")
    elements: list[JsonNode] = node.value
    return elements


@implements("json_array_elements")
def json_array_elements(text: str) -> Iterator[str]:
    return iter([_raw(text, node) for node in _elements(text, "json_array_elements")])


@implements("json_array_elements_text")
def json_array_elements_text(text: str) -> Iterator[str | None]:
    return iter([_as_text(text, node) for node in _elements(text, "json_array_elements_text")])


@implements("json_strip_nulls")
def json_strip_nulls(text: str) -> str:
    return _stripped_text(text, _node(text))


def _stripped_text(text: str, node: JsonNode) -> str:
    if node.kind == "object":
        kept = [(key, value) for key, value in node.value if value.kind != "null"]
        return "{" + ",".join(f"{escape_json(key)}:{_stripped_text(text, value)}" for key, value in kept) + "}"
    if node.kind == "array":
        return "[" + ",".join(_stripped_text(text, value) for value in node.value) + "]"
    return escape_json(node.value) if node.kind == "string" else _raw(text, node)


# ----------------------------------------------------------------------------------------------------- jsonb: its tree

_ABSENT = object()


def _tree_text(tree: Any) -> str | None:
    """The ->> of a tree."""
    if tree is None or tree is _ABSENT:
        return None
    return tree if isinstance(tree, str) else str(to_jsonb(tree))


def _tree_jsonb(tree: Any) -> Jsonb | None:
    return None if tree is _ABSENT else to_jsonb(tree)


def _get(tree: Any, key: str) -> Any:
    return tree.get(key, _ABSENT) if isinstance(tree, dict) else _ABSENT


def _at(tree: Any, index: int) -> Any:
    if not isinstance(tree, list):
        return _ABSENT
    index = index if index >= 0 else len(tree) + index
    return tree[index] if 0 <= index < len(tree) else _ABSENT


def _follow(tree: Any, path: Sequence[str | None]) -> Any:
    for step in path:
        if step is None:
            return _ABSENT
        if isinstance(tree, dict):
            tree = _get(tree, step)
        else:
            index = _path_index(step)
            tree = _ABSENT if index is None else _at(tree, index)
        if tree is _ABSENT:
            break
    return tree


@implements("jsonb_object_field")
def jsonb_object_field(value: Jsonb, key: str) -> Jsonb | None:
    return _tree_jsonb(_get(jsonb_tree(value), key))


@implements("jsonb_object_field_text")
def jsonb_object_field_text(value: Jsonb, key: str) -> str | None:
    return _tree_text(_get(jsonb_tree(value), key))


@implements("jsonb_array_element")
def jsonb_array_element(value: Jsonb, index: int) -> Jsonb | None:
    return _tree_jsonb(_at(jsonb_tree(value), index))


@implements("jsonb_array_element_text")
def jsonb_array_element_text(value: Jsonb, index: int) -> str | None:
    return _tree_text(_at(jsonb_tree(value), index))


@implements("jsonb_extract_path")
def jsonb_extract_path(value: Jsonb, path: PgArray) -> Jsonb | None:
    return _tree_jsonb(_follow(jsonb_tree(value), path.items))


@implements("jsonb_extract_path_text")
def jsonb_extract_path_text(value: Jsonb, path: PgArray) -> str | None:
    return _tree_text(_follow(jsonb_tree(value), path.items))


def jsonb_subscript(value: Jsonb, subscripts: Sequence[Any]) -> Jsonb | None:
    return _tree_jsonb(_follow(jsonb_tree(value), [str(step) for step in subscripts]))


def _kind(tree: Any) -> str:
    if tree is None:
        return "null"
    for python, name in ((bool, "boolean"), (str, "string"), (dict, "object"), (list, "array")):
        if isinstance(tree, python):
            return name
    return "number"


@implements("jsonb_typeof")
def jsonb_typeof(value: Jsonb) -> str:
    return _kind(jsonb_tree(value))


@implements("jsonb_array_length")
def jsonb_array_length(value: Jsonb) -> int:
    tree = jsonb_tree(value)
    if not isinstance(tree, list):
        what = "a non-array" if isinstance(tree, dict) else "a scalar"
        raise PgError("22023", f"cannot get array length of {what}")
    return len(tree)


def _object(value: Jsonb, function: str) -> dict[str, Any]:
    tree = jsonb_tree(value)
    if not isinstance(tree, dict):
        raise PgError("22023", f"cannot call {function} on a non-object")
    return tree


@implements("jsonb_each")
def jsonb_each(value: Jsonb) -> Iterator[tuple[str, Jsonb]]:
    return iter([(key, to_jsonb(item)) for key, item in _object(value, "jsonb_each").items()])


@implements("jsonb_each_text")
def jsonb_each_text(value: Jsonb) -> Iterator[tuple[str, str | None]]:
    return iter([(key, _tree_text(item)) for key, item in _object(value, "jsonb_each_text").items()])


@implements("jsonb_object_keys")
def jsonb_object_keys(value: Jsonb) -> Iterator[str]:
    tree = jsonb_tree(value)
    if not isinstance(tree, dict):
        what = "an array" if isinstance(tree, list) else "a scalar"
        raise PgError("22023", f"cannot call jsonb_object_keys on {what}")
    return iter(tree)


def _array(value: Jsonb) -> list[Any]:
    tree = jsonb_tree(value)
    if not isinstance(tree, list):
        what = "an object" if isinstance(tree, dict) else "a scalar"
        raise PgError("22023", f"cannot extract elements from {what}")
    return tree


@implements("jsonb_array_elements")
def jsonb_array_elements(value: Jsonb) -> Iterator[Jsonb]:
    return iter([to_jsonb(item) for item in _array(value)])


@implements("jsonb_array_elements_text")
def jsonb_array_elements_text(value: Jsonb) -> Iterator[str | None]:
    return iter([_tree_text(item) for item in _array(value)])


@implements("jsonb_strip_nulls")
def jsonb_strip_nulls(value: Jsonb) -> Jsonb:
    return to_jsonb(_stripped(jsonb_tree(value)))


def _stripped(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _stripped(item) for key, item in tree.items() if item is not None}
    return [_stripped(item) for item in tree] if isinstance(tree, list) else tree


@implements("jsonb_pretty")
def jsonb_pretty(value: Jsonb) -> str:
    return _pretty(jsonb_tree(value), "")


def _pretty(tree: Any, indent: str) -> str:
    inner = indent + "    "
    if isinstance(tree, dict):
        members = [f"{inner}{escape_json(key)}: {_pretty(item, inner)}" for key, item in tree.items()]
        return "{\n" + ",\n".join(members) + ("\n" if members else "") + indent + "}"
    if isinstance(tree, list):
        members = [inner + _pretty(item, inner) for item in tree]
        return "[\n" + ",\n".join(members) + ("\n" if members else "") + indent + "]"
    return str(to_jsonb(tree))


# --------------------------------------------------------------------------------------------------------- containment


def _same(one: Any, two: Any) -> bool:
    return type(one) is type(two) and bool(one == two)


def _contains(one: Any, two: Any, top: bool = True) -> bool:
    if isinstance(one, dict) and isinstance(two, dict):
        return all(key in one and _contains(one[key], item, False) for key, item in two.items())
    if isinstance(one, list):
        if isinstance(two, list):
            return all(any(_contains_item(mine, item) for mine in one) for item in two)
        return top and not isinstance(two, dict) and any(_same(mine, two) for mine in one)
    return not isinstance(one, dict) and _same(one, two)


def _contains_item(mine: Any, item: Any) -> bool:
    if isinstance(item, (dict, list)):
        return type(mine) is type(item) and _contains(mine, item, False)
    return _same(mine, item)


@implements("jsonb_contains")
def jsonb_contains(one: Jsonb, two: Jsonb) -> bool:
    return _contains(jsonb_tree(one), jsonb_tree(two))


@implements("jsonb_contained")
def jsonb_contained(one: Jsonb, two: Jsonb) -> bool:
    return _contains(jsonb_tree(two), jsonb_tree(one))


def _exists(tree: Any, key: str) -> bool:
    if isinstance(tree, (dict, list)):
        return any(isinstance(item, str) and item == key for item in tree)
    return bool(isinstance(tree, str) and tree == key)


@implements("jsonb_exists")
def jsonb_exists(value: Jsonb, key: str) -> bool:
    return _exists(jsonb_tree(value), key)


@implements("jsonb_exists_any")
def jsonb_exists_any(value: Jsonb, keys: PgArray) -> bool:
    tree = jsonb_tree(value)
    return any(key is not None and _exists(tree, key) for key in keys.items)


@implements("jsonb_exists_all")
def jsonb_exists_all(value: Jsonb, keys: PgArray) -> bool:
    tree = jsonb_tree(value)
    return all(key is None or _exists(tree, key) for key in keys.items)


# ------------------------------------------------------------------------------------------------------------ changing


@implements("jsonb_concat")
def jsonb_concat(one: Jsonb, two: Jsonb) -> Jsonb:
    a, b = jsonb_tree(one), jsonb_tree(two)
    if isinstance(a, dict) and isinstance(b, dict):
        return to_jsonb(sorted_object({**a, **b}))
    first = a if isinstance(a, list) else [a]
    second = b if isinstance(b, list) else [b]
    return to_jsonb(first + second)


def _deletable(tree: Any) -> None:
    if not isinstance(tree, (dict, list)):
        raise PgError("22023", "cannot delete from scalar")


@implements("jsonb_delete")
def jsonb_delete(value: Jsonb, key: str) -> Jsonb:
    return _without(value, (key,))


@implements("jsonb_delete_array")
def jsonb_delete_array(value: Jsonb, keys: PgArray) -> Jsonb:
    if len(keys.dims) > 1:
        raise PgError("2202E", "wrong number of array subscripts")
    return _without(value, keys.items)


def _without(value: Jsonb, keys: Sequence[str | None]) -> Jsonb:
    tree = jsonb_tree(value)
    _deletable(tree)
    if isinstance(tree, dict):
        return to_jsonb({key: item for key, item in tree.items() if key not in keys})
    return to_jsonb([item for item in tree if not (isinstance(item, str) and item in keys)])


@implements("jsonb_delete_idx")
def jsonb_delete_idx(value: Jsonb, index: int) -> Jsonb:
    tree = jsonb_tree(value)
    if isinstance(tree, dict):
        raise PgError("22023", "cannot delete from object using integer index")
    _deletable(tree)
    index = index if index >= 0 else len(tree) + index
    return to_jsonb([item for number, item in enumerate(tree) if number != index])


_DELETE, _REPLACE, _CREATE, _BEFORE, _AFTER = 1, 2, 4, 8, 16


def _set_path(tree: Any, path: Sequence[str | None], level: int, new: Any, mode: int) -> Any:
    """As setPath does."""
    step = path[level]
    if step is None:
        raise PgError("22004", f"path element at position {level + 1} is null")
    if isinstance(tree, dict):
        return _set_member(tree, path, level, step, new, mode)
    if isinstance(tree, list):
        return _set_item(tree, path, level, step, new, mode)
    return tree


def _set_member(tree: dict[str, Any], path: Sequence[str | None], level: int, step: str, new: Any, mode: int) -> Any:
    last = level == len(path) - 1
    if step not in tree:
        return sorted_object({**tree, step: new}) if last and mode & (_CREATE | _BEFORE | _AFTER) else tree
    if not last:
        return {**tree, step: _set_path(tree[step], path, level + 1, new, mode)}
    if mode & (_BEFORE | _AFTER):
        hint = "Try using the function jsonb_set to replace key value."
        raise PgError("22023", "cannot replace existing key", hint=hint)
    if mode & _DELETE:
        return {key: item for key, item in tree.items() if key != step}
    return {**tree, step: new}


def _set_item(tree: list[Any], path: Sequence[str | None], level: int, step: str, new: Any, mode: int) -> Any:
    index = _path_index(step)
    if index is None:
        raise PgError("22P02", f'path element at position {level + 1} is not an integer: "{step}"')
    last = level == len(path) - 1
    adds = last and bool(mode & (_CREATE | _BEFORE | _AFTER))
    if index < 0:
        index += len(tree)
        if index < 0:
            return [new, *tree] if adds else tree
    if index >= len(tree):
        return [*tree, new] if adds else tree
    before, here, after = tree[:index], tree[index], tree[index + 1 :]
    if not last:
        return [*before, _set_path(here, path, level + 1, new, mode), *after]
    if mode & _DELETE:
        return [*before, *after]
    if mode & _BEFORE:
        return [*before, new, here, *after]
    if mode & _AFTER:
        return [*before, here, new, *after]
    return [*before, new, *after]


def _change(value: Jsonb, path: PgArray, new: Any, mode: int, scalar_message: str) -> Jsonb:
    if len(path.dims) > 1:
        raise PgError("2202E", "wrong number of array subscripts")
    tree = jsonb_tree(value)
    if not isinstance(tree, (dict, list)):
        raise PgError("22023", scalar_message)
    if not path.items or (not tree and not mode & (_CREATE | _BEFORE | _AFTER)):
        return value
    return to_jsonb(_set_path(tree, path.items, 0, new, mode))


@implements("jsonb_delete_path")
def jsonb_delete_path(value: Jsonb, path: PgArray) -> Jsonb:
    return _change(value, path, None, _DELETE, "cannot delete path in scalar")


@implements("jsonb_set")
def jsonb_set(value: Jsonb, path: PgArray, new: Jsonb, create: bool) -> Jsonb:
    mode = _CREATE if create else _REPLACE
    return _change(value, path, jsonb_tree(new), mode, "cannot set path in scalar")


@implements("jsonb_insert")
def jsonb_insert(value: Jsonb, path: PgArray, new: Jsonb, after: bool) -> Jsonb:
    return _change(value, path, jsonb_tree(new), _AFTER if after else _BEFORE, "cannot set path in scalar")


@implements("jsonb_set_lax")
def jsonb_set_lax(
    value: Jsonb | None, path: PgArray | None, new: Jsonb | None, create: bool | None, treatment: str | None
) -> Jsonb | None:
    if value is None or path is None or create is None:
        return None
    if treatment is None:
        message = 'null_value_treatment must be "delete_key", "return_target", "use_json_null", or "raise_exception"'
        raise PgError("22023", message)
    if new is not None:
        return jsonb_set(value, path, new, create)
    if treatment == "raise_exception":
        raise PgError(
            "22004",
            "JSON value must not be null",
            detail='Exception was raised because null_value_treatment is "raise_exception".',
            hint="To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.",
        )
    if treatment == "use_json_null":
        return jsonb_set(value, path, Jsonb("null"), create)
    if treatment == "delete_key":
        return jsonb_delete_path(value, path)
    if treatment == "return_target":
        return value
    message = 'null_value_treatment must be "delete_key", "return_target", "use_json_null", or "raise_exception"'
    raise PgError("22023", message)


# --------------------------------------------------------------------------------------------------------------- casts


def _scalar(value: Jsonb, wanted: type, target: str) -> Any:
    tree = jsonb_tree(value)
    if not isinstance(tree, wanted):
        raise PgError("22023", f"cannot cast jsonb {_kind(tree)} to type {target}")
    return tree


@implements("jsonb_bool")
def jsonb_bool(value: Jsonb) -> bool:
    found: bool = _scalar(value, bool, "boolean")
    return found


@implements("jsonb_numeric")
def jsonb_numeric(value: Jsonb) -> Decimal:
    found: Decimal = _scalar(value, Decimal, "numeric")
    return found


def _number(source: str, target: str, convert: str) -> None:
    from pgrepl.expr.functions import casts

    function = getattr(casts, convert)

    def cast(value: Jsonb) -> Any:
        return function(_scalar(value, Decimal, target))

    implements(source)(cast)


_number("jsonb_int2", "smallint", "numeric_int2")
_number("jsonb_int4", "integer", "numeric_int4")
_number("jsonb_int8", "bigint", "numeric_int8")
_number("jsonb_float4", "real", "numeric_float4")
_number("jsonb_float8", "double precision", "numeric_float8")
