"""Rows of Spark's as Arrow batches: Spark 4.0 gives a stream's rows one by one to who writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from pgrepl.errors import PgError

_ROWS = 10_000
_TYPES = {
    "boolean": "bool_", "tinyint": "int8", "smallint": "int16", "int": "int32", "bigint": "int64", "float": "float32",
    "double": "float64", "string": "string", "binary": "binary", "date": "date32",
}  # fmt: skip


def batches(rows: Iterable[Any], schema: Any) -> Iterator[Any]:
    """`schema` is the StructType of the rows."""
    import pyarrow as pa

    kinds = pa.schema([(field.name, arrow_type(field.dataType.simpleString())) for field in schema.fields])
    source = iter(rows)
    while portion := list(islice(source, _ROWS)):
        columns = zip(*portion, strict=True)
        arrays = [pa.array(list(values), kind.type) for values, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=kinds)


def arrow_type(name: str) -> Any:
    """The Arrow type of a type that Spark prints as `decimal(10,2)` or `array<int>`."""
    import pyarrow as pa

    if name in _TYPES:
        return getattr(pa, _TYPES[name])()
    if name in ("timestamp", "timestamp_ntz"):
        return pa.timestamp("us", "UTC" if name == "timestamp" else None)
    if found := re.fullmatch(r"decimal\((\d+),(\d+)\)", name):
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := re.fullmatch(r"array<(.+)>", name):
        return pa.list_(arrow_type(found[1]))
    raise PgError("0A000", f"a column of Spark's type {name} is not supported", hint="Cast it to a string.")
