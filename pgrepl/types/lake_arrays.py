"""Arrow arrays: as files and Spark give them, and as values make them."""

from __future__ import annotations

from typing import Any


def plain_array(array: Any) -> Any:
    """An array in one piece, without an extension type around it."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # too large for one
            array = pa.concat_arrays(array.chunks)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def arrow_type(name: str) -> Any:
    import pyarrow as pa

    return getattr(pa, name)()


def same(value: Any) -> Any:
    """How a value is kept that Arrow, or the catalog, takes as it is."""
    return value


def same_raw(value: Any, scale: int) -> Any:
    return value


def storage_type(kind: Any) -> Any:
    """The type without the names that Parquet has for its values (uuid)."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_list(kind):
        return pa.list_(_stored(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_stored(kind.key_field), _stored(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_stored(kind.field(i)) for i in range(kind.num_fields)])
    return kind


def _stored(field: Any) -> Any:
    return field.with_type(storage_type(field.type))


def annotated(array: Any, kind: Any) -> Any:
    """The array of the storage type as one of the type."""
    import pyarrow as pa

    if array.type == kind:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array)
    if pa.types.is_list(kind):
        items = annotated(array.values, kind.value_type)
        return pa.ListArray.from_arrays(array.offsets, items, type=kind, mask=array.is_null())
    if pa.types.is_map(kind):
        keys, items = annotated(array.keys, kind.key_type), annotated(array.items, kind.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=array.is_null())
    columns = [annotated(array.field(i), kind.field(i).type) for i in range(kind.num_fields)]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=array.is_null())
