"""Lists and structs of files as texts that the input functions of arrays and composite types read.

A struct's fields are found by the names of the type's attributes. An attribute without a field is NULL; a field without
an attribute is refused, as nothing of a file is left out silently.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.types import oids
from pgrepl.types.arrays import array_of, write_array
from pgrepl.types.builtin import base_type, element_type
from pgrepl.types.lake_arrays import plain_array
from pgrepl.types.lake_structs import NO_COLUMNS
from pgrepl.types.names import format_type
from pgrepl.types.record import RowType, quote_field

if TYPE_CHECKING:
    import pyarrow as pa

Texts = list["str | None"]
RowTypes = Callable[[int], "RowType | None"]  # the columns of a named row type
Scalars = Callable[["pa.Array", int], Texts]  # the texts of other values, for columns of a type


def nested_texts(array: pa.Array, typoid: int, row_types: RowTypes, scalars: Scalars) -> Texts:
    """The texts of a file's column for a column of the type, whose lists are arrays and whose structs are rows."""
    import pyarrow as pa

    typoid = base_type(typoid)
    element = element_type(typoid)
    if element and _is_list(array.type):
        return _lists(array, element, row_types, scalars)
    row = row_types(typoid) if pa.types.is_struct(array.type) else None
    return scalars(array, typoid) if row is None else _structs(array, typoid, row, row_types, scalars)


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


def _lists(array: Any, element: int, row_types: RowTypes, scalars: Scalars) -> Texts:
    import pyarrow as pa

    if not len(array):
        return []
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    edges = array.offsets.to_pylist()  # flatten() does not build lists of structs with uuids
    first = edges[0]
    items = nested_texts(array.values.slice(first, edges[-1] - first), element, row_types, scalars)
    spans = zip(edges, edges[1:], array.is_valid().to_pylist(), strict=False)
    return [
        write_array(array_of(oids.TEXT, items[start - first : stop - first]), str) if is_list else None
        for start, stop, is_list in spans
    ]


def _structs(array: Any, typoid: int, row: RowType, row_types: RowTypes, scalars: Scalars) -> Texts:
    array = plain_array(array)
    fields = {array.type.field(n).name: each for n, each in enumerate(array.flatten())}  # NULL where the struct is
    unknown = next((name for name in fields if name not in (row.names or (NO_COLUMNS,))), None)
    if unknown is not None:
        raise PgError("22P04", f'field "{unknown}" does not exist in type {format_type(typoid)}')
    columns: list[Any] = [repeat(None)] * len(row.fields)
    for n, attribute in enumerate(row.fields):
        if attribute.name in fields:
            columns[n] = nested_texts(fields[attribute.name], attribute.type, row_types, scalars)
    return [
        "(" + ",".join(["" if word is None else quote_field(word) for word in words]) + ")" if is_row else None
        for is_row, *words in zip(array.is_valid().to_pylist(), *columns, strict=False)
    ]
