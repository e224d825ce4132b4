"""The forms of DuckLake's scalar types in columns of tables that other DuckLake writers have created.

    >>> foreign_form("uint8").typoid, foreign_form("decimal(10,2)").typmod
    (21, 655366)

Each is read as a PostgreSQL type that holds all its values. Intervals can be read, but only NULLs can be written: Arrow
cannot write their Parquet type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple, Protocol

from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.lazy import pa
from pgrepl.types import oids
from pgrepl.types.lake import text as lake_text
from pgrepl.types.lake.arrays import Form, plain_array
from pgrepl.types.lake.forms import form
from pgrepl.types.lake.lists import times
from pgrepl.types.times.datetime import TimeTz
from pgrepl.types.times.interval import Interval


class Nested(Protocol):
    """A column or field as the catalog describes it (lake.table.LakeField)."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def fields(self) -> tuple[Any, ...]: ...


class Field(NamedTuple):
    name: str
    type: str
    fields: tuple[Any, ...] = ()


_PLAIN = {
    "boolean": oids.BOOL, "int16": oids.INT2, "int32": oids.INT4, "int64": oids.INT8, "float32": oids.FLOAT4,
    "float64": oids.FLOAT8, "varchar": oids.TEXT, "json": oids.JSON, "blob": oids.BYTEA, "uuid": oids.UUID,
    "date": oids.DATE, "time": oids.TIME, "timestamp": oids.TIMESTAMP, "timestamptz": oids.TIMESTAMPTZ,
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


@cache
def foreign_form(lake: str) -> Form:
    """The form of any DuckLake type except lists, structs and maps."""
    if lake in _PLAIN:
        return form(_PLAIN[lake])
    found = _DECIMAL.fullmatch(lake)
    if found is not None:
        precision, scale = int(found[1]), int(found[2])
        return form(oids.NUMERIC, (precision << 16 | scale) + 4)
    make = _OTHERS.get(lake)
    if make is None:
        raise unsupported(f"a column of lake type {lake}")
    return make()


# --- numbers ------------------------------------------------------------------------------------------------------


def _narrow(lake: str, typoid: int, arrow: str, low: int, high: int) -> Callable[[], Form]:
    """The form of an integer type that is narrower than the PostgreSQL type for it."""

    def to_arrow(value: int) -> int:
        if not low <= value <= high:
            raise PgError("22003", f"value {value} is out of range for lake type {lake}")
        return value

    def kind() -> Any:
        return getattr(pa, arrow)()

    def make() -> Form:
        return replace(form(typoid), lake=lake, arrow=kind, to_arrow=to_arrow, to_inlined=to_arrow)

    return make


def _huge(lake: str, low: int, high: int, digits: int) -> Callable[[], Form]:
    """The form of an integer type that only numeric can hold. 128-bit ones are doubles in Parquet, as DuckDB writes
    them."""

    def check(value: Decimal) -> int:
        if not value.is_finite() or value != value.to_integral_value() or not low <= value <= high:
            raise PgError("22003", f"value {value} is out of range for lake type {lake}")
        return int(value)

    def arrow() -> Any:
        return pa.uint64() if lake == "uint64" else pa.float64()

    def to_arrow(value: Decimal) -> int | float:
        return check(value) if lake == "uint64" else float(check(value))

    def from_array(array: pa.Array) -> list[Any]:
        return [None if v is None else Decimal(int(v)) for v in plain_array(array).to_pylist()]

    def make() -> Form:
        return replace(
            form(oids.NUMERIC, (digits << 16) + 4),
            lake=lake,
            spark="DECIMAL(20,0)" if lake == "uint64" else "DOUBLE",
            arrow=arrow,
            to_arrow=to_arrow,
            from_arrow=lambda v: Decimal(int(v)),
            from_array=from_array,
            to_stat=lambda v: str(check(v)),
            from_raw=lambda v, scale: Decimal(int(v)),
            to_inlined=lambda v: str(check(v)),
            from_inlined=lambda v: Decimal(int(v)),
            ordered="none",
        )

    return make


# --- dates and times ----------------------------------------------------------------------------------------------


def _coarse(lake: str, unit: str, per_second: int) -> Callable[[], Form]:
    """The form of a timestamp of another precision; anything finer than microseconds is cut off."""

    def make() -> Form:
        plain = form(oids.TIMESTAMP)

        def arrow() -> Any:
            return pa.timestamp(unit)

        def to_arrow(value: int) -> int:
            usecs = int(plain.to_arrow(value))
            if abs(usecs) == lake_text.TIMESTAMP_INFINITY:
                return usecs
            scaled = usecs * per_second // 1_000_000
            if abs(scaled) >= lake_text.TIMESTAMP_INFINITY:
                raise PgError("22008", f"timestamp out of range for lake type {lake}")
            return scaled

        def from_raw(value: int, scale: int) -> int:
            if abs(value) != lake_text.TIMESTAMP_INFINITY:
                value = value * 1_000_000 // per_second
            return int(plain.from_arrow(value))

        return replace(
            plain,
            lake=lake,
            arrow=arrow,
            to_arrow=to_arrow,
            from_arrow=lambda v: from_raw(v, 0),
            from_raw=from_raw,
            ordered="none" if unit == "ns" else "full",
        )

    return make


def _timetz() -> Form:
    """The form of timetz; files contain the time in UTC only."""

    def from_array(array: pa.Array) -> list[Any]:
        return [None if v is None else TimeTz(v, 0) for v in times(array)]

    def from_inlined(text: str) -> TimeTz:
        usecs, east = lake_text.read_timetz(text)
        return TimeTz(usecs, -east)

    def arrow() -> Any:
        return pa.time64("us")

    def to_arrow(value: TimeTz) -> int:
        return (value.usecs + value.zone * 1_000_000) % 86_400_000_000

    plain = form(oids.TIMETZ)
    return replace(
        plain,
        lake="timetz",
        spark="TIME(6)",
        arrow=arrow,
        to_arrow=to_arrow,
        from_arrow=lambda v: TimeTz(v, 0),
        from_array=from_array,
        to_stat=lambda v: None,
        from_inlined=from_inlined,
        ordered="none",
    )


def _interval() -> Form:
    def from_array(array: pa.Array) -> list[Any]:
        return [None if v is None else read_parquet_interval(v) for v in plain_array(array).to_pylist()]

    def arrow() -> Any:
        return pa.binary(12)

    return replace(
        form(oids.INTERVAL),
        lake="interval",
        spark="BINARY",
        arrow=arrow,
        to_arrow=refuse("interval"),
        from_arrow=read_parquet_interval,
        from_array=from_array,
        to_stat=lambda v: None,
        ordered="none",
    )


def read_parquet_interval(value: bytes) -> Interval:
    """Months, days and milliseconds."""
    months, days, millis = (int.from_bytes(value[at : at + 4], "little", signed=at < 8) for at in (0, 4, 8))
    return Interval(months, days, millis * 1000)


def refuse(lake: str) -> Callable[[Any], Any]:
    def write(value: Any) -> Any:
        raise unsupported(f"writing a value of lake type {lake}")

    return write


_OTHERS: dict[str, Callable[[], Form]] = {
    "int8": _narrow("int8", oids.INT2, "int8", -128, 127),
    "uint8": _narrow("uint8", oids.INT2, "uint8", 0, 255),
    "uint16": _narrow("uint16", oids.INT4, "uint16", 0, 65535),
    "uint32": _narrow("uint32", oids.INT8, "uint32", 0, 2**32 - 1),
    "uint64": _huge("uint64", 0, 2**64 - 1, 20),
    "int128": _huge("int128", -(2**127), 2**127 - 1, 39),
    "uint128": _huge("uint128", 0, 2**128 - 1, 39),
    "timestamp_s": _coarse("timestamp_s", "s", 1),
    "timestamp_ms": _coarse("timestamp_ms", "ms", 1000),
    "timestamp_ns": _coarse("timestamp_ns", "ns", 1_000_000_000),
    "timetz": _timetz,
    "interval": _interval,
}
