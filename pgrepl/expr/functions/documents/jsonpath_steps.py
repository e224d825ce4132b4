"""The steps of a path: literals, variables, keys, elements, levels, filters, arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pgrepl.expr.functions.documents.jsonpath_moments import truth
from pgrepl.expr.functions.documents.jsonpath_run import Found, PathError, Run, handles, is_number, only
from pgrepl.expr.functions.numbers.numeric import (
    numeric_add,
    numeric_div,
    numeric_mod,
    numeric_mul,
    numeric_sub,
    numeric_uminus,
)
from pgrepl.ground.errors import PgError
from pgrepl.types.jsonpath.scanner import Item, operation_name

_OPERATORS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": numeric_add,
    "-": numeric_sub,
    "*": numeric_mul,
    "/": numeric_div,
    "%": numeric_mod,
}


@handles(*_OPERATORS)
def binary(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    """An arithmetic operator with two operands (executeBinaryArithmExpr)."""
    left, right = item.args
    assert left is not None and right is not None
    lefts, rights = run.sequence(left, value, unwrap=True), run.sequence(right, value, unwrap=True)
    one, other = only(lefts), only(rights)
    if one is None or other is None:
        side = "left" if one is None else "right"
        raise PathError("22038", f"{side} operand of jsonpath operator {item.kind} is not a single numeric value")
    try:
        result = _OPERATORS[item.kind](one, other)
    except PgError as error:
        raise PathError(error.sqlstate, error.message) from None
    if item.next is None and found is None:
        return True
    return run.next(item, result, found)


@handles("u+", "u-")
def unary(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    """A sign before each number that is found (executeUnaryArithmExpr)."""
    (operand,) = item.args
    assert operand is not None
    result = False
    asks_only = found is None and item.next is None
    for number in run.sequence(operand, value, unwrap=True):
        if is_number(number):
            if asks_only:
                return True
        elif asks_only:
            continue
        else:
            sign = operation_name(item)
            raise PathError("2203B", f"operand of unary jsonpath operator {sign} is not a numeric value")
        signed = numeric_uminus(number) if item.kind == "u-" else number
        if run.next(item, signed, found):
            if found is None:
                return True
            result = True
    return result


# --- accessors --------------------------------------------------------------------------------------------------------


_NO_MEMBER, _NO_ARRAY, _NO_OBJECT, _BAD_SUBSCRIPT = "2203A", "22039", "2203C", "22033"


@handles("null", "string", "numeric", "bool")
def literal(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    if item.next is None and found is None:
        return True
    return run.next(item, item.value, found)


@handles("variable")
def variable(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    known = run.variables.get(item.value)
    if known is None:
        raise PgError("42704", f'could not find jsonpath variable "{item.value}"')
    if not known.number:
        return run.next(item, known.value, found)
    return run.from_base(known.base, known.number, lambda: run.next(item, known.value, found))


@handles("$")
def root(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    return run.from_base(run.root, 0, lambda: run.next(item, run.root, found))


@handles("@")
def current(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    return run.next(item, run.current, found)


@handles("last")
def last(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    if item.next is None and found is None:
        return True
    return run.next(item, Decimal(run.array_size - 1), found)


@handles("key")
def key(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    if isinstance(value, dict):
        if item.value in value:
            return run.next(item, value[item.value], found)
        if not run.ignore_structure:
            raise PathError(_NO_MEMBER, f'JSON object does not contain key "{item.value}"')
        return False
    if unwrap and isinstance(value, list):
        return run.members(item, value, found, unwrap=False)
    if not run.ignore_structure:
        raise PathError(_NO_MEMBER, "jsonpath member accessor can only be applied to an object")
    return False


@handles(".*")
def any_key(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    if isinstance(value, dict):
        return run.members(item.next, value, found, unwrap=run.lax)
    if unwrap and isinstance(value, list):
        return run.members(item, value, found, unwrap=False)
    if not run.ignore_structure:
        raise PathError(_NO_OBJECT, "jsonpath wildcard member accessor can only be applied to an object")
    return False


@handles("[*]")
def any_element(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    if isinstance(value, list):
        return run.members(item.next, value, found, unwrap=run.lax)
    if run.lax:
        return run.next(item, value, found)
    if not run.ignore_structure:
        raise PathError(_NO_ARRAY, "jsonpath wildcard array accessor can only be applied to an array")
    return False


@handles("[…]")
def elements(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    if not isinstance(value, list) and not run.lax:
        if not run.ignore_structure:
            raise PathError(_NO_ARRAY, "jsonpath array accessor can only be applied to an array")
        return False
    array = value if isinstance(value, list) else [value]
    outer, run.array_size = run.array_size, len(array)
    try:
        return _subscripted(run, item, value, array, found)
    finally:
        run.array_size = outer


def _subscripted(run: Run, item: Item, value: Any, array: list[Any], found: Found) -> bool:
    result = False
    for first, last_ in item.value:
        low = _index(run, first, value)
        high = low if last_ is None else _index(run, last_, value)
        if not run.ignore_structure and (low < 0 or low > high or high >= len(array)):
            raise PathError(_BAD_SUBSCRIPT, "jsonpath array subscript is out of bounds")
        result = False
        for member in array[max(low, 0) : max(high + 1, 0)]:
            if item.next is None and found is None:
                return True
            result = run.next(item, member, found)
            if result and found is None:
                return True
    return result


def _index(run: Run, item: Item, value: Any) -> int:
    """The number in a subscript of an array (getArrayIndex)."""
    number = only(run.sequence(item, value, unwrap=False))
    if number is None:
        raise PathError(_BAD_SUBSCRIPT, "jsonpath array subscript is not a single numeric value")
    if number.adjusted() > 10 or not -(1 << 31) <= int(number) < 1 << 31:
        raise PathError(_BAD_SUBSCRIPT, "jsonpath array subscript is out of integer range")
    return int(number)


@handles("**")
def any_level(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    first, last_ = item.value
    result = False
    if first == 0:
        result = run.ignoring_structure(lambda: run.next(item, value, found))
        if result and found is None:
            return True
    if isinstance(value, (dict, list)):
        return run.members(item.next, value, found, (first, last_), unwrap=run.lax, ignore_structure=True)
    return result


@handles("?")
def filter_(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    if unwrap and isinstance(value, list):
        return run.members(item, value, found, unwrap=False)
    (condition,) = item.args
    assert condition is not None
    outer, run.current = run.current, value
    try:
        holds = truth(run, condition, value)
    finally:
        run.current = outer
    return run.next(item, value, found) if holds is True else False
