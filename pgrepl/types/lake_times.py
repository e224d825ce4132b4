"""The lake forms of dates and times."""

from __future__ import annotations

from typing import Any

from pgrepl.errors import PgError
from pgrepl.types import lake_text, oids
from pgrepl.types.dates import INFINITY, UNIX_EPOCH_DAYS, UNIX_EPOCH_USECS
from pgrepl.types.lake_arrays import Form, arrow_type, plain_array, same, same_raw


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


def _dates(array: Any) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

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
    found: list[Any] = shifted.to_pylist()
    return found


def timestamp_form(typoid: int, typmod: int) -> Form:
    zoned = typoid == oids.TIMESTAMPTZ
    write = lake_text.timestamptz_text if zoned else lake_text.timestamp_text

    def inlined(value: int) -> str:
        return write(timestamp_to_lake(value))

    def from_text(text: str) -> int:
        return timestamp_from_lake(lake_text.read_timestamp(text))

    def arrow() -> Any:
        import pyarrow as pa

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


def _timestamps(array: Any) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

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


def _floor_divide(pc: Any, array: Any, by: int) -> Any:
    cut = pc.divide(array, by)
    return pc.if_else(pc.less(array, pc.multiply(cut, by)), pc.subtract(cut, 1), cut)


def time_form(typoid: int, typmod: int) -> Form:
    def arrow() -> Any:
        import pyarrow as pa

        return pa.time64("us")

    return Form(
        typoid=typoid, typmod=typmod, lake="time", spark="TIME(6)", arrow=arrow, to_arrow=same, from_arrow=same,
        from_array=times, to_stat=lake_text.time_text, from_stat=lake_text.read_time, from_raw=same_raw,
        to_inlined=lake_text.time_text, from_inlined=lake_text.read_time,
    )  # fmt: skip


def times(array: Any) -> list[Any]:
    import pyarrow as pa

    array = plain_array(array)
    unit = array.type.unit
    found: list[Any] = array.cast(pa.int32() if pa.types.is_time32(array.type) else pa.int64()).to_pylist()
    if unit == "us":
        return found
    times, by = {"ns": (1, 1000), "ms": (1000, 1), "s": (1_000_000, 1)}[unit]
    return [None if v is None else v * times // by for v in found]
