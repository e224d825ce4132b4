"""Assignments to elements of arrays and jsonb: `SET a[2] = 5`, `a[1:2] = '{…}'`, `j['k'] = …`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr.functions.arrays import empty
from pgrepl.types.arrays import PgArray
from pgrepl.types.json import Jsonb, jsonb_tree, sorted_object, to_jsonb
from pgrepl.types.sizes import check_items


def _error(message: str, detail: str | None = None) -> PgError:
    return PgError("2202E", message, detail=detail)


def set_element(array: PgArray | None, elemtype: int, subscripts: Sequence[int], value: Any) -> PgArray:
    """Set an element as array_set_element does: a one-dimensional array grows, with NULLs in the gap."""
    array = array or empty(elemtype)
    if not array.dims:
        return PgArray(elemtype, (1,) * len(subscripts), tuple(subscripts), (value,))
    if len(subscripts) != len(array.dims):
        raise _error("wrong number of array subscripts")
    if len(array.dims) == 1:
        return _put(array, subscripts[0], (value,))
    index = 0
    for subscript, size, lower in zip(subscripts, array.dims, array.lbounds, strict=True):
        if not lower <= subscript < lower + size:
            raise _error("array subscript out of range")
        index = index * size + subscript - lower
    items = (*array.items[:index], value, *array.items[index + 1 :])
    return PgArray(elemtype, array.dims, array.lbounds, items)


def _put(array: PgArray, first: int, values: tuple[Any, ...]) -> PgArray:
    """Store values from an index on in a one-dimensional array."""
    lower, items = array.lbounds[0], array.items
    before, after = max(lower - first, 0), max(first + len(values) - lower - len(items), 0)
    check_items(before + len(items) + after)
    items = (None,) * before + tuple(items) + (None,) * after
    lower = min(lower, first)
    at = first - lower
    items = items[:at] + values + items[at + len(values) :]
    return PgArray(array.elemtype, (len(items),), (lower,), items)


def set_slice(
    array: PgArray | None,
    elemtype: int,
    lowers: Sequence[int | None],
    uppers: Sequence[int | None],
    source: PgArray | None,
) -> PgArray | None:
    """Set a slice as array_set_slice does; None stands for an omitted bound."""
    if source is None:
        return array
    array = array or empty(elemtype)
    if not array.dims:
        return _new_slice(elemtype, lowers, uppers, source)
    if len(lowers) > len(array.dims):
        raise _error("wrong number of array subscripts")
    bounds = []
    for number, (size, bound) in enumerate(zip(array.dims, array.lbounds, strict=True)):
        lower = lowers[number] if number < len(lowers) else None
        upper = uppers[number] if number < len(uppers) else None
        bounds.append((bound if lower is None else lower, bound + size - 1 if upper is None else upper))
    for (lower, upper), size, bound in zip(bounds, array.dims, array.lbounds, strict=True):
        if lower > upper:
            raise _error("upper bound cannot be less than lower bound")
        if len(array.dims) > 1 and (lower < bound or upper >= bound + size):
            raise _error("array subscript out of range")
    count = 1
    for lower, upper in bounds:
        count *= upper - lower + 1
    if len(source.items) < count:
        raise _error("source array too small")
    if len(array.dims) == 1:
        return _put(array, bounds[0][0], tuple(source.items[:count]))
    items, values = list(array.items), iter(source.items)
    for place in product(*(range(lower, upper + 1) for lower, upper in bounds)):
        index = 0
        for subscript, size, bound in zip(place, array.dims, array.lbounds, strict=True):
            index = index * size + subscript - bound
        items[index] = next(values)
    return PgArray(elemtype, array.dims, array.lbounds, tuple(items))


def _new_slice(elemtype: int, lowers: Sequence[int | None], uppers: Sequence[int | None], source: PgArray) -> PgArray:
    dims, count = [], 1
    for lower, upper in zip(lowers, uppers, strict=True):
        if lower is None or upper is None:
            detail = "When assigning to a slice of an empty array value, slice boundaries must be fully specified."
            raise _error("array slice subscript must provide both boundaries", detail)
        dims.append(upper - lower + 1)
        count *= max(upper - lower + 1, 0)
    if min(dims) <= 0 or len(source.items) < count:
        raise _error("source array too small" if min(dims) > 0 else "upper bound cannot be less than lower bound")
    return PgArray(elemtype, tuple(dims), tuple(lower or 0 for lower in lowers), tuple(source.items[:count]))


def set_jsonb(value: Jsonb | None, steps: Sequence[Any], new: Jsonb | None) -> Jsonb:
    """Set a member as jsonb_subscript_assign does: missing objects and arrays on the path are created, gaps in arrays
    become null."""
    tree = jsonb_tree(value) if value is not None else ([] if isinstance(steps[0], int) else {})
    if not isinstance(tree, (dict, list)):
        raise _not_a_container()
    return to_jsonb(_with(tree, list(steps), 0, jsonb_tree(new) if new is not None else None))


def _not_a_container() -> PgError:
    return PgError(
        "22023",
        "cannot replace existing key",
        detail="The path assumes key is a composite object, but it is a scalar value.",
    )


def _with(tree: Any, steps: list[Any], level: int, new: Any) -> Any:
    step, last = steps[level], level == len(steps) - 1
    if isinstance(tree, dict):
        key = str(step)
        inner = new if last else _below(tree.get(key, _ABSENT), steps, level, new)
        return sorted_object({**tree, key: inner})
    if isinstance(tree, list):
        try:
            index = int(step)
        except ValueError:
            message = f'path element at position {level + 1} is not an integer: "{step}"'
            raise PgError("22P02", message) from None
        if index < 0:
            if -index > len(tree):
                message = f"path element at position {level + 1} is out of range: {index}"
                raise PgError("22003", message)
            index += len(tree)
        filled = [*tree, *[None] * (index + 1 - len(tree))]
        below = tree[index] if index < len(tree) else _ABSENT
        filled[index] = new if last else _below(below, steps, level, new)
        return filled
    raise _not_a_container()


_ABSENT = object()


def _below(tree: Any, steps: list[Any], level: int, new: Any) -> Any:
    if tree is _ABSENT:
        tree = [] if isinstance(steps[level + 1], int) else {}
    elif not isinstance(tree, (dict, list)):
        raise _not_a_container()
    return _with(tree, steps, level + 1, new)
