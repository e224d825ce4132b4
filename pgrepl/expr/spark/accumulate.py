"""The executor side of aggregates: an array of a group's rows in, one value out; or the last step after Spark's
sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from pgrepl.expr import tree
from pgrepl.expr.context import Context
from pgrepl.expr.evaluate import accumulator, ordered_set
from pgrepl.expr.functions.numeric import numeric_div, unchecked_sum
from pgrepl.expr.functions.statistics import numeric_stddev
from pgrepl.types.arrays import PgArray
from pgrepl.types.numeric import checked, rescale
from pgrepl.types.values import comparer, first_of_each, order_key, row_hash_form

if TYPE_CHECKING:
    from pgrepl.types.lake_arrays import Form

Row = tuple[Any, ...]


def rows_of(array: Any, forms: Sequence[Form]) -> list[list[Row]]:
    """A column of arrays of structs → the rows of each group."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    structs = array.flatten()
    fields = [] if pa.types.is_null(structs.type) else structs.flatten()  # Spark 4.0 gives no type for zero rows
    columns = [form.from_array(column) for form, column in zip(forms, fields, strict=False)]
    rows = list(zip(*columns, strict=True)) if columns else [()] * len(structs)
    found = []
    at = 0
    for length in array.value_lengths().to_pylist():
        found.append(rows[at : at + (length or 0)])
        at += length or 0
    return found


def accumulate(node: tree.Aggref, context: Context) -> Callable[[Row], Any]:
    """The function that computes an aggregate from (rows, direct arguments …)."""
    width = len(node.args)
    before = _order(node, width)

    def run(group: Row) -> Any:
        members = list(group[0])
        if before is not None:
            members.sort(key=before)
        values = [member[:width] for member in members]
        if node.distinct:
            values = _distinct(values, node, ordered=before is not None)
        if node.kind != "n":
            return ordered_set(node, group[1:], values)
        state = accumulator(node, context)
        for each in values:
            state.add(*each)
        return state.result()

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
                found = int(x is None) - int(y is None)
                found = -found if nulls_first else found
            else:
                found = -test(x, y) if down else test(x, y)
            if found:
                return found
        return 0

    return cmp_to_key(compare)


def _distinct(values: list[Row], node: tree.Aggref, *, ordered: bool) -> list[Row]:
    """The first of equal values; sorted by value when no ORDER BY was given."""
    found = first_of_each(values, row_hash_form(argument.type for argument in node.args))
    if ordered:
        return found
    for place in reversed(range(len(node.args))):
        order = order_key(node.args[place].type)

        def key(each: Row, place: int = place, order: Any = order) -> Any:
            item = each[place]
            return (True, 0) if item is None else (False, item if order is None else order(item))

        found.sort(key=key)
    return found


# ------------------------------------------------------------------------------------------------ the last step of sums


def _sum(total: Decimal | None, scale: int | None, others: PgArray | None) -> Decimal | None:
    """The sum of numeric values: the part that Spark added, with its largest scale, plus the values that Spark could
    not add."""
    found = None if total is None or scale is None else rescale(total, scale)
    for each in others.items if others is not None else ():
        found = each if found is None else unchecked_sum(found, each)
    return None if found is None else checked(found)


def _average(total: Decimal | None, scale: int | None, others: PgArray | None, count: int) -> Decimal | None:
    found = _sum(total, scale, others)
    return None if found is None else numeric_div(found, Decimal(count))


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
