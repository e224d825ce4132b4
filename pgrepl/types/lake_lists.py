"""The lake form of arrays: lists of the element's form.

A list has one dimension and lower bound 1. A column with other arrays is kept as text (rows/array_columns.py).
"""

from __future__ import annotations

from typing import Any

from pgrepl.errors import PgError
from pgrepl.types import lake_text
from pgrepl.types.arrays import PgArray, array_of
from pgrepl.types.lake_arrays import Form, plain_array

_NO_LIST = "an array of several dimensions, or that does not begin at 1, is no list"


def list_form(typoid: int, typmod: int, element: Form) -> Form:
    elemtype = element.typoid

    def arrow() -> Any:
        import pyarrow as pa

        return pa.list_(pa.field("element", element.arrow()))

    def to_arrow(value: PgArray) -> list[Any]:
        return [None if v is None else element.to_arrow(v) for v in list_items(value)]

    def from_arrow(items: list[Any]) -> PgArray:
        return array_of(elemtype, [None if v is None else element.from_arrow(v) for v in items])

    def from_array(array: Any) -> list[Any]:
        array = plain_array(array)
        items = element.from_array(array.flatten())
        found: list[Any] = []
        at = 0
        for length in array.value_lengths().to_pylist():
            if length is None:
                found.append(None)
            else:
                found.append(array_of(elemtype, items[at : at + length]))
                at += length
        return found

    def to_inlined(value: PgArray) -> str:
        return lake_text.list_text([None if v is None else element_text(element, v) for v in list_items(value)])

    def from_inlined(text: str) -> PgArray:
        items = lake_text.read_nested(text)
        return array_of(elemtype, [None if v is None else element_value(element, v) for v in items])

    return Form(
        typoid=typoid, typmod=typmod, lake="list", spark=f"ARRAY<{element.spark}>", arrow=arrow, to_arrow=to_arrow,
        from_arrow=from_arrow, from_array=from_array, to_stat=lambda v: None, from_stat=lambda v: None,
        from_raw=lambda v, scale: None, to_inlined=to_inlined, from_inlined=from_inlined,
        ordered="none", element=element,
    )  # fmt: skip


def is_list(value: PgArray) -> bool:
    return value.lbounds in ((), (1,))


def list_items(value: PgArray) -> tuple[Any, ...]:
    if not is_list(value):
        raise PgError("2202E", _NO_LIST)
    return value.items


def is_no_list(error: PgError) -> bool:
    """Whether an error is about an array that is no list, maybe by way of Spark."""
    return error.sqlstate == "2202E" and error.message == _NO_LIST


def element_text(element: Form, value: Any) -> str:
    """An element as DuckDB prints it."""
    inlined = element.to_inlined(value)
    if isinstance(inlined, bytes):
        return lake_text.blob_text(inlined)
    return ("true" if inlined else "false") if element.lake == "boolean" else str(inlined)


def element_value(element: Form, text: str) -> Any:
    return element.from_inlined(lake_text.read_blob(text) if element.lake == "blob" else text)
