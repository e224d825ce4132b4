"""The fields of structs in a file's columns as the table has them now.

A file keeps the fields that the column had when it was written. They are found by their ids, in a file without ids by
their names; one that the file lacks is NULL, and one that the table has no more is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.types.lake_arrays import plain_array, storage_type

if TYPE_CHECKING:
    import pyarrow as pa

    from pgrepl.lake.table import LakeColumn, LakeField

_FIELD_ID = b"PARQUET:field_id"


def with_fields(array: Any, column: LakeColumn) -> Any:
    """A column of a file with the fields of the table's column."""
    if _has_fields(array.type, column.fields):
        return array
    return _made(plain_array(array), column.fields, storage_type(column.form.arrow()))


def _has_fields(kind: pa.DataType, fields: Sequence[LakeField]) -> bool:
    """Are the fields of structs inside the type these, in this order?"""
    if not fields:
        return True
    import pyarrow as pa

    inside = [kind.field(n) for n in range(kind.num_fields)]
    if pa.types.is_map(kind):
        inside = [kind.key_field, kind.item_field]
    if len(inside) != len(fields):
        return False
    for own, field in zip(inside, fields, strict=True):
        named = _id(own) == field.column_id if _id(own) is not None else own.name == field.name
        if pa.types.is_struct(kind) and not (named and own.name == field.name):
            return False
        if not _has_fields(own.type, field.fields):
            return False
    return True


def _id(field: pa.Field) -> int | None:
    found = (field.metadata or {}).get(_FIELD_ID)
    return None if found is None else int(found)


def _made(array: Any, fields: Sequence[LakeField], kind: pa.DataType) -> Any:
    """`kind`: the storage type of the table's column."""
    import pyarrow as pa

    if not fields or _has_fields(array.type, fields):
        return array
    if pa.types.is_struct(array.type):
        there: dict[int | str, int] = {}
        for n, own in enumerate(array.type):
            number = _id(own)
            there[own.name if number is None else number] = n
        made, named = [], []
        for field, wanted in zip(fields, kind, strict=True):
            n = there.get(field.column_id, there.get(field.name, -1))
            inside = pa.nulls(len(array), wanted.type) if n < 0 else plain_array(array.field(n))
            made.append(_made(inside, field.fields, wanted.type))
            named.append(pa.field(wanted.name, made[-1].type))
        return pa.StructArray.from_arrays(made, fields=named, mask=array.is_null())
    if array.offset:
        array = array.take(pa.array(range(len(array))))
    if pa.types.is_map(array.type):
        keys = _made(plain_array(array.keys), fields[0].fields, kind.key_type)
        items = _made(plain_array(array.items), fields[1].fields, kind.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=array.is_null())
    items = _made(plain_array(array.values), fields[0].fields, kind.value_type)
    return pa.ListArray.from_arrays(
        array.offsets, items, type=pa.list_(pa.field(kind.value_field.name, items.type)), mask=array.is_null()
    )
