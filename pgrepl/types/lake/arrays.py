"""`Form`: how values of one type are stored in a lake; conversions of Arrow arrays, and columns of bytes that are made
of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc

if TYPE_CHECKING:
    import numpy.typing as npt

PLAIN_SCALE = 6  # at larger scales Arrow writes small numbers with an exponent


def plain_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """An Arrow array as a single chunk of its storage type."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # too large for one
            array = pa.concat_arrays(array.chunks)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def content(array: pa.Array) -> memoryview:
    """The bytes of all values of an array of large strings or binaries without NULLs, one behind the other."""
    _, offsets, data = array.buffers()
    if not len(array) or data is None:
        return memoryview(b"")
    ends = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
    return memoryview(data)[int(ends[0]) : int(ends[-1])]


def arrow_type(name: str) -> pa.DataType:
    return getattr(pa, name)()


def same(value: Any) -> Any:
    """The conversion of values that need none."""
    return value


def same_raw(value: Any, scale: int) -> Any:
    return value


def storage_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type with extension types (uuid) replaced by their storage types, also inside nested types."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_list(kind):
        return pa.list_(_stored(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_stored(kind.key_field), _stored(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_stored(kind.field(i)) for i in range(kind.num_fields)])
    return kind


def _stored(field: pa.Field) -> pa.Field:
    return field.with_type(storage_type(field.type))


def annotated(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array of the storage type, cast to the logical type."""
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


@frozen
class FormField:
    """An attribute of a composite type, and which child of its struct holds it."""

    type: int
    typmod: int
    child: int


@frozen
class Form:
    """The storage of one type's values in a lake. `to_array` and `from_array` handle NULLs; the functions of single
    values are never called with NULL.

    `ordered` says what bounds in statistics mean: "full" (order and equality of values), "equal" (only whether a value
    may occur) or "none".
    """

    typoid: int
    typmod: int
    lake: str  # ducklake_column.column_type
    spark: str  # in a DDL string
    arrow: Callable[[], Any]  # the pyarrow type of a file's column
    to_arrow: Callable[[Any], Any]  # a value → the object that Arrow builds an array from (days, bytes …)
    from_arrow: Callable[[Any], Any]  # and back
    from_array: Callable[[Any], list[Any]]  # a column of a file or of a Spark result → values, NULLs as None
    to_stat: Callable[[Any], str | None]  # the text of a value in statistics; None: it cannot be in bounds (NaN)
    from_stat: Callable[[str], Any]
    from_raw: Callable[[Any, int], Any]  # a bound in a Parquet footer (physical value, scale) → value
    to_inlined: Callable[[Any], Any]  # the form in rows that are inlined in the catalog
    from_inlined: Callable[[Any], Any]
    ordered: str = "full"
    element: Form | None = None  # of a list
    children: tuple[tuple[str, Form], ...] = ()  # of a struct, or of a map made by another DuckLake writer
    row_fields: tuple[FormField, ...] = ()  # of the struct of a composite type, if each attribute is in it
    from_nested: Callable[[Any], Any] | None = None  # of a list or struct: from what lake_text.read_nested finds
    sized: Callable[[Any], Any] | None = None  # a value for comparison with statistics (bpchar: padded)

    def to_array(self, values: Sequence[Any]) -> pa.Array:
        """Values (NULLs as None) → a column for a file."""
        convert = self.to_arrow
        plain = values if convert is same else [None if v is None else convert(v) for v in values]
        kind = self.arrow()
        try:
            return annotated(pa.array(plain, storage_type(kind)), kind)
        except (pa.ArrowInvalid, OverflowError) as problem:
            raise PgError("22003", f"value out of range for lake type {self.lake}", detail=str(problem)) from problem


# --- byte columns -----------------------------------------------------------------------------------------------------


def records(values: npt.NDArray[Any]) -> pa.LargeBinaryArray:
    """Records of fixed width as bytes."""
    width = values.dtype.itemsize
    ends = np.arange(0, (len(values) + 1) * width, width, dtype=np.int64)
    return pa.Array.from_buffers(
        pa.large_binary(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(values.tobytes())]
    )


def joined(parts: Iterable[Any]) -> pa.LargeBinaryArray:
    """The bytes of several columns, and of constants, one behind the other."""
    empty = pa.scalar(b"", pa.large_binary())
    given = [pa.scalar(part, pa.large_binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*given, empty)
