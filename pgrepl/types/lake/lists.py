"""The lake forms of arrays, lists of the element's form, and of dates and times.

A list has one dimension and lower bound 1. A column with other arrays is kept as text (rows/checks_table.py).
"""

from __future__ import annotations

from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import pa, pc
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, array_of
from pgrepl.types.lake import text as lake_text
from pgrepl.types.lake.arrays import Form, arrow_type, plain_array, same, same_raw
from pgrepl.types.times.dates import INFINITY, UNIX_EPOCH_DAYS, UNIX_EPOCH_USECS

_NO_LIST = "an array of several dimensions, or that does not begin at 1, is no list"


def list_form(typoid: int, typmod: int, element: Form) -> Form:
    elemtype = element.typoid

    def arrow() -> Any:
        return pa.list_(pa.field("element", element.arrow()))

    def to_arrow(value: PgArray) -> list[Any]:
        return [None if v is None else element.to_arrow(v) for v in list_items(value)]

    def from_arrow(items: list[Any]) -> PgArray:
        return array_of(elemtype, [None if v is None else element.from_arrow(v) for v in items])

    def from_array(array: pa.Array) -> list[Any]:
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


def item_value(item: Form, nested: Any) -> Any:
    """A value inside a list or struct, from what lake_text.read_nested finds there."""
    if nested is None:
        return None
    return element_value(item, nested) if item.from_nested is None else item.from_nested(nested)


def element_text(element: Form, value: Any) -> str:
    """An element as DuckDB prints it."""
    inlined = element.to_inlined(value)
    if isinstance(inlined, bytes):
        return lake_text.blob_text(inlined)
    return ("true" if inlined else "false") if element.lake == "boolean" else str(inlined)


def element_value(element: Form, text: str) -> Any:
    return element.from_inlined(lake_text.read_blob(text) if element.lake == "blob" else text)


# --- lake times -------------------------------------------------------------------------------------------------------


def date_form(typoid: int, typmod: int) -> Form:
    def inlined(value: int) -> str:
        return lake_text.date_text(date_to_lake(value))

    def from_text(text: str) -> int:
        return date_from_lake(lake_text.read_date(text))

    return Form(
        typoid=typoid, typmod=typmod, lake="date", spark="DATE", arrow=lambda: arrow_type("date32"),
        to_arrow=date_to_lake, from_arrow=date_from_lake, from_array=_dates, to_stat=inlined, from_stat=from_text,
        from_raw=lambda v, scale: date_from_lake(v), to_inlined=inlined, from_inlined=from_text,

    )  # fmt: skip


def date_to_lake(value: int) -> int:
    """Days since 2000-01-01 as days since 1970-01-01."""
    if value in (INFINITY, -INFINITY):
        return lake_text.DATE_INFINITY if value > 0 else -lake_text.DATE_INFINITY
    return value - UNIX_EPOCH_DAYS


def date_from_lake(days: int) -> int:
    if abs(days) == lake_text.DATE_INFINITY:
        return INFINITY if days > 0 else -INFINITY
    return days + UNIX_EPOCH_DAYS


def _dates(array: pa.Array) -> list[Any]:
    array = plain_array(array)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.date32())
    days = array.cast(pa.int32()).cast(pa.int64())
    return _shifted(pc, days, UNIX_EPOCH_DAYS, lake_text.DATE_INFINITY)


def _shifted(pc: Any, units: Any, epoch: int, infinity: int) -> list[Any]:
    shifted = pc.add(units, epoch)
    least = pc.min_max(units)
    if least["max"].as_py() == infinity:
        shifted = pc.if_else(pc.equal(units, infinity), INFINITY, shifted)
    if least["min"].as_py() is not None and least["min"].as_py() <= -infinity:
        shifted = pc.if_else(pc.less_equal(units, -infinity), -INFINITY, shifted)
    values: list[Any] = shifted.to_pylist()
    return values


def timestamp_form(typoid: int, typmod: int) -> Form:
    zoned = typoid == oids.TIMESTAMPTZ
    write = lake_text.timestamptz_text if zoned else lake_text.timestamp_text

    def inlined(value: int) -> str:
        return write(timestamp_to_lake(value))

    def from_text(text: str) -> int:
        return timestamp_from_lake(lake_text.read_timestamp(text))

    def arrow() -> Any:
        return pa.timestamp("us", "UTC" if zoned else None)

    return Form(
        typoid=typoid, typmod=typmod, lake="timestamptz" if zoned else "timestamp",
        spark="TIMESTAMP" if zoned else "TIMESTAMP_NTZ", arrow=arrow, to_arrow=timestamp_to_lake,
        from_arrow=timestamp_from_lake, from_array=_timestamps, to_stat=inlined, from_stat=from_text,
        from_raw=lambda v, scale: timestamp_from_lake(v), to_inlined=inlined, from_inlined=from_text,

    )  # fmt: skip


def timestamp_to_lake(value: int) -> int:
    """Microseconds since 2000-01-01 as microseconds since 1970-01-01."""
    if value in (INFINITY, -INFINITY):
        return value
    shifted = value - UNIX_EPOCH_USECS
    if shifted >= lake_text.TIMESTAMP_INFINITY:
        raise PgError("22008", "timestamp out of range", detail="A lake table holds timestamps up to 294247-01-10.")
    return shifted


def timestamp_from_lake(usecs: int) -> int:
    if abs(usecs) == lake_text.TIMESTAMP_INFINITY:
        return usecs
    return usecs + UNIX_EPOCH_USECS


def _timestamps(array: pa.Array) -> list[Any]:
    array = plain_array(array)
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("us"))
    unit = array.type.unit
    usecs = array.cast(pa.int64())
    if unit == "ns":
        special = pc.equal(pc.abs(usecs), lake_text.TIMESTAMP_INFINITY)
        usecs = pc.if_else(special, usecs, _floor_divide(pc, usecs, 1000))
    elif unit != "us":
        usecs = pc.multiply(usecs, {"s": 1_000_000, "ms": 1000}[unit])
    return _shifted(pc, usecs, UNIX_EPOCH_USECS, lake_text.TIMESTAMP_INFINITY)


def _floor_divide(pc: Any, array: pa.Array, by: int) -> Any:
    cut = pc.divide(array, by)
    return pc.if_else(pc.less(array, pc.multiply(cut, by)), pc.subtract(cut, 1), cut)


def time_form(typoid: int, typmod: int) -> Form:
    def arrow() -> Any:
        return pa.time64("us")

    return Form(
        typoid=typoid, typmod=typmod, lake="time", spark="TIME(6)", arrow=arrow, to_arrow=same, from_arrow=same,
        from_array=times, to_stat=lake_text.time_text, from_stat=lake_text.read_time, from_raw=same_raw,
        to_inlined=lake_text.time_text, from_inlined=lake_text.read_time,
    )  # fmt: skip


def times(array: pa.Array) -> list[Any]:
    array = plain_array(array)
    unit = array.type.unit
    units: list[Any] = array.cast(pa.int32() if pa.types.is_time32(array.type) else pa.int64()).to_pylist()
    if unit == "us":
        return units
    times, by = {"ns": (1, 1000), "ms": (1000, 1), "s": (1_000_000, 1)}[unit]
    return [None if v is None else v * times // by for v in units]
