"""The steps of a path: literals, variables, keys, elements, levels, filters, arithmetic, and methods but those of
dates and times; and the interface: the items that a path finds in a document.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from pgrepl.expr.functions.casts import float8_numeric, numeric_int4, numeric_int8
from pgrepl.expr.functions.documents.jsonpath_moments import METHODS as MOMENTS
from pgrepl.expr.functions.documents.jsonpath_moments import moment, moment_text, truth
from pgrepl.expr.functions.documents.jsonpath_run import (
    Found,
    Moment,
    PathError,
    Run,
    Variable,
    handles,
    is_number,
    is_string,
    key_value,
    only,
)
from pgrepl.expr.functions.numeric import (
    numeric_abs,
    numeric_add,
    numeric_ceil,
    numeric_div,
    numeric_floor,
    numeric_mod,
    numeric_mul,
    numeric_sub,
    numeric_uminus,
)
from pgrepl.expr.functions.registry import Call
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.input_checks import stack_depth_exceeded
from pgrepl.types.jsonpath.parser import parse_path
from pgrepl.types.jsonpath.scanner import Item, operation_name
from pgrepl.types.names import format_type, typmod_in
from pgrepl.types.numbers import read_bool, read_float8, read_int4, read_int8
from pgrepl.types.numeric import read_numeric, write_numeric

_OPERATORS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": numeric_add,
    "-": numeric_sub,
    "*": numeric_mul,
    "/": numeric_div,
    "%": numeric_mod,
}


@handles(*_OPERATORS)
def binary(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
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
    if item.next is None and matches is None:
        return True
    return run.next(item, result, matches)


@handles("u+", "u-")
def unary(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    """A sign before each number that is found (executeUnaryArithmExpr)."""
    (operand,) = item.args
    assert operand is not None
    result = False
    asks_only = matches is None and item.next is None
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
        if run.next(item, signed, matches):
            if matches is None:
                return True
            result = True
    return result


# --- accessors --------------------------------------------------------------------------------------------------------


_NO_MEMBER, _NO_ARRAY, _NO_OBJECT, _BAD_SUBSCRIPT = "2203A", "22039", "2203C", "22033"


@handles("null", "string", "numeric", "bool")
def literal(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    if item.next is None and matches is None:
        return True
    return run.next(item, item.value, matches)


@handles("variable")
def variable(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    known = run.variables.get(item.value)
    if known is None:
        raise PgError("42704", f'could not find jsonpath variable "{item.value}"')
    if not known.number:
        return run.next(item, known.value, matches)
    return run.from_base(known.base, known.number, lambda: run.next(item, known.value, matches))


@handles("$")
def root(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    return run.from_base(run.root, 0, lambda: run.next(item, run.root, matches))


@handles("@")
def current(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    return run.next(item, run.current, matches)


@handles("last")
def last(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    if item.next is None and matches is None:
        return True
    return run.next(item, Decimal(run.array_size - 1), matches)


@handles("key")
def key(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    if isinstance(value, dict):
        if item.value in value:
            return run.next(item, value[item.value], matches)
        if not run.ignore_structure:
            raise PathError(_NO_MEMBER, f'JSON object does not contain key "{item.value}"')
        return False
    if unwrap and isinstance(value, list):
        return run.members(item, value, matches, unwrap=False)
    if not run.ignore_structure:
        raise PathError(_NO_MEMBER, "jsonpath member accessor can only be applied to an object")
    return False


@handles(".*")
def any_key(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    if isinstance(value, dict):
        return run.members(item.next, value, matches, unwrap=run.lax)
    if unwrap and isinstance(value, list):
        return run.members(item, value, matches, unwrap=False)
    if not run.ignore_structure:
        raise PathError(_NO_OBJECT, "jsonpath wildcard member accessor can only be applied to an object")
    return False


@handles("[*]")
def any_element(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    if isinstance(value, list):
        return run.members(item.next, value, matches, unwrap=run.lax)
    if run.lax:
        return run.next(item, value, matches)
    if not run.ignore_structure:
        raise PathError(_NO_ARRAY, "jsonpath wildcard array accessor can only be applied to an array")
    return False


@handles("[…]")
def elements(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    if not isinstance(value, list) and not run.lax:
        if not run.ignore_structure:
            raise PathError(_NO_ARRAY, "jsonpath array accessor can only be applied to an array")
        return False
    array = value if isinstance(value, list) else [value]
    outer, run.array_size = run.array_size, len(array)
    try:
        return _subscripted(run, item, value, array, matches)
    finally:
        run.array_size = outer


def _subscripted(run: Run, item: Item, value: Any, array: list[Any], matches: Found) -> bool:
    result = False
    for first, last_ in item.value:
        low = _index(run, first, value)
        high = low if last_ is None else _index(run, last_, value)
        if not run.ignore_structure and (low < 0 or low > high or high >= len(array)):
            raise PathError(_BAD_SUBSCRIPT, "jsonpath array subscript is out of bounds")
        result = False
        for member in array[max(low, 0) : max(high + 1, 0)]:
            if item.next is None and matches is None:
                return True
            result = run.next(item, member, matches)
            if result and matches is None:
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
def any_level(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    first, last_ = item.value
    result = False
    if first == 0:
        result = run.ignoring_structure(lambda: run.next(item, value, matches))
        if result and matches is None:
            return True
    if isinstance(value, (dict, list)):
        return run.members(item.next, value, matches, (first, last_), unwrap=run.lax, ignore_structure=True)
    return result


@handles("?")
def filter_(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    if unwrap and isinstance(value, list):
        return run.members(item, value, matches, unwrap=False)
    (condition,) = item.args
    assert condition is not None
    outer, run.current = run.current, value
    try:
        holds = truth(run, condition, value)
    finally:
        run.current = outer
    return run.next(item, value, matches) if holds is True else False


_NOT_NUMERIC = "22036"


@handles("method")
def method(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    name: str = item.value
    if name == "type":
        return run.next(item, type_name(value), matches)
    if name == "size":
        return _size(run, item, value, matches)
    if unwrap and isinstance(value, list):
        return run.members(item, value, matches, unwrap=False)
    if name in MOMENTS:
        result: Any = moment(run, item, value)
    elif name == "keyvalue":
        return key_value(run, item, value, matches)
    else:
        result = _CONVERSIONS[name](item, value)
    if item.next is None and matches is None:
        return True
    return run.next(item, result, matches)


def type_name(value: Any) -> str:
    """The name of a json value's type (JsonbTypeName)."""
    if value is None:
        return "null"
    if isinstance(value, Moment):
        return format_type(value.type)
    kinds = ((bool, "boolean"), (str, "string"), (Decimal, "number"), (list, "array"), (dict, "object"))
    return next(name for kind, name in kinds if isinstance(value, kind))


def _size(run: Run, item: Item, value: Any, matches: Found) -> bool:
    if isinstance(value, list):
        return run.next(item, Decimal(len(value)), matches)
    if run.lax:
        return run.next(item, Decimal(1), matches)
    if not run.ignore_structure:
        raise PathError("22039", "jsonpath item method .size() can only be applied to an array")
    return False


def _only_to(name: str, what: str) -> PathError:
    return PathError(_NOT_NUMERIC, f"jsonpath item method .{name}() can only be applied to a {what}")


def _invalid(name: str, text: str, type_: str) -> PathError:
    return PathError(_NOT_NUMERIC, f'argument "{text}" of jsonpath item method .{name}() is invalid for type {type_}')


def _not_a_number(name: str) -> PathError:
    return PathError(_NOT_NUMERIC, f"NaN or Infinity is not allowed for jsonpath item method .{name}()")


def _read(read: Callable[[Any], Any], given: Any, error: PathError) -> Any:
    try:
        return read(given)
    except PgError:
        raise error from None


# --- numbers ----------------------------------------------------------------------------------------------------------


def _of_number(function: Callable[[Decimal], Decimal]) -> Callable[[Item, Any], Any]:
    def convert(item: Item, value: Any) -> Decimal:
        if not is_number(value):
            raise _only_to(item.value, "numeric value")
        return function(value)

    return convert


def _double(item: Item, value: Any) -> Decimal:
    if not is_number(value) and not is_string(value):
        raise _only_to("double", "string or numeric value")
    text = value if is_string(value) else write_numeric(value)
    number: float = _read(read_float8, text, _invalid("double", text, "double precision"))
    if math.isinf(number) or math.isnan(number):
        raise _not_a_number("double")
    return value if is_number(value) else float8_numeric(number)


def _whole(type_: int, of_number: Callable[[Decimal], int], of_text: Callable[[str], int]) -> Callable[..., Any]:
    def convert(item: Item, value: Any) -> Decimal:
        if is_number(value):
            return Decimal(_read(of_number, value, _invalid(item.value, write_numeric(value), format_type(type_))))
        if is_string(value):
            return Decimal(_read(of_text, value, _invalid(item.value, value, format_type(type_))))
        raise _only_to(item.value, "string or numeric value")

    return convert


def _number(item: Item, value: Any) -> Decimal:
    """.number() and .decimal(precision, scale)"""
    name: str = item.value
    if not is_number(value) and not is_string(value):
        raise _only_to(name, "string or numeric value")
    text = value if is_string(value) else write_numeric(value)
    number: Decimal = value if is_number(value) else _read(read_numeric, text, _invalid(name, text, "numeric"))
    if not number.is_finite():
        raise _not_a_number(name)
    if not item.args:
        return number
    digits = [
        _integer(arg, f"{what} of jsonpath item method .{name}() is out of range for type integer")
        for arg, what in zip(item.args, ("precision", "scale"), strict=False)
    ]
    typmod = typmod_in(oids.NUMERIC, [str(number) for number in digits])
    fitted: Decimal = _read(lambda given: read_numeric(given, typmod), text, _invalid(name, text, "numeric"))
    return fitted


def _integer(item: Item | None, message: str) -> int:
    assert item is not None
    number: int = _read(numeric_int4, item.value, PathError(_NOT_NUMERIC, message))
    return number


# --- other types ------------------------------------------------------------------------------------------------------


def _boolean(item: Item, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if is_number(value):
        text = write_numeric(value)
        return bool(_read(read_int4, text, _invalid("boolean", text, "boolean")))
    if is_string(value):
        return bool(_read(_read_exact_bool, value, _invalid("boolean", value, "boolean")))
    raise _only_to("boolean", "boolean, string, or numeric value")


def _read_exact_bool(text: str) -> bool:
    """As parse_bool reads it, without spaces around."""
    if text.strip() != text:
        raise PgError("22P02", "invalid boolean")
    return read_bool(text)


def _string(item: Item, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_number(value):
        return write_numeric(value)
    if isinstance(value, Moment):
        return moment_text(value)
    raise _only_to("string", "boolean, string, numeric, or datetime value")


_CONVERSIONS: dict[str, Callable[[Item, Any], Any]] = {
    "abs": _of_number(numeric_abs),
    "floor": _of_number(numeric_floor),
    "ceiling": _of_number(numeric_ceil),
    "double": _double,
    "bigint": _whole(oids.INT8, numeric_int8, read_int8),
    "integer": _whole(oids.INT4, numeric_int4, read_int4),
    "number": _number,
    "decimal": _number,
    "boolean": _boolean,
    "string": _string,
}


# --- search -----------------------------------------------------------------------------------------------------------


_NOTHING: Mapping[str, Variable] = {}


def variables_of(tree: Any) -> dict[str, Variable]:
    """The members of the argument `vars`."""
    if not isinstance(tree, dict):
        detail = 'Jsonpath parameters should be encoded as key-value pairs of "vars" object.'
        raise PgError("22023", '"vars" argument is not an object', detail=detail)
    return {name: Variable(value, tree, 1) for name, value in tree.items()}


def items(
    call: Call,
    tree: Any,
    path: str,
    variables: Mapping[str, Variable] | None = None,
    *,
    silent: bool = False,
    use_tz: bool = False,
) -> list[Any]:
    """All items; with silent those before an error."""
    matches: list[Any] = []
    parsed = parse_path(path)
    try:
        _run(call, tree, path, variables, use_tz).execute(parsed.first, tree, matches)
    except PathError:
        if not silent:
            raise
    except RecursionError:
        raise stack_depth_exceeded() from None
    return matches


def exists(
    call: Call,
    tree: Any,
    path: str,
    variables: Mapping[str, Variable] | None = None,
    *,
    silent: bool = False,
    use_tz: bool = False,
) -> bool | None:
    """Whether there is an item; None after an error that silent suppresses."""
    parsed = parse_path(path)
    run = _run(call, tree, path, variables, use_tz)
    matches: list[Any] | None = None if parsed.lax else []  # in strict mode all items are computed, to find errors
    try:
        result = run.execute(parsed.first, tree, matches)
    except PathError:
        if not silent:
            raise
        return None
    except RecursionError:
        raise stack_depth_exceeded() from None
    return result if matches is None else bool(matches)


def _run(call: Call, tree: Any, path: str, variables: Mapping[str, Variable] | None, use_tz: bool) -> Run:
    known = _NOTHING if variables is None else variables
    numbers = max((variable.number for variable in known.values()), default=0 if variables is None else 1)
    return Run(call, tree, parse_path(path).lax, known, numbers, use_tz)


def json_tree(value: Any) -> Any:
    """An item as plain JSON: dates and times as their text."""
    if isinstance(value, Moment):
        return moment_text(value)
    if isinstance(value, dict):
        if any(isinstance(member, (Moment, dict, list)) for member in value.values()):
            return {key: json_tree(member) for key, member in value.items()}
    elif isinstance(value, list) and any(isinstance(member, (Moment, dict, list)) for member in value):
        return [json_tree(member) for member in value]
    return value
