"""DuckLake's text of values as Iceberg has it: the bytes of a bound, and a default in JSON."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pgrepl.errors import PgError
from pgrepl.types.lake_foreign import foreign_form
from pgrepl.types.lake_text import DATE_INFINITY, TIMESTAMP_INFINITY, date_text, read_blob, time_text, timestamp_text

Bound = Callable[[str], "bytes | None"]
_BAD = (ValueError, ArithmeticError, KeyError, struct.error, PgError)  # a text of another writer
_PACKED = {"boolean": "<?", "int": "<i", "long": "<q", "float": "<f", "double": "<d", "date": "<i", "time": "<q",
           "timestamp": "<q", "timestamptz": "<q"}  # fmt: skip
_SINGLE = 1e-6  # how far a single's shortest text may be from its value as a double


def bound(lake: str, kind: str, *, high: bool) -> Bound:
    """The function that encodes bounds of a column of DuckLake's type `lake` and Iceberg's type `kind`. It gives None
    where the text says nothing: then the bound is left out, which is always right."""
    encode = _floating(kind, high=high) if kind in ("float", "double") else _encoder(kind)
    read = _reader(lake)

    def encoded(text: str) -> bytes | None:
        try:
            return encode(read(text))
        except _BAD:
            return None

    return encoded


def _reader(lake: str) -> Callable[[str], Any]:
    """From the text to what Parquet holds."""
    if lake.startswith(("int", "uint")):
        return int
    if lake in ("varchar", "json"):
        return str
    form = foreign_form(lake)
    read, write = form.from_stat, form.to_arrow
    return lambda text: write(read(text))


def _encoder(kind: str) -> Callable[[Any], bytes]:
    if kind == "string":
        return str.encode
    if kind in ("uuid", "binary"):
        return bytes
    if kind.startswith("decimal"):
        scale = int(kind[kind.index(",") + 1 : -1])
        return lambda value: _big_endian(int(value.scaleb(scale)))
    packed = struct.Struct(_PACKED[kind])
    return packed.pack


def _big_endian(number: int) -> bytes:
    return number.to_bytes(((number if number >= 0 else ~number).bit_length() // 8) + 1, "big", signed=True)


def _floating(kind: str, *, high: bool) -> Callable[[float], bytes]:
    """Bounds of floats. The zeros are equal here, but -0.0 is less than 0.0 for some readers; a file from when a column
    was narrower has singles' texts."""
    packed = struct.Struct(_PACKED[kind])

    def encode(value: float) -> bytes:
        if value == 0:
            value = 0.0 if high else -0.0
        elif kind == "double" and abs(value) != float("inf"):
            value += abs(value) * _SINGLE * (1 if high else -1)
        return packed.pack(value)

    return encode


# --- defaults -----------------------------------------------------------------------------------------------------

_EPOCH = date(1970, 1, 1)


class NoJson(Exception):
    """A value that JSON cannot have: NaN, infinity, a year without four digits."""


def default(lake: str, kind: str, text: str) -> Any:
    """An initial default in JSON."""
    try:
        if kind == "binary":
            return read_blob(text).hex()
        value = _reader(lake)(text)
        if kind in ("float", "double"):
            if value - value != 0:
                raise NoJson
            return value
        if kind.startswith("decimal"):
            return f"{Decimal(value):f}"
        if kind == "uuid":
            return text.lower()
        if kind in _TEXTS:
            return _TEXTS[kind](value)
        return value
    except _BAD as problem:
        raise NoJson from problem


def _date(days: int) -> str:
    if abs(days) == DATE_INFINITY or not 0 < (_EPOCH.toordinal() + days) <= date.max.toordinal():
        raise NoJson
    return date_text(days)


def _timestamp(usecs: int) -> str:
    if abs(usecs) == TIMESTAMP_INFINITY or not -(2**56) < usecs < 2**58:
        raise NoJson
    _date(usecs // 86_400_000_000)
    return timestamp_text(usecs).replace(" ", "T")


_TEXTS: dict[str, Callable[[int], str]] = {
    "date": _date,
    "time": time_text,
    "timestamp": _timestamp,
    "timestamptz": lambda usecs: _timestamp(usecs) + "+00:00",
}


def milliseconds(moment: Any) -> int:
    """A snapshot's time, as the catalog has it."""
    when = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return round((when - datetime(1970, 1, 1, tzinfo=when.tzinfo)) / timedelta(milliseconds=1))
