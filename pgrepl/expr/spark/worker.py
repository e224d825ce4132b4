"""The executor side of the fall-back: a stored expression evaluated over the columns of an Arrow batch.

A program is JSON: the expression over `Var`s 1 … n, the type and modifier of each argument and of the result, and the
session's text style. It is compiled once in each Python worker. A row that fails has its error beside it as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError, marked
from pgrepl.expr.without_session import WorkerContext
from pgrepl.types import oids
from pgrepl.types.lake_arrays import Form, storage_type
from pgrepl.types.lake_forms import form
from pgrepl.types.style import TextStyle
from pgrepl.types.user_types import UserTypes

if TYPE_CHECKING:
    import pyarrow as pa


def function_of(program: str) -> Callable[..., Any]:
    """The function that Spark calls with Arrow arrays; only the program's text is sent to executors."""

    def function(*arrays: Any) -> Any:
        return run_program(program, arrays)

    return function


def argument_types(program: str) -> Callable[[], Sequence[pa.DataType | None]]:
    """The Arrow types of the function's arguments; None for an array of gathered rows."""

    def types() -> Sequence[pa.DataType | None]:
        _, forms, _, members = _loaded(program)
        return [*([None] if members is not None else []), *(storage_type(each.arrow()) for each in forms)]

    return types


def run_program(program: str, arrays: Sequence[Any]) -> pa.Array:
    run, forms, result, members = _loaded(program)
    if '"sparse": true' in program:
        return _few(run, forms[0], arrays[0], result)
    columns = []
    if members is not None:
        from pgrepl.expr.spark.accumulate import rows_of

        columns.append(rows_of(arrays[0], members))
        arrays = arrays[1:]
    columns += [of.from_array(array) for of, array in zip(forms, arrays, strict=False)]
    rows = zip(*columns, strict=True) if columns else [()] * len(arrays[0])
    return answers(run, rows, result)


def answers(run: Callable[[Any], Any], rows: Any, result: Form) -> pa.Array:
    """The results as a struct of values and errors."""
    import pyarrow as pa

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
    return pa.StructArray.from_arrays(
        [pa.array(values, storage_type(result.arrow())), pa.array(errors, pa.string())], names=["v", "e"]
    )


def _few(run: Callable[[Any], Any], of: Form, array: Any, result: Form) -> pa.Array:
    """The results where an argument is NULL for nearly all rows, and the result is NULL there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    asked = pc.is_valid(array)
    found = answers(run, zip(of.from_array(array.filter(asked)), strict=True), result)
    places = pc.if_else(asked, pc.subtract(pc.cumulative_sum(asked.cast(pa.int64())), 1), None)
    return found.take(places)


def form_of(typoid: int, typmod: int) -> Form:
    return form(oids.TEXT) if typoid in (oids.UNKNOWN, oids.CSTRING, oids.VOID) else form(typoid, typmod)


Loaded = tuple[Callable[[Any], Any], Sequence[Form], Form, "Sequence[Form] | None"]


@lru_cache(maxsize=256)
def _loaded(program: str) -> Loaded:
    """The function to run over a row, and the forms of its arguments, its result and the members of gathered rows."""
    from pgrepl.expr.evaluate import compile
    from pgrepl.expr.stored import from_json

    parts = json.loads(program)
    types = UserTypes.from_json(parts.get("types", []))
    keys = {parent: tuple((opclass, type_) for opclass, type_ in key) for parent, key in parts.get("hash_keys", ())}
    context = WorkerContext(TextStyle(**parts["style"]), keys)
    forms = [form_of(types.type_of(typoid), typmod) for typoid, typmod in parts["arguments"]]
    typoid, typmod = parts["result"]
    result = form_of(types.type_of(typoid), typmod)
    if "finish" in parts:
        from pgrepl.expr.spark.accumulate import FINISHES

        finish = FINISHES[parts["finish"]]
        return lambda row: finish(*row), forms, result, None
    if "aggregate" in parts:
        from pgrepl.expr.spark.accumulate import accumulate

        members = [form_of(types.type_of(typoid), typmod) for typoid, typmod in parts["members"]]
        return accumulate(from_json(parts["aggregate"], types), context), forms, result, members
    run = compile(from_json(parts["expr"], types), context)
    if parts.get("key"):
        return _keyed(run, types.type_of(parts["result"][0])), forms, form(oids.BYTEA), None
    return run, forms, result, None


def _keyed(run: Callable[[Any], Any], typoid: int) -> Callable[[Any], Any]:
    from pgrepl.expr.spark.order_bytes import order_bytes

    def key(row: Any) -> bytes | None:
        value = run(row)
        return None if value is None else order_bytes(value, typoid)

    return key
