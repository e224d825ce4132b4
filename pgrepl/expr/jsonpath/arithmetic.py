"""Arithmetic operators and signs."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr.functions.numeric import (
    numeric_add,
    numeric_div,
    numeric_mod,
    numeric_mul,
    numeric_sub,
    numeric_uminus,
)
from pgrepl.expr.jsonpath.run import Found, PathError, Run, handles, is_number, only
from pgrepl.types.jsonpath.items import Item, operation_name

_OPERATORS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": numeric_add,
    "-": numeric_sub,
    "*": numeric_mul,
    "/": numeric_div,
    "%": numeric_mod,
}


@handles(*_OPERATORS)
def binary(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    """As executeBinaryArithmExpr does."""
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
    """As executeUnaryArithmExpr does."""
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
