"""jsonb: containment, modification, casts to scalar types, and functions and operators with a jsonpath."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pgrepl.expr.functions import casts
from pgrepl.expr.functions.documents.json import kind_of, path_index
from pgrepl.expr.functions.documents.jsonpath_run import Variable
from pgrepl.expr.functions.documents.jsonpath_steps import exists, items, json_tree, variables_of
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.ground.errors import PgError
from pgrepl.types.arrays import PgArray
from pgrepl.types.json import Jsonb, jsonb_tree, sorted_object, to_jsonb
from pgrepl.types.lake.arrays import same

implements = Family()

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


implements("jsonb_contains")(lambda one, two: _contains(jsonb_tree(one), jsonb_tree(two)))
implements("jsonb_contained")(lambda one, two: _contains(jsonb_tree(two), jsonb_tree(one)))


def _exists(tree: Any, key: str) -> bool:
    if isinstance(tree, (dict, list)):
        return any(isinstance(item, str) and item == key for item in tree)
    return bool(isinstance(tree, str) and tree == key)


implements("jsonb_exists")(lambda value, key: _exists(jsonb_tree(value), key))


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


implements("jsonb_delete")(lambda value, key: _without(value, (key,)))


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
    """Set, insert or delete at a path, as setPath does."""
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
    index = path_index(step)
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


def _cast(source: str, wanted: type, target: str, convert: Callable[[Any], Any]) -> None:
    """Register the cast of a scalar. In 18 the cast of null is NULL."""

    @implements(source, context=True)
    def compute(call: Call, value: Jsonb) -> Any:
        tree = jsonb_tree(value)
        if isinstance(tree, wanted):
            return convert(tree)
        if tree is None and call.context.release >= 18:
            return None
        raise PgError("22023", f"cannot cast jsonb {kind_of(tree)} to type {target}")


_cast("jsonb_bool", bool, "boolean", same)
_cast("jsonb_numeric", Decimal, "numeric", same)
_cast("jsonb_int2", Decimal, "smallint", casts.numeric_int2)
_cast("jsonb_int4", Decimal, "integer", casts.numeric_int4)
_cast("jsonb_int8", Decimal, "bigint", casts.numeric_int8)
_cast("jsonb_float4", Decimal, "real", casts.numeric_float4)
_cast("jsonb_float8", Decimal, "double precision", casts.numeric_float8)


# --- jsonpath ---------------------------------------------------------------------------------------------------------


Found = Callable[..., list[Any]]


def _variables(given: Jsonb | None) -> Mapping[str, Variable] | None:
    return None if given is None else variables_of(jsonb_tree(given))


def _items(call: Call, value: Jsonb, path: str, given: Jsonb | None, silent: bool, use_tz: bool) -> list[Any]:
    return items(call, jsonb_tree(value), path, _variables(given), silent=silent, use_tz=use_tz)


def _match(call: Call, value: Jsonb, path: str, given: Jsonb | None, silent: bool, use_tz: bool) -> bool | None:
    results = _items(call, value, path, given, silent, use_tz)
    if len(results) == 1 and (results[0] is None or isinstance(results[0], bool)):
        return results[0]
    if silent:
        return None
    raise PgError("22038", "single boolean result is expected")


def _register(suffix: str, use_tz: bool) -> None:
    @implements(f"jsonb_path_exists{suffix}", context=True)
    def jsonb_path_exists(call: Call, value: Jsonb, path: str, given: Jsonb, silent: bool) -> bool | None:
        return exists(call, jsonb_tree(value), path, _variables(given), silent=silent, use_tz=use_tz)

    @implements(f"jsonb_path_match{suffix}", context=True)
    def jsonb_path_match(call: Call, value: Jsonb, path: str, given: Jsonb, silent: bool) -> bool | None:
        return _match(call, value, path, given, silent, use_tz)

    @implements(f"jsonb_path_query{suffix}", context=True)
    def jsonb_path_query(call: Call, value: Jsonb, path: str, given: Jsonb, silent: bool) -> Iterator[Jsonb]:
        return iter([to_jsonb(json_tree(item)) for item in _items(call, value, path, given, silent, use_tz)])

    @implements(f"jsonb_path_query_array{suffix}", context=True)
    def jsonb_path_query_array(call: Call, value: Jsonb, path: str, given: Jsonb, silent: bool) -> Jsonb:
        return to_jsonb(json_tree(_items(call, value, path, given, silent, use_tz)))

    @implements(f"jsonb_path_query_first{suffix}", context=True)
    def jsonb_path_query_first(call: Call, value: Jsonb, path: str, given: Jsonb, silent: bool) -> Jsonb | None:
        results = _items(call, value, path, given, silent, use_tz)
        return to_jsonb(json_tree(results[0])) if results else None


_register("", False)
_register("_tz", True)


@implements("jsonb_path_exists_opr", context=True)
def jsonb_path_exists_opr(call: Call, value: Jsonb, path: str) -> bool | None:
    return exists(call, jsonb_tree(value), path, silent=True)


@implements("jsonb_path_match_opr", context=True)
def jsonb_path_match_opr(call: Call, value: Jsonb, path: str) -> bool | None:
    return _match(call, value, path, None, True, False)
