"""Aggregates as accumulators: `add(*values)` for every row, `result()` at the end.

    state = new_accumulator(aggref, context)
    state.add(5); state.add(None); state.result()

They follow PostgreSQL's transition and final functions: what NULLs do, the type and scale of a result, what an empty
set gives.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Protocol

from pgrepl.expr import tree
from pgrepl.expr.functions.arithmetic import fit_integer, float_overflow
from pgrepl.expr.functions.arrays import array_of_arrays, check_accumulated
from pgrepl.expr.functions.containers import in_common, joined
from pgrepl.expr.functions.documents.json_making import is_structured, object_key, to_json_text, to_jsonb_tree
from pgrepl.expr.functions.numeric import numeric_div, unchecked_sum
from pgrepl.expr.functions.registry import Call, Context
from pgrepl.expr.functions.statistics import MAKERS
from pgrepl.expr.functions.times.intervals import interval_div, interval_pl
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, array_of
from pgrepl.types.builtin import Proc, element_type, proc_by_oid
from pgrepl.types.input_checks import MAX_BYTES, check_enlarge, size_of
from pgrepl.types.json import escape_json, sorted_object, to_jsonb
from pgrepl.types.names import format_type
from pgrepl.types.numbers import to_float4
from pgrepl.types.numeric import checked
from pgrepl.types.user_types import array_over
from pgrepl.types.values import comparer, hashable


class Accumulator(Protocol):
    def add(self, *values: Any) -> None: ...

    def result(self) -> Any: ...


Maker = Callable[[Call], Accumulator]
_MAKERS: dict[str, Maker] = {}


def aggregate(*names: str) -> Callable[[Any], Any]:
    def register(maker: Any) -> Any:
        for name in names:
            _MAKERS[name] = maker
        return maker

    return register


def new_accumulator(node: tree.Aggref | tree.WindowFunc, context: Context) -> Accumulator:
    proc = proc_by_oid(node.func)
    assert proc is not None
    types = tuple(arg.type for arg in node.args)
    variadic = isinstance(node, tree.Aggref) and node.variadic
    return make_accumulator(proc, Call(context, types, node.type, node.input_collation, variadic))


def make_accumulator(proc: Proc, call: Call) -> Accumulator:
    maker = _MAKERS.get(proc.name)
    if maker is None:
        raise unsupported(f"aggregate function {proc.name}({', '.join(map(format_type, proc.argtypes))})")
    return maker(call)


@aggregate("count")
class Count:
    def __init__(self, call: Call) -> None:
        self.count = 0

    def add(self, *values: Any) -> None:
        if None not in values:
            self.count += 1

    def result(self) -> int:
        return self.count


class _Fold:
    """Values combined by a function; NULLs are ignored, and the result is NULL without values."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function
        self.value: Any = None

    def add(self, *values: Any) -> None:
        (value,) = values
        if value is not None:
            self.value = value if self.value is None else self.function(self.value, value)

    def add_part(self, total: Any, count: int) -> None:
        """Add the total of `count` values."""
        self.add(total)

    def result(self) -> Any:
        return self.value


def _extreme(sign: int) -> Maker:
    """Of equal values that look different the last one remains, but of character(n) the first."""

    def make(call: Call) -> Accumulator:
        typoid = call.argtypes[0]
        compare, last = comparer(typoid), 0 if typoid != oids.BPCHAR else -1
        return _Fold(lambda best, value: best if compare(best, value) * sign > last else value)

    return make


_MAKERS["min"] = _extreme(-1)
_MAKERS["max"] = _extreme(1)


class _Ranges:
    def __init__(self, call: Call, *, common: bool) -> None:
        self.common = common
        self.value: Any = None

    def add(self, *values: Any) -> None:
        (value,) = values
        if value is None:
            return
        if self.common:
            self.value = value if self.value is None else in_common(self.value, value)
        else:
            self.value = joined(self.value, value)

    def result(self) -> Any:
        return self.value


_MAKERS["range_agg"] = lambda call: _Ranges(call, common=False)
_MAKERS["range_intersect_agg"] = lambda call: _Ranges(call, common=True)


aggregate("any_value")(lambda call: _Fold(lambda first, value: first))
aggregate("bool_and", "every")(lambda call: _Fold(operator.and_))
aggregate("bool_or")(lambda call: _Fold(operator.or_))


def _bitwise(integers: Callable[[int, int], int], word: str) -> Maker:
    def on_bits(a: str, b: str) -> str:
        if len(a) != len(b):
            raise PgError("22026", f"cannot {word} bit strings of different sizes")
        return f"{integers(int(a or '0', 2), int(b or '0', 2)):0{len(a)}b}" if a else ""

    return lambda call: _Fold(on_bits if call.argtypes[0] in (oids.BIT, oids.VARBIT) else integers)


_MAKERS["bit_and"] = _bitwise(operator.and_, "AND")
_MAKERS["bit_or"] = _bitwise(operator.or_, "OR")
_MAKERS["bit_xor"] = _bitwise(operator.xor, "XOR")


# --------------------------------------------------------------------------------------------------- sums and averages


def _real_sum(a: float, b: float) -> float:
    return _checked(to_float4(a + b), a, b)


def _double_sum(a: float, b: float) -> float:
    return _checked(a + b, a, b)


def _checked(value: float, a: float, b: float) -> float:
    if math.isinf(value) and not math.isinf(a) and not math.isinf(b):
        raise float_overflow()
    return value


@aggregate("sum")
def sum_(call: Call) -> Accumulator:
    argtype = call.argtypes[0]
    if argtype in (oids.INT2, oids.INT4):
        return _Fold(lambda a, b: fit_integer(a + b, 64))
    if argtype == oids.INT8:
        return _NumericSum(operator.add)
    if argtype == oids.NUMERIC:
        return _NumericSum(unchecked_sum)
    functions: dict[int, Callable[[Any, Any], Any]] = {
        oids.FLOAT4: _real_sum,
        oids.FLOAT8: _double_sum,
        oids.INTERVAL: interval_pl,
    }
    if argtype not in functions:
        raise unsupported(f"aggregate function sum({format_type(argtype)})")
    return _Fold(functions[argtype])


class _NumericSum(_Fold):
    """A sum of bigint or numeric values, which is a numeric."""

    def result(self) -> Decimal | None:
        return None if self.value is None else checked(Decimal(self.value))


class _Average:
    def __init__(self, divide: Callable[[Any, int], Any], add: Callable[[Any, Any], Any]) -> None:
        self.divide = divide
        self.function = add
        self.count = 0
        self.total: Any = None

    def add(self, *values: Any) -> None:
        (value,) = values
        if value is not None:
            self.count += 1
            self.total = value if self.total is None else self.function(self.total, value)

    def add_part(self, total: Any, count: int) -> None:
        """Add the total of `count` values."""
        self.count += count
        self.total = total if self.total is None else self.function(self.total, total)

    def result(self) -> Any:
        return self.divide(self.total, self.count) if self.count else None


@aggregate("avg")
def avg(call: Call) -> Accumulator:
    argtype = call.argtypes[0]
    if argtype in oids.INTEGERS:
        return _Average(lambda total, count: numeric_div(Decimal(total), Decimal(count)), operator.add)
    if argtype == oids.NUMERIC:
        return _Average(lambda total, count: numeric_div(checked(total), Decimal(count)), unchecked_sum)
    if argtype in (oids.FLOAT4, oids.FLOAT8):
        return _Average(operator.truediv, _double_sum)
    if argtype == oids.INTERVAL:
        return _Average(lambda total, count: interval_div(total, float(count)), interval_pl)
    raise unsupported(f"aggregate function avg({format_type(argtype)})")


_MAKERS.update(MAKERS)
_MAKERS["regr_count"] = Count


# -------------------------------------------------------------------------------------------------- strings and arrays


@aggregate("string_agg")
class StringAgg:
    """string_agg. Each row's delimiter goes before its value; the first row's is unused."""

    def __init__(self, call: Call) -> None:
        self.parts: list[Any] = []
        self.seen = False
        self.size = 0

    def add(self, *values: Any) -> None:
        value, delimiter = values
        if value is None:
            return
        if self.seen and delimiter is not None:
            self._append(delimiter)
        self._append(value)
        self.seen = True

    def _append(self, part: Any) -> None:
        more = size_of(part)
        if self.size + more >= MAX_BYTES:
            check_enlarge(self.size, more)
        self.size += more
        self.parts.append(part)

    def result(self) -> Any:
        if not self.seen:
            return None
        empty = b"" if isinstance(self.parts[0], bytes) else ""
        return empty.join(self.parts)


@aggregate("array_agg")
class ArrayAgg:
    """array_agg. Over arrays the result has one more dimension, and all arrays must have the same shape."""

    def __init__(self, call: Call) -> None:
        argtype = call.argtypes[0]
        self.of_arrays = bool(element_type(argtype)) and element_type(call.type) != argtype
        self.elemtype = element_type(argtype) if self.of_arrays else argtype
        if not self.elemtype or (not self.of_arrays and not array_over(argtype) and argtype != oids.RECORD):
            raise PgError("42704", f"could not find array type for data type {format_type(argtype)}")
        self.values: list[Any] = []

    def add(self, *values: Any) -> None:
        (value,) = values
        if self.of_arrays:
            check_accumulated(self.values, value)
        self.values.append(value)

    def result(self) -> PgArray | None:
        if not self.values:
            return None
        make = array_of_arrays if self.of_arrays else array_of
        return make(self.elemtype, self.values)


# ---------------------------------------------------------------------------------------------------------------- json


class _JsonArray:
    def __init__(self, call: Call, *, binary: bool, strict: bool) -> None:
        self.call = call
        self.binary = binary
        self.strict = strict
        self.separator = ", \n " if is_structured(call.argtypes[0]) else ", "
        self.items: list[Any] | None = None

    def add(self, *values: Any) -> None:
        (value,) = values
        if self.items is None:
            self.items = []
        if value is None and self.strict:
            return
        convert = to_jsonb_tree if self.binary else to_json_text
        self.items.append(convert(self.call, value, self.call.argtypes[0]))

    def result(self) -> Any:
        if self.items is None:
            return None
        return to_jsonb(self.items) if self.binary else "[" + self.separator.join(self.items) + "]"


_MAKERS["json_agg"] = lambda call: _JsonArray(call, binary=False, strict=False)
_MAKERS["jsonb_agg"] = lambda call: _JsonArray(call, binary=True, strict=False)
_MAKERS["json_agg_strict"] = lambda call: _JsonArray(call, binary=False, strict=True)
_MAKERS["jsonb_agg_strict"] = lambda call: _JsonArray(call, binary=True, strict=True)


class _JsonObject:
    def __init__(self, call: Call, *, binary: bool, strict: bool, unique: bool) -> None:
        self.call = call
        self.binary = binary
        self.strict = strict
        self.unique = unique
        self.pairs: list[tuple[str, Any]] | None = None
        self.keys: set[Any] = set()

    def add(self, *values: Any) -> None:
        key, value = values
        if self.pairs is None:
            self.pairs = []
        if key is None:
            if self.binary:
                raise PgError("22023", "field name must not be null")
            raise PgError("22004", "null value not allowed for object key")
        skipped = value is None and self.strict
        if skipped and not self.unique:
            return
        name = object_key(self.call, key, self.call.argtypes[0])
        if self.unique and hashable(name) in self.keys:
            raise PgError(
                "22030", "duplicate JSON object key value" + ("" if self.binary else f": {escape_json(name)}")
            )
        self.keys.add(hashable(name))
        if skipped:
            return
        convert = to_jsonb_tree if self.binary else to_json_text
        member = convert(self.call, value, self.call.argtypes[1])
        if member is not None or not self.strict:  # jsonb leaves out nulls of JSON, too
            self.pairs.append((name, member))

    def result(self) -> Any:
        if self.pairs is None:
            return None
        if self.binary:
            return to_jsonb(sorted_object(dict(self.pairs)))
        if not self.pairs:
            return "{}"
        return "{ " + ", ".join(f"{escape_json(key)} : {value}" for key, value in self.pairs) + " }"


def _object(binary: bool, strict: bool, unique: bool) -> Maker:
    return lambda call: _JsonObject(call, binary=binary, strict=strict, unique=unique)


for _binary, _prefix in ((False, "json"), (True, "jsonb")):
    _MAKERS[f"{_prefix}_object_agg"] = _object(_binary, False, False)
    _MAKERS[f"{_prefix}_object_agg_strict"] = _object(_binary, True, False)
    _MAKERS[f"{_prefix}_object_agg_unique"] = _object(_binary, False, True)
    _MAKERS[f"{_prefix}_object_agg_unique_strict"] = _object(_binary, True, True)
