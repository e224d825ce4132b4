"""What executors run: the fall-back over the columns of an Arrow batch, and PostgreSQL's aggregates over a group's
rows.

A program is JSON and is compiled once in each Python worker. A row that fails has its error beside it as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cmp_to_key, lru_cache
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.arrow.program import Test, WorkerContext, by_columns, once
from pgrepl.expr.evaluate.evaluate import compile, of_gathered
from pgrepl.expr.exchange.sql import order_bytes
from pgrepl.expr.functions.numeric import numeric_div, unchecked_sum
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.functions.statistics import numeric_stddev
from pgrepl.expr.stored import from_json
from pgrepl.ground.errors import PgError, marked
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.lake.arrays import Form, plain_array, storage_type
from pgrepl.types.lake.column_values import by_spelling
from pgrepl.types.lake.forms import form
from pgrepl.types.numeric import checked, rescale
from pgrepl.types.style import TextStyle
from pgrepl.types.user_types import UserTypes
from pgrepl.types.values import comparer

Row = tuple[Any, ...]


def rows_of(array: Any, forms: Sequence[Form]) -> list[list[Row]]:
    """A column of arrays of structs → the rows of each group."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    structs = array.flatten()
    fields = [] if pa.types.is_null(structs.type) else structs.flatten()  # Spark 4.0 gives no type for zero rows
    columns = [form.from_array(column) for form, column in zip(forms, fields, strict=False)]
    rows = list(zip(*columns, strict=True)) if columns else [()] * len(structs)
    groups = []
    at = 0
    for length in array.value_lengths().to_pylist():
        groups.append(rows[at : at + (length or 0)])
        at += length or 0
    return groups


def accumulate(node: tree.Aggref, context: Context) -> Callable[[Row], Any]:
    """The function that computes an aggregate from (rows, direct arguments …)."""
    width = len(node.args)
    before = _order(node, width)

    def run(group: Row) -> Any:
        members = list(group[0])
        if before is not None:
            members.sort(key=before)
        return of_gathered(node, group[1:], [member[:width] for member in members], context)

    return run


def _order(node: tree.Aggref, width: int) -> Callable[[Row], Any] | None:
    if not node.order:
        return None
    keys = []
    for number, key in enumerate(node.order):
        keys.append((width + number, comparer(key.expr.type), key.descending, key.nulls_first))

    def compare(a: Row, b: Row) -> int:
        for place, test, down, nulls_first in keys:
            x, y = a[place], b[place]
            if x is None or y is None:
                order = int(x is None) - int(y is None)
                order = -order if nulls_first else order
            else:
                order = -test(x, y) if down else test(x, y)
            if order:
                return order
        return 0

    return cmp_to_key(compare)


# ------------------------------------------------------------------------------------------------ the last step of sums


def _sum(total: Decimal | None, scale: int | None, others: PgArray | None) -> Decimal | None:
    """The sum of numeric values: the part that Spark added, with its largest scale, plus the values that Spark could
    not add."""
    numeric = None if total is None or scale is None else rescale(total, scale)
    for value in others.items if others is not None else ():
        numeric = value if numeric is None else unchecked_sum(numeric, value)
    return None if numeric is None else checked(numeric)


def _average(total: Decimal | None, scale: int | None, others: PgArray | None, count: int) -> Decimal | None:
    total_sum = _sum(total, scale, others)
    return None if total_sum is None else numeric_div(total_sum, Decimal(count))


def _spread(*, sample: bool, variance: bool) -> Callable[[int, Decimal, Decimal], Decimal | None]:
    def finish(count: int, total: Decimal | None, squares: Decimal | None) -> Decimal | None:
        if total is None or squares is None or count < (2 if sample else 1):
            return None
        return numeric_stddev(count, total, squares, sample=sample, variance=variance)

    return finish


FINISHES: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "avg": _average,
    "stddev_samp": _spread(sample=True, variance=False),
    "stddev_pop": _spread(sample=False, variance=False),
    "var_samp": _spread(sample=True, variance=True),
    "var_pop": _spread(sample=False, variance=True),
}


# --- worker -----------------------------------------------------------------------------------------------------------


def function_of(program: str) -> Callable[..., Any]:
    """The function that Spark calls with Arrow arrays; only the program's text is sent to executors."""

    def function(*arrays: Any) -> Any:
        return run_program(program, arrays)

    return function


def argument_types(program: str) -> Callable[[], Sequence[pa.DataType | None]]:
    """The Arrow types of the function's arguments; None for an array of gathered rows."""

    def types() -> Sequence[pa.DataType | None]:
        ready = loaded(program)
        gathered = [] if ready.members is None else [None]
        return [*gathered, *(storage_type(of.arrow()) for of in ready.forms)]

    return types


def run_program(program: str, arrays: Sequence[Any]) -> pa.Array:
    """The values and errors: by whole columns if Arrow can compute them and no row has an error, else row by row; in a
    cast from text only those of unusual spelling."""
    ready = loaded(program)
    column = _by_columns(ready, arrays)
    if column is None and ready.spelled:
        column = by_spelling(
            plain_array(arrays[0]),
            ready.spelled,
            lambda some: _by_columns(ready, [some]),
            lambda some: _by_rows(ready, [some]),
        )
    return _by_rows(ready, arrays) if column is None else column


def _by_columns(ready: Loaded, arrays: Sequence[Any]) -> pa.Array | None:
    if ready.by_columns is None:
        return None
    count = len(arrays[0])
    try:
        return _paired(ready.by_columns(dict(enumerate(arrays, 1)), count), pa.nulls(count, pa.string()))
    except pa.ArrowException:
        return None


def _by_rows(ready: Loaded, arrays: Sequence[Any]) -> pa.Array:
    columns = []
    if ready.members is not None:
        columns.append(rows_of(arrays[0], ready.members))
        arrays = arrays[1:]
    elif len(ready.forms) == 1 and ready.is_stable:
        array, places = once(arrays[0])
        column = answers(ready.run, zip(ready.forms[0].from_array(array), strict=True), ready.result)
        return column if places is None else column.take(places)
    columns += [of.from_array(array) for of, array in zip(ready.forms, arrays, strict=False)]
    rows = zip(*columns, strict=True) if columns else [()] * len(arrays[0])
    return answers(ready.run, rows, ready.result)


def answers(run: Callable[[Any], Any], rows: Any, result: Form) -> pa.Array:
    """The results as a struct of values and errors."""
    values: list[Any] = []
    errors: list[str | None] = []
    convert = result.to_arrow
    for row in rows:
        try:
            value = run(row)
            values.append(None if value is None else convert(value))
            errors.append(None)
        except PgError as error:
            values.append(None)
            errors.append(marked(error))
    return _paired(pa.array(values, storage_type(result.arrow())), pa.array(errors, pa.string()))


def _paired(values: pa.Array, errors: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([plain_array(values), errors], names=["v", "e"])


def form_of(typoid: int, typmod: int) -> Form:
    return form(oids.TEXT) if typoid in (oids.UNKNOWN, oids.CSTRING, oids.VOID) else form(typoid, typmod)


@frozen
class Loaded:
    """A compiled program: the function of a row, and the forms of its arguments, its result and the members of gathered
    rows. `by_columns`: the same of whole columns; `spelled`: the type that a column of texts is cast to."""

    run: Callable[[Any], Any]
    forms: Sequence[Form]
    result: Form
    members: Sequence[Form] | None = None
    is_stable: bool = False
    by_columns: Test | None = None
    spelled: int = 0


@lru_cache(maxsize=256)
def loaded(program: str) -> Loaded:
    parts = json.loads(program)
    types = UserTypes.from_json(parts.get("types", []))
    keys = {parent: tuple((opclass, type_) for opclass, type_ in key) for parent, key in parts.get("hash_keys", ())}
    context = WorkerContext(TextStyle(**parts["style"]), keys)
    forms = [form_of(types.type_of(typoid), typmod) for typoid, typmod in parts["arguments"]]
    typoid, typmod = parts["result"]
    result = form_of(types.type_of(typoid), typmod)
    if "finish" in parts:
        finish = FINISHES[parts["finish"]]
        return Loaded(lambda row: finish(*row), forms, result)
    if "aggregate" in parts:
        members = [form_of(types.type_of(typoid), typmod) for typoid, typmod in parts["members"]]
        return Loaded(accumulate(from_json(parts["aggregate"], types), context), forms, result, members)
    expr = from_json(parts["expr"], types)
    run, is_stable = compile(expr, context), not parts.get("volatile")
    if parts.get("key"):
        return Loaded(_keyed(run, types.type_of(typoid)), forms, form(oids.BYTEA), is_stable=is_stable)
    columns = by_columns(expr, result, dict(enumerate(forms, 1)), context) if is_stable and forms else None
    is_cast = isinstance(expr, tree.CoerceViaIO) and isinstance(expr.arg, tree.Var) and expr.arg.type in _TEXTS
    return Loaded(run, forms, result, None, is_stable, columns, expr.type if is_cast else 0)


_TEXTS = (oids.TEXT, oids.VARCHAR, oids.UNKNOWN)


def _keyed(run: Callable[[Any], Any], typoid: int) -> Callable[[Any], Any]:
    def key(row: Any) -> bytes | None:
        value = run(row)
        return None if value is None else order_bytes(value, typoid)

    return key
