"""Arrow arrays → strings that PostgreSQL's input functions read. What Arrow writes as PostgreSQL reads it is cast by
Arrow, everything else value by value. Structs are rows for columns of composite types, and JSON for others."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pgrepl.ground.lazy import kinds, pa, pc
from pgrepl.replication.formats.json_text import Number, array_text, json_text
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, element_type
from pgrepl.types.lake.foreign import read_parquet_interval
from pgrepl.types.lake.nested_words import nested_texts
from pgrepl.types.text import write_text
from pgrepl.types.times.dates import INFINITY, UNIX_EPOCH_DAYS, UNIX_EPOCH_USECS, USECS_PER_DAY
from pgrepl.types.user_types import composite_type

_UUID = "arrow.uuid"
_INFINITE_DAYS = {2**31 - 1: INFINITY, 1 - 2**31: -INFINITY}  # as DuckDB writes them
_INFINITE_USECS = {(2**63 - 1, 1): INFINITY, (1 - 2**63, 1): -INFINITY}
_SCALES = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}  # microseconds: times, and by what
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # 0001-01-01 and 9999-12-31, which Arrow writes as PostgreSQL reads them


def text_column(array: pa.Array, typoid: int = 0) -> pa.Array:
    """The values as strings, for a column of the type, if it is known; NULL stays NULL. A byte string that is no UTF-8
    is a bytea's text."""
    if _holds_rows(typoid):
        return pa.array(nested_texts(array, typoid, composite_type, _texts), pa.string())
    if isinstance(array, pa.ExtensionArray):
        if array.type.extension_name == _UUID:
            return pa.array([None if uuid is None else str(UUID(bytes=uuid)) for uuid in array.storage.to_pylist()])
        array = array.storage
    kind = array.type
    if kinds.is_dictionary(kind):
        return text_column(array.dictionary_decode())
    if kinds.is_string(kind):
        return array
    if kinds.is_large_string(kind) or kinds.is_string_view(kind) or kinds.is_null(kind):
        return array.cast(pa.string())
    if kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind):
        return array.cast(pa.string())
    if (kinds.is_date(kind) or kinds.is_timestamp(kind)) and _is_usual(array):
        return _times(array)
    return pa.array([_text(value) for value in _values(array)], pa.string())


def interval_texts(array: pa.Array) -> pa.Array:
    """An array of Parquet's INTERVALs, which Arrow takes for bytes, with their texts instead; they may be in lists and
    structs."""
    kind = array.type
    if kinds.is_fixed_size_binary(kind):
        return pa.array([None if v is None else _interval_text(v) for v in array.to_pylist()], pa.string())
    if kinds.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, interval_texts(array.values), mask=array.is_null())
    if kinds.is_struct(kind):
        names = [kind.field(at).name for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(
            [interval_texts(child) for child in array.flatten()], names=names, mask=array.is_null()
        )
    return array


def _interval_text(value: bytes) -> str:
    return write_text(read_parquet_interval(value), oids.INTERVAL)


def _holds_rows(typoid: int) -> bool:
    """Whether values are of a composite type, or arrays of one."""
    base = base_type(typoid)
    element = element_type(base)
    return _holds_rows(element) if element else composite_type(base) is not None


def _texts(array: pa.Array, typoid: int) -> list[str | None]:
    """The texts of a column. What a file has for a composite type, if it is no struct, is its text already."""
    return list(text_column(array, 0 if _holds_rows(typoid) else typoid).to_pylist())


def _is_usual(array: pa.Array) -> bool:
    """Whether all dates are in the years 1 to 9999, and no fraction has more than six digits."""
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        return False
    inside = pc.and_(pc.greater_equal(_days(array), _FIRST_DAY), pc.less_equal(_days(array), _LAST_DAY))
    return pc.all(inside).as_py() is not False


def _days(array: pa.Array) -> pa.Array:
    """Days from 1970 of dates and timestamps; towards 1970 where it is between two."""
    if not pa.types.is_timestamp(array.type):
        return array.cast(pa.date32(), safe=False).view(pa.int32())
    per_day = {"s": 86400, "ms": 86_400_000, "us": USECS_PER_DAY}[array.type.unit]
    return pc.divide(array.view(pa.int64()), per_day)


def _times(array: pa.Array) -> pa.Array:
    kind = array.type
    if not pa.types.is_timestamp(kind):
        return array.cast(pa.date32()).cast(pa.string())
    if kind.tz is None:
        return array.cast(pa.string())
    utc = array.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit))
    return pc.binary_join_element_wise(utc.cast(pa.string()), pa.scalar("+00"), "")


def _values(array: pa.Array) -> list[Any]:
    """Values that `_text` knows: dates and times as tuples of their kind and their number."""
    kind = array.type
    if kinds.is_date(kind):
        return [day and ("date", day) for day in _counted(array.cast(pa.date32(), safe=False), pa.int32())]
    if kinds.is_timestamp(kind):
        numbers = _counted(array, pa.int64())
        name = "timestamp" if kind.tz is None else "timestamptz"
        scale, rest = _SCALES[kind.unit]
        return [number and (name, (number[0] * scale, rest)) for number in numbers]
    if kinds.is_time(kind):
        raw = _counted(array, pa.int32() if kinds.is_time32(kind) else pa.int64())
        scale, rest = _SCALES[kind.unit]
        return [number and ("time", (number[0] * scale, rest)) for number in raw]
    if _is_list(kind):
        return _lists(array)
    if kinds.is_map(kind):
        keys, items = text_column(array.keys).to_pylist(), _json_values(array.items)
        pairs = list(zip(keys, items, strict=True))
        offsets = array.offsets.to_pylist()
        valid = array.is_valid().to_pylist()
        first = offsets[0] if offsets else 0
        return [dict(pairs[offsets[at] - first : offsets[at + 1] - first]) if is_there else None
                for at, is_there in enumerate(valid)]  # fmt: skip
    if kinds.is_struct(kind):
        return _json_values(array)
    return list(array.to_pylist())


def _counted(array: pa.Array, kind: pa.DataType) -> list[Any]:
    """Each number as a tuple of one, so that zero is not taken for NULL."""
    return [None if number is None else (number,) for number in array.view(kind).to_pylist()]


def _is_list(kind: pa.DataType) -> bool:
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


def _lists(array: pa.Array) -> list[Any]:
    child = array.type.value_type
    nested = pa.types.is_struct(child) or pa.types.is_map(child)
    lists: list[Any] = []
    for number in range(len(array)):
        scalar = array[number]
        if not scalar.is_valid:
            lists.append(None)
            continue
        items = scalar.values
        lists.append(_json_values(items) if nested else _Items(_items(items)))
    return lists


class _Items(list[Any]):
    """Items of an array, as texts."""


def _items(items: pa.Array) -> list[Any]:
    if _is_list(items.type):
        return [None if entries is None else list(entries) for entries in _lists(items)]
    return list(text_column(items).to_pylist())


def _json_values(array: pa.Array) -> list[Any]:
    """Values for JSON: numbers keep their digits, everything else that JSON has no form for is its text."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if kinds.is_boolean(kind):
        return list(array.to_pylist())
    if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind):
        return [None if text is None else Number(text) for text in text_column(array).to_pylist()]
    if kinds.is_struct(kind):
        columns = {kind.field(at).name: _json_values(child) for at, child in enumerate(array.flatten())}
        valid = array.is_valid().to_pylist()
        return [
            {name: column[at] for name, column in columns.items()} if valid[at] else None for at in range(len(array))
        ]
    if _is_list(kind):
        return [_json_values(array[at].values) if array[at].is_valid else None for at in range(len(array))]
    if kinds.is_map(kind):
        return _values(array)
    return list(text_column(array).to_pylist())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, _Items):
        return array_text(value)
    if isinstance(value, tuple):
        name, number = value
        return _time_text(name, number)
    if isinstance(value, (dict, list)):
        return json_text(value)
    return str(value)


def _time_text(name: str, number: tuple[int, ...]) -> str:
    if name == "date":
        infinite = _INFINITE_DAYS.get(number[0])
        return write_text(number[0] + UNIX_EPOCH_DAYS if infinite is None else infinite, oids.DATE)
    if number in _INFINITE_USECS:
        return write_text(_INFINITE_USECS[number], oids.TIMESTAMP)
    usecs, rest = divmod(number[0], number[1])
    if rest:
        usecs += 2 * rest >= number[1]  # rounded to microseconds, as a timestamp's input function does
    if name == "time":
        return write_text(usecs, oids.TIME)
    return write_text(usecs + UNIX_EPOCH_USECS, oids.TIMESTAMP if name == "timestamp" else oids.TIMESTAMPTZ)
