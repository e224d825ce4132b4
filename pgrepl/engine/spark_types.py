"""Spark's types of a table's columns as pyspark's objects, for the schema of a reader.

A field has the column's field id, and the value of rows that are older than the column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.internals.pyspark import time_unsupported
from pgrepl.types import oids

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField

    from pgrepl.lake.table import LakeColumn, LakeField
    from pgrepl.types.lake.arrays import Form

_NAMES = {
    "BOOLEAN": "BooleanType", "TINYINT": "ByteType", "SMALLINT": "ShortType", "INT": "IntegerType",
    "BIGINT": "LongType", "FLOAT": "FloatType", "DOUBLE": "DoubleType", "STRING": "StringType",
    "BINARY": "BinaryType", "DATE": "DateType", "TIMESTAMP": "TimestampType", "TIMESTAMP_NTZ": "TimestampNTZType",
}  # fmt: skip


def spark_type(ddl: str) -> DataType:
    """pyspark's type for the DDL of `types.lake.forms`."""
    from pyspark.sql import types

    text = ddl.strip()
    upper = text.upper()
    if upper in _NAMES:
        plain_type: DataType = getattr(types, _NAMES[upper])()
        return plain_type
    if decimal := re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", upper):
        return types.DecimalType(int(decimal[1]), int(decimal[2]))
    if time := re.fullmatch(r"TIME\((\d)\)", upper):
        if not hasattr(types, "TimeType"):
            raise time_unsupported()
        return types.TimeType(int(time[1]))
    inside = text[text.find("<") + 1 : -1]
    if upper.startswith("ARRAY<"):
        return types.ArrayType(spark_type(inside))
    if upper.startswith("MAP<"):
        key, value = _split(inside)
        return types.MapType(spark_type(key), spark_type(value))
    if upper.startswith("STRUCT<"):
        fields = [re.fullmatch(r"\s*(`(?:[^`]|``)*`|\w+)\s*:?\s*(.*)", field) for field in _split(inside)]
        return types.StructType([types.StructField(_name(f[1]), spark_type(f[2])) for f in fields if f is not None])
    raise ValueError(f"not a type of Spark: {ddl}")


def _name(written: str) -> str:
    return written[1:-1].replace("``", "`") if written.startswith("`") else written


def _split(text: str) -> list[str]:
    """The parts between commas that are not inside brackets or backquotes."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, letter in enumerate(text):
        if letter == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "<(":
            depth += 1
        elif letter in ">)":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def read_field(column: LakeColumn, name: str, *, by_id: bool = True) -> StructField:
    """The column as a field of the schema by which files are read."""
    from pyspark.sql.types import StructField

    metadata: dict[str, Any] = {"parquet.field.id": column.column_id} if by_id else {}
    default = older_value(column)
    if default is not None:
        metadata |= {"EXISTS_DEFAULT": default, "CURRENT_DEFAULT": default}
    kind = spark_type(column.form.spark)
    return StructField(name, _with_ids(kind, column.fields) if by_id else kind, True, metadata)


def _with_ids(kind: DataType, fields: Sequence[LakeField]) -> DataType:
    """The type with the ids of the fields of structs in it."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(kind, StructType):
        struct = StructType()
        for own, field in zip(kind.fields, fields, strict=True):
            numbered = _with_ids(own.dataType, field.fields)
            struct.add(StructField(own.name, numbered, True, {"parquet.field.id": field.column_id}))
        return struct
    if isinstance(kind, ArrayType):
        return ArrayType(_with_ids(kind.elementType, fields[0].fields))
    if isinstance(kind, MapType):
        return MapType(_with_ids(kind.keyType, fields[0].fields), _with_ids(kind.valueType, fields[1].fields))
    return kind


def older_value(column: LakeColumn) -> str | None:
    """The Spark SQL for the value of rows that are older than the column; None: NULL."""
    form = column.form
    if column.missing is not None:
        return _literal(form.to_arrow(column.missing), form)
    if column.initial_default is not None:
        return f"CAST({_quoted(column.initial_default)} AS {form.spark})"
    return None


def _literal(plain: Any, form: Form) -> str:
    """A value of `Form.to_arrow` as a constant expression of Spark SQL."""
    if plain is None:
        return f"CAST(NULL AS {form.spark})"
    if form.element is not None:
        items = ", ".join(_literal(item, form.element) for item in plain)
        return f"CAST(array({items}) AS {form.spark})"
    if isinstance(plain, bytes):
        return f"X'{plain.hex()}'"
    if form.spark == "DATE":
        return f"date_from_unix_date({plain})"
    if form.spark in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return f"CAST(timestamp_micros({plain}) AS {form.spark})"
    if form.typoid == oids.TIME:
        seconds, fraction = divmod(plain, 1_000_000)
        return f"TIME'{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}'"
    return f"CAST({_quoted(str(plain))} AS {form.spark})"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
