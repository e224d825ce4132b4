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
        if not len(array):
            return []
        edges = array.offsets.to_pylist()  # flatten() does not build lists of structs with uuids
        first = edges[0]
        items = element.from_array(array.values.slice(first, edges[-1] - first))
        return [
            array_of(elemtype, items[start - first : stop - first]) if is_list else None
            for start, stop, is_list in zip(edges, edges[1:], array.is_valid().to_pylist(), strict=False)
        ]

    def to_inlined(value: PgArray) -> str:
        return lake_text.list_text([item_text(element, v) for v in list_items(value)])

    def from_nested(items: list[Any]) -> PgArray:
        return array_of(elemtype, [item_value(element, v) for v in items])

    return Form(
        typoid=typoid, typmod=typmod, lake="list", spark=f"ARRAY<{element.spark}>", arrow=arrow, to_arrow=to_arrow,
        from_arrow=from_arrow, from_array=from_array, to_stat=lambda v: None, from_stat=lambda v: None,
        from_raw=lambda v, scale: None, to_inlined=to_inlined, from_nested=from_nested,
        from_inlined=lambda text: from_nested(lake_text.read_nested(text)), ordered="none", element=element,
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


def item_text(item: Form, value: Any) -> str:
    """A value inside a list or struct, as DuckDB prints it there."""
    if value is None:
        return "NULL"
    return str(item.to_inlined(value)) if item.from_nested is not None else lake_text.quoted(element_text(item, value))


def item_value(item: Form, found: Any) -> Any:
    """A value inside a list or struct, from what lake_text.read_nested finds there."""
    if found is None:
        return None
    return element_value(item, found) if item.from_nested is None else item.from_nested(found)


def element_text(element: Form, value: Any) -> str:
    """An element as DuckDB prints it."""
    inlined = element.to_inlined(value)
    if isinstance(inlined, bytes):
        return lake_text.blob_text(inlined)
    return ("true" if inlined else "false") if element.lake == "boolean" else str(inlined)


def element_value(element: Form, text: str) -> Any:
    return element.from_inlined(lake_text.read_blob(text) if element.lake == "blob" else text)
