"""Arrays: constructing, slicing, searching, unnesting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cmp_to_key
from random import sample
from typing import Any

from pgrepl.expr.functions.registry import Call, Family
from pgrepl.expr.functions.strings import joined
from pgrepl.ground.errors import PgError
from pgrepl.types import input_checks, oids
from pgrepl.types.arrays import PgArray, array_of, check_bounds, check_dimensions
from pgrepl.types.builtin import element_type
from pgrepl.types.text import write_text
from pgrepl.types.values import Compare, compare_arrays, comparer

implements = Family()


def empty(elemtype: int) -> PgArray:
    return PgArray(elemtype, (), (), ())


def array_of_arrays(elemtype: int, parts: list[PgArray | None]) -> PgArray:
    """ARRAY[a, b] of arrays as ExecEvalArrayExpr does: the result has one more dimension."""
    present = [part for part in parts if part is not None]
    check_dimensions(1 + max((len(part.dims) for part in present), default=0))
    filled = [part for part in present if part.items]
    if not filled:
        return empty(elemtype)
    shape = filled[0].dims
    if len(filled) != len(parts) or any(part.dims != shape for part in filled):
        raise PgError("2202E", "multidimensional arrays must have array expressions with matching dimensions")
    items = tuple(item for part in filled for item in part.items)
    lbounds = (1, *filled[0].lbounds)
    return PgArray(elemtype, (len(filled), *shape), lbounds, items)


def accumulated(elemtype: int, parts: list[PgArray | None]) -> PgArray:
    """ARRAY(SELECT …) of arrays: the result has one more dimension."""
    before: list[PgArray | None] = []
    for part in parts:
        check_accumulated(before, part)
        before.append(part)
    return array_of_arrays(elemtype, before)


def check_accumulated(before: Sequence[PgArray | None], part: PgArray | None) -> None:
    """Check that all arrays have the shape of the first (accumArrayResultArr)."""
    if part is None:
        raise PgError("22004", "cannot accumulate null arrays")
    if not before:
        if not part.dims:
            raise PgError("2202E", "cannot accumulate empty arrays")
    elif before[0] is not None and (part.dims, part.lbounds) != (before[0].dims, before[0].lbounds):
        raise PgError("2202E", "cannot accumulate arrays of different dimensionality")


def _character_of_name(name: str, subscripts: Sequence[int]) -> str | None:
    if len(subscripts) != 1 or not 0 <= subscripts[0] < 64:
        return None
    return chr(name.encode().ljust(64, b"\0")[subscripts[0]])


def array_element(array: PgArray | str, subscripts: Sequence[int]) -> Any:
    """The element a[1][2]: NULL outside the bounds, or when the number of subscripts is not the number of
    dimensions. A name is an array of 64 characters from 0 on (raw_array_subscript_handler)."""
    if isinstance(array, str):
        return _character_of_name(array, subscripts)
    if len(subscripts) != len(array.dims):
        return None
    index = 0
    for subscript, size, lower in zip(subscripts, array.dims, array.lbounds, strict=True):
        if not lower <= subscript < lower + size:
            return None
        index = index * size + subscript - lower
    return array.items[index]


def array_slice(array: PgArray, lowers: Sequence[int | None], uppers: Sequence[int | None]) -> PgArray:
    """The slice a[1:2][:3] as array_get_slice does: clipped to the bounds, numbered from 1."""
    if len(lowers) > len(array.dims) or not array.dims:
        return empty(array.elemtype)
    ranges = []
    for number, (size, bound) in enumerate(zip(array.dims, array.lbounds, strict=True)):
        lower = lowers[number] if number < len(lowers) else None
        upper = uppers[number] if number < len(uppers) else None
        first = bound if lower is None else max(lower, bound)
        last = bound + size - 1 if upper is None else min(upper, bound + size - 1)
        if first > last:
            return empty(array.elemtype)
        ranges.append(range(first - bound, last - bound + 1))
    indexes = [0]
    for size, chosen in zip(array.dims, ranges, strict=True):
        indexes = [index * size + offset for index in indexes for offset in chosen]
    dims = tuple(len(chosen) for chosen in ranges)
    return PgArray(array.elemtype, dims, (1,) * len(dims), tuple(array.items[index] for index in indexes))


# ---------------------------------------------------------------------------------------------------------- dimensions


implements("array_ndims")(lambda array: len(array.dims) or None)


@implements("array_dims")
def array_dims(array: PgArray) -> str | None:
    if not array.dims:
        return None
    bounds = zip(array.lbounds, array.dims, strict=True)
    return "".join(f"[{lower}:{lower + size - 1}]" for lower, size in bounds)


@implements("array_lower")
def array_lower(array: PgArray, dimension: int) -> int | None:
    return array.lbounds[dimension - 1] if 1 <= dimension <= len(array.dims) else None


@implements("array_upper")
def array_upper(array: PgArray, dimension: int) -> int | None:
    if not 1 <= dimension <= len(array.dims):
        return None
    return array.lbounds[dimension - 1] + array.dims[dimension - 1] - 1


@implements("array_length")
def array_length(array: PgArray, dimension: int) -> int | None:
    return array.dims[dimension - 1] if 1 <= dimension <= len(array.dims) else None


implements("array_cardinality")(lambda array: len(array.items))


# -------------------------------------------------------------------------------------------------------------- making


def _element_of(call: Call, position: int) -> int:
    typoid = call.argtypes[position]
    return element_type(typoid) or typoid


@implements("array_append", context=True)
def array_append(call: Call, array: PgArray | None, item: Any) -> PgArray:
    if array is None or not array.dims:
        return array_of(_element_of(call, 0) if array is None else array.elemtype, [item])
    if len(array.dims) != 1:
        raise PgError("22000", "argument must be empty or one-dimensional array")
    dims = (array.dims[0] + 1,)
    if array.lbounds[0] + array.dims[0] >= 2**31:
        raise PgError("22003", "integer out of range")
    check_bounds(dims, array.lbounds)
    return PgArray(array.elemtype, dims, array.lbounds, (*array.items, item))


@implements("array_prepend", context=True)
def array_prepend(call: Call, item: Any, array: PgArray | None) -> PgArray:
    if array is None or not array.dims:
        return array_of(_element_of(call, 1) if array is None else array.elemtype, [item])
    if len(array.dims) != 1:
        raise PgError("22000", "argument must be empty or one-dimensional array")
    if array.lbounds[0] == -(2**31):
        raise PgError("22003", "integer out of range")
    return PgArray(array.elemtype, (array.dims[0] + 1,), array.lbounds, (item, *array.items))


@implements("array_cat")
def array_cat(one: PgArray | None, two: PgArray | None) -> PgArray | None:
    """Concatenation as array_cat does: two arrays of the same number of dimensions, or one as an element of the
    other."""
    if one is None or two is None:
        return two if one is None else one
    if not one.dims or not two.dims:
        return one if not two.dims else two
    n, m = len(one.dims), len(two.dims)
    input_checks.check_items(len(one.items) + len(two.items))
    items = (*one.items, *two.items)
    if n == m and one.dims[1:] == two.dims[1:] and one.lbounds[1:] == two.lbounds[1:]:
        return PgArray(one.elemtype, (one.dims[0] + two.dims[0], *one.dims[1:]), one.lbounds, items)
    if n == m - 1 and one.dims == two.dims[1:] and one.lbounds == two.lbounds[1:]:
        return PgArray(one.elemtype, (two.dims[0] + 1, *two.dims[1:]), two.lbounds, items)
    if n - 1 == m and two.dims == one.dims[1:] and two.lbounds == one.lbounds[1:]:
        return PgArray(one.elemtype, (one.dims[0] + 1, *one.dims[1:]), one.lbounds, items)
    if abs(n - m) > 1:
        detail = f"Arrays of {n} and {m} dimensions are not compatible for concatenation."
    elif n == m:
        detail = "Arrays with differing element dimensions are not compatible for concatenation."
    else:
        detail = "Arrays with differing dimensions are not compatible for concatenation."
    raise PgError("2202E", "cannot concatenate incompatible arrays", detail=detail)


@implements("array_fill", context=True)
def array_fill(call: Call, value: Any, dims: PgArray | None, lbounds: PgArray | None = None) -> PgArray:
    if dims is None or (lbounds is None and len(call.argtypes) == 3):
        raise PgError("22004", "dimension array or low bound array cannot be null")
    if len(dims.dims) > 1:
        raise PgError("2202E", "wrong number of array subscripts", detail="Dimension array must be one dimensional.")
    if None in dims.items or (lbounds is not None and None in lbounds.items):
        raise PgError("22004", "dimension values cannot be null")
    check_dimensions(len(dims.items))
    if lbounds is not None and len(lbounds.items) != len(dims.items):
        raise PgError(
            "2202E",
            "wrong number of array subscripts",
            detail="Low bound array has different size than dimensions array.",
        )
    count = 1
    for size in dims.items:
        if size < 0:
            raise PgError("54000", f"array size exceeds the maximum allowed ({input_checks.MAX_ITEMS})")
        count *= size
    input_checks.check_items(count)
    if isinstance(value, (str, bytes)):
        input_checks.check_array((input_checks.size_of(value) + input_checks.HEADER + 3) // 4 * 4 * count)
    elemtype = element_type(call.type)
    if not dims.items or count == 0:
        return empty(elemtype)
    lower = tuple(lbounds.items) if lbounds is not None else (1,) * len(dims.items)
    check_bounds(dims.items, lower)
    return PgArray(elemtype, tuple(dims.items), lower, (value,) * count)


implements("array_fill_with_lower_bounds", context=True)(array_fill)


# ----------------------------------------------------------------------------------------------------------- searching


def _is(compare: Compare, item: Any, value: Any) -> bool:
    if item is None or value is None:
        return item is value
    return compare(item, value) == 0


@implements("array_position_start")
def array_position_start(array: PgArray | None, value: Any, start: int | None, given: bool = True) -> int | None:
    if array is None:
        return None
    if len(array.dims) > 1:
        raise PgError("0A000", "searching for elements in multidimensional arrays is not supported")
    if given and start is None:
        raise PgError("22004", "initial position must not be null")
    compare = comparer(array.elemtype)
    lower = array.lbounds[0] if array.lbounds else 1
    for number, item in enumerate(array.items, lower):
        if (start is None or number >= start) and _is(compare, item, value):
            return number
    return None


implements("array_position")(lambda array, value: array_position_start(array, value, None, False))


@implements("array_positions")
def array_positions(array: PgArray | None, value: Any) -> PgArray | None:
    if array is None:
        return None
    if len(array.dims) > 1:
        raise PgError("0A000", "searching for elements in multidimensional arrays is not supported")
    compare = comparer(array.elemtype)
    lower = array.lbounds[0] if array.lbounds else 1
    return array_of(oids.INT4, [n for n, item in enumerate(array.items, lower) if _is(compare, item, value)])


@implements("array_remove")
def array_remove(array: PgArray | None, value: Any) -> PgArray | None:
    if array is None:
        return None
    if len(array.dims) > 1:
        raise PgError("0A000", "removing elements from multidimensional arrays is not supported")
    compare = comparer(array.elemtype)
    kept = [item for item in array.items if not _is(compare, item, value)]
    if len(kept) == len(array.items):
        return array
    return PgArray(array.elemtype, (len(kept),), array.lbounds, tuple(kept)) if kept else empty(array.elemtype)


@implements("array_replace")
def array_replace(array: PgArray | None, old: Any, new: Any) -> PgArray | None:
    if array is None:
        return None
    compare = comparer(array.elemtype)
    items = tuple(new if _is(compare, item, old) else item for item in array.items)
    return PgArray(array.elemtype, array.dims, array.lbounds, items)


def _contains(one: PgArray, two: PgArray) -> bool:
    if one.elemtype != two.elemtype:
        raise PgError("42804", "cannot compare arrays of different element types")
    compare = comparer(one.elemtype)
    known = [item for item in one.items if item is not None]
    return all(item is not None and any(compare(item, other) == 0 for other in known) for item in two.items)


implements("arraycontains")(_contains)
implements("arraycontained")(lambda one, two: _contains(two, one))


@implements("arrayoverlap")
def arrayoverlap(one: PgArray, two: PgArray) -> bool:
    compare = comparer(one.elemtype)
    known = [item for item in one.items if item is not None]
    return any(item is not None and any(compare(item, other) == 0 for other in known) for item in two.items)


# ------------------------------------------------------------------------------------------------------- text and rows


implements("array_to_text", context=True)(lambda call, array, separator: _joined(call, array, separator, None))


@implements("array_to_text_null", context=True)
def array_to_text_null(call: Call, array: PgArray | None, separator: str | None, null: str | None) -> str | None:
    if array is None or separator is None:
        return None
    return _joined(call, array, separator, null)


def _joined(call: Call, array: PgArray, separator: str, null: str | None) -> str:
    words = [null if item is None else write_text(item, array.elemtype, call.style) for item in array.items]
    return joined([word for word in words if word is not None], separator)


@implements("text_to_array", "text_to_array_null")
def text_to_array(text: str | None, separator: str | None, null: str | None = None) -> PgArray | None:
    if text is None:
        return None
    return array_of(oids.TEXT, [None if word == null else word for word in split(text, separator)])


@implements("text_to_table", "text_to_table_null")
def text_to_table(text: str | None, separator: str | None, null: str | None = None) -> list[str | None]:
    if text is None:
        return []
    return [None if word == null else word for word in split(text, separator)]


def split(text: str, separator: str | None) -> list[str]:
    """Split a text as split_text does: into characters for a NULL separator, not at all for an empty one."""
    if separator is None:
        return list(text)
    if not text:
        return []
    return text.split(separator) if separator else [text]


implements("array_unnest")(lambda array: array.items)


@implements("_pg_expandarray(anyarray)")
def expandarray(array: PgArray) -> Iterator[tuple[Any, int]]:
    """Drivers find the columns of a primary key by it."""
    return ((item, number) for number, item in enumerate(array.items, 1))


@implements("generate_subscripts", "generate_subscripts_nodir")
def generate_subscripts(array: PgArray, dimension: int, reverse: bool = False) -> Iterator[int]:
    if not 1 <= dimension <= len(array.dims):
        return iter(())
    lower, size = array.lbounds[dimension - 1], array.dims[dimension - 1]
    numbers = range(lower, lower + size)
    return iter(reversed(numbers) if reverse else numbers)


@implements("trim_array")
def trim_array(array: PgArray, count: int) -> PgArray:
    size = array.dims[0] if array.dims else 0
    if not 0 <= count <= size:
        raise PgError("2202E", f"number of elements to trim must be between 0 and {size}")
    if not array.dims:
        return array
    upper = array.lbounds[0] + size - 1 - count
    return array_slice(array, [None], [upper])


implements("array_reverse")(lambda array: _rearranged(array, lambda count: range(count - 1, -1, -1)))


@implements("array_sort", "array_sort_order", "array_sort_order_nulls_first")
def array_sort(array: PgArray, descending: bool = False, nulls_first: bool | None = None) -> PgArray:
    """The slices of the first dimension in order, as tuplesort does. What has one slice needs no order."""
    if not array.dims or array.dims[0] < 2:
        return array
    try:
        of_items = comparer(array.elemtype)
    except PgError as error:
        raise PgError("0A000", error.message) from None
    width = len(array.items) // array.dims[0]
    if width > 1 or len(array.dims) > 1:
        dims, lbounds = array.dims[1:], array.lbounds[1:]
        parts: list[Any] = [
            PgArray(array.elemtype, dims, lbounds, array.items[at : at + width])
            for at in range(0, len(array.items), width)
        ]
        compare: Compare = compare_arrays
    else:
        parts, compare = list(array.items), of_items
    first = descending if nulls_first is None else nulls_first

    def order(one: int, two: int) -> int:
        a, b = parts[one], parts[two]
        if a is None or b is None:
            return (int(a is None) - int(b is None)) * (-1 if first else 1)
        return -compare(a, b) if descending else compare(a, b)

    return _rearranged(array, lambda count: sorted(range(count), key=cmp_to_key(order)))


implements("array_shuffle")(lambda array: _rearranged(array, lambda count: sample(range(count), count)))


@implements("array_sample")
def array_sample(array: PgArray, count: int) -> PgArray:
    size = array.dims[0] if array.dims else 0
    if not 0 <= count <= size:
        raise PgError("22023", f"sample size must be between 0 and {size}")
    picked = _rearranged(array, lambda total: sample(range(total), count))
    return PgArray(picked.elemtype, picked.dims, (1,) * len(picked.dims), picked.items)


def _rearranged(array: PgArray, choose: Any) -> PgArray:
    """The array with the slices of its first dimension reordered."""
    if not array.dims:
        return array
    width = len(array.items) // array.dims[0]
    order = choose(array.dims[0])
    if not order:
        return empty(array.elemtype)
    items = tuple(item for n in order for item in array.items[n * width : (n + 1) * width])
    return PgArray(array.elemtype, (len(order), *array.dims[1:]), array.lbounds, items)
