"""Reading json and jsonb: members, paths, elements, type names, and text without nulls or indented.

The parts of a json value are pieces of its text; the parts of a jsonb value are new jsonb values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pgrepl.expr.functions.registry import Family
from pgrepl.ground.errors import PgError
from pgrepl.types.json import Jsonb, JsonNode, escape_json, jsonb_tree, parse_json, to_jsonb
from pgrepl.types.numbers import SPACE

implements = Family()

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
            index = path_index(step)
            node = _item(node, index) if index is not None else None
    return node


def path_index(step: str) -> int | None:
    """An array index in a path, as strtoint reads it; None when it is not an integer."""
    digits = step.strip(SPACE) if step[-1:] not in SPACE else ""
    sign = digits[1:] if digits[:1] in ("+", "-") else digits
    if not sign.isascii() or not sign.isdigit() or abs(int(digits)) >= 1 << 31:
        return None
    return int(digits)


def _shown(text: str, node: JsonNode | None) -> str | None:
    return None if node is None else _raw(text, node)


def _shown_text(text: str, node: JsonNode | None) -> str | None:
    return None if node is None else _as_text(text, node)


implements("json_object_field")(lambda text, key: _shown(text, _member(_node(text), key)))
implements("json_object_field_text")(lambda text, key: _shown_text(text, _member(_node(text), key)))
implements("json_array_element")(lambda text, index: _shown(text, _item(_node(text), index)))
implements("json_array_element_text")(lambda text, index: _shown_text(text, _item(_node(text), index)))
implements("json_extract_path")(lambda text, path: _shown(text, _walk(_node(text), path.items)))
implements("json_extract_path_text")(lambda text, path: _shown_text(text, _walk(_node(text), path.items)))


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


implements("json_strip_nulls")(lambda text, in_arrays=False: _stripped_text(text, _node(text), in_arrays))


def _stripped_text(text: str, node: JsonNode, in_arrays: bool) -> str:
    if node.kind == "object":
        kept = [(key, value) for key, value in node.value if value.kind != "null"]
        return (
            "{" + ",".join(f"{escape_json(key)}:{_stripped_text(text, value, in_arrays)}" for key, value in kept) + "}"
        )
    if node.kind == "array":
        items = [value for value in node.value if not in_arrays or value.kind != "null"]
        return "[" + ",".join(_stripped_text(text, value, in_arrays) for value in items) + "]"
    return escape_json(node.value) if node.kind == "string" else _raw(text, node)


# ----------------------------------------------------------------------------------------------------- jsonb: its tree

_ABSENT = object()


def _tree_text(tree: Any) -> str | None:
    """The result of ->> for a jsonb tree."""
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
            index = path_index(step)
            tree = _ABSENT if index is None else _at(tree, index)
        if tree is _ABSENT:
            break
    return tree


implements("jsonb_object_field")(lambda value, key: _tree_jsonb(_get(jsonb_tree(value), key)))
implements("jsonb_object_field_text")(lambda value, key: _tree_text(_get(jsonb_tree(value), key)))
implements("jsonb_array_element")(lambda value, index: _tree_jsonb(_at(_as_array(jsonb_tree(value)), index)))


@implements("jsonb_array_element_text")
def jsonb_array_element_text(value: Jsonb, index: int) -> str | None:
    return _tree_text(_at(_as_array(jsonb_tree(value)), index))


def _as_array(tree: Any) -> Any:
    """A scalar is kept as an array of one element."""
    return tree if isinstance(tree, (list, dict)) else [tree]


implements("jsonb_extract_path")(lambda value, path: _tree_jsonb(_follow(jsonb_tree(value), path.items)))
implements("jsonb_extract_path_text")(lambda value, path: _tree_text(_follow(jsonb_tree(value), path.items)))


def jsonb_subscript(value: Jsonb, subscripts: Sequence[Any]) -> Jsonb | None:
    return _tree_jsonb(_follow(jsonb_tree(value), [str(step) for step in subscripts]))


def kind_of(tree: Any) -> str:
    if tree is None:
        return "null"
    for python, name in ((bool, "boolean"), (str, "string"), (dict, "object"), (list, "array")):
        if isinstance(tree, python):
            return name
    return "number"


implements("jsonb_typeof")(lambda value: kind_of(jsonb_tree(value)))


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


implements("jsonb_array_elements")(lambda value: iter([to_jsonb(item) for item in _array(value)]))
implements("jsonb_array_elements_text")(lambda value: iter([_tree_text(item) for item in _array(value)]))
implements("jsonb_strip_nulls")(lambda value, in_arrays=False: to_jsonb(_stripped(jsonb_tree(value), in_arrays)))


def _stripped(tree: Any, in_arrays: bool) -> Any:
    if isinstance(tree, dict):
        return {key: _stripped(item, in_arrays) for key, item in tree.items() if item is not None}
    if not isinstance(tree, list):
        return tree
    return [_stripped(item, in_arrays) for item in tree if not in_arrays or item is not None]


implements("jsonb_pretty")(lambda value: _pretty(jsonb_tree(value), ""))


def _pretty(tree: Any, indent: str) -> str:
    inner = indent + "    "
    if isinstance(tree, dict):
        members = [f"{inner}{escape_json(key)}: {_pretty(item, inner)}" for key, item in tree.items()]
        return "{\n" + ",\n".join(members) + ("\n" if members else "") + indent + "}"
    if isinstance(tree, list):
        members = [inner + _pretty(item, inner) for item in tree]
        return "[\n" + ",\n".join(members) + ("\n" if members else "") + indent + "]"
    return str(to_jsonb(tree))
