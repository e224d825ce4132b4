"""The values of Debezium's events as text for PostgreSQL's input functions.

With a schema the field's semantic type (`io.debezium.time.…`, `org.apache.kafka.connect.data.…`) says how a value is
encoded. Without one the type of the declared column and the connector's modes say it (ValueModes). What they do not say
without doubt is an error: a wrong guess would give another value.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.replication.formats.json_text import Number, array_text, value_text
from pgrepl.types import oids
from pgrepl.types.builtin import element_type
from pgrepl.types.names import numeric_precision_scale
from pgrepl.types.text import write_text
from pgrepl.types.times.dates import INFINITY, UNIX_EPOCH_DAYS, UNIX_EPOCH_USECS
from pgrepl.types.times.interval import Interval

Convert = Callable[[Any], "str | None"]  # of what is not null

MILLIS, MICROS, NANOS = "ms", "us", "ns"
INFINITE = {9223372036825200000: INFINITY, -9223372036832400000: -INFINITY}  # as the JDBC driver has infinity
INFINITE_DAYS = {INFINITY: 2**31 - 1, -INFINITY: -(2**31)}  # dates
_PLAIN_BITS = re.compile(r"B'([01]*)'\Z")  # as pgrepl writes a varbit
_WHOLE = re.compile(r"-?\d+\Z")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z|[+-]?(nan|infinity)\Z", re.IGNORECASE)
_YEAR = re.compile(r"([+-])(\d{4,})-")
_LAST_YEAR = 294276  # of a timestamp


class Undecodable(Exception):
    """A value that is not what its type says; the text is the reason."""


@frozen
class ValueModes:
    """Properties of the connector that decide how values are encoded; None: not said."""

    decimal: str | None = None  # decimal.handling.mode: precise, double or string
    time: str = "adaptive"  # time.precision.mode
    binary: str | None = None  # binary.handling.mode: bytes, base64, base64-url-safe or hex
    placeholder: str = "__debezium_unavailable_value"  # unavailable.value.placeholder


MODES: dict[str, tuple[str, tuple[str, ...]]] = {
    "decimal_handling_mode": ("decimal", ("precise", "double", "string")),
    "time_precision_mode": (
        "time",
        ("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"),
    ),
    "binary_handling_mode": ("binary", ("bytes", "base64", "base64-url-safe", "hex")),
}


def modes_of(options: Mapping[str, str]) -> ValueModes:
    """The modes from a format's options, which have the connector's names with `_` for `.`."""
    modes = {}
    for name, (attribute, words) in MODES.items():
        if name in options:
            if options[name] not in words:
                raise PgError(
                    "22023", f'invalid value for option "{name}": "{options[name]}"',
                    hint=f"Available values: {', '.join(words)}.",
                )  # fmt: skip
            modes[attribute] = options[name]
    if "unavailable_value_placeholder" in options:
        modes["placeholder"] = _placeholder(options["unavailable_value_placeholder"])
    return ValueModes(**modes)


def _placeholder(text: str) -> str:
    """As the connector reads it: `hex:` stands in front of hexadecimal digits."""
    if not text.startswith("hex:"):
        return text
    try:
        return bytes.fromhex(text.removeprefix("hex:")).decode()
    except ValueError:
        raise PgError("22023", f'invalid value for option "unavailable_value_placeholder": "{text}"') from None


class Unavailable:
    """Tells the placeholders of unchanged TOAST values, in each form that they take."""

    def __init__(self, placeholder: str) -> None:
        encoded = placeholder.encode()
        self.texts = frozenset({placeholder, base64.b64encode(encoded).decode(), encoded.hex()})
        self._codes = [str(code) for code in encoded]

    def is_it(self, value: Any) -> bool:
        if type(value) is str:
            return value in self.texts
        if isinstance(value, list):
            return (len(value) == 1 and type(value[0]) is str and value[0] in self.texts) or (
                bool(value) and value == self._codes
            )
        if isinstance(value, dict):
            return len(value) == 1 and self.texts.issuperset(value)
        return False


# --- with a schema ----------------------------------------------------------------------------------------------------


def by_schema(field: Mapping[str, Any], modes: ValueModes, typoid: int = 0, typmod: int = -1) -> Convert | None:
    """The conversion of a schema's field to text; None: values are texts already. `typoid`: the declared column's, if
    known."""
    name, kind = field.get("name"), field.get("type")
    if name in _DECIMALS:
        return ScaledDecimal(int((field.get("parameters") or {}).get("scale", 0)))
    if name == "io.debezium.data.VariableScaleDecimal":
        return _variable_decimal
    if name == "io.debezium.data.Bits":
        length = int((field.get("parameters") or {}).get("length", 2**31 - 1))
        return lambda value: _bits(value, length)
    if isinstance(name, str) and name in _SEMANTIC:
        return _SEMANTIC[name]
    if kind == "bytes":
        return base64_bytea
    if kind == "string" and typoid == oids.BYTEA:
        return _bytea(modes, is_text=True)
    if kind == "boolean" and typoid in (oids.BIT, oids.VARBIT):
        return _bit
    if typoid == oids.VARBIT:
        return lambda value: _bits(value, 2**31 - 1)
    if kind == "array":
        return _array(by_schema(field.get("items") or {}, modes, element_type(typoid), typmod))
    return None


def _array(item: Convert | None) -> Convert | None:
    if item is None:
        return None
    convert = item

    def converted(value: Any) -> Any:
        if isinstance(value, list):
            return [converted(item) for item in value]
        return None if value is None else convert(value)

    def text(value: Any) -> str | None:
        if type(value) is str:
            return value
        if not isinstance(value, list):
            raise Undecodable(f"{value_text(value)} is no array")
        return array_text(converted(value))

    return text


# --- without a schema -------------------------------------------------------------------------------------------------


def by_type(typoid: int, typmod: int, modes: ValueModes) -> Convert | None:
    """The conversion of a column of this type to text, if the events have no schema; None: values are texts already."""
    element = element_type(typoid)
    if element:
        return _array(by_type(element, typmod, modes))
    if typoid == oids.DATE:
        return Numbers(day)
    if typoid == oids.TIME:
        return Numbers(TimeOfDay(_unit(modes, typmod, is_time=True)))
    if typoid == oids.TIMESTAMP:
        return Numbers(Timestamp(_unit(modes, typmod, is_time=False)))
    if typoid == oids.TIMESTAMPTZ:
        return zoned
    if typoid == oids.INTERVAL:
        return Numbers(_micro_duration)
    if typoid == oids.BYTEA:
        return _bytea(modes, is_text=False)
    if typoid in (oids.BIT, oids.VARBIT):
        length = typmod if typmod > 0 else 2**31 - 1
        return lambda value: _bits(value, length) if type(value) is str else _bit(value)
    if typoid == oids.NUMERIC:
        return NumericColumn(typmod, modes)
    return None


@frozen
class Numbers:
    """Converts numbers; texts, as isostring's, stay."""

    convert: Convert

    def __call__(self, value: Any) -> str | None:
        return self.convert(value) if isinstance(value, Number) else zoned(value)


def _unit(modes: ValueModes, typmod: int, *, is_time: bool) -> str:
    """The unit of a time or timestamp."""
    if modes.time == "connect":
        return MILLIS
    if modes.time == "nanoseconds":
        return NANOS
    if modes.time == "microseconds" or (is_time and modes.time == "adaptive_time_microseconds"):
        return MICROS
    return MILLIS if 0 <= typmod <= 3 else MICROS


@frozen
class NumericColumn:
    """A numeric without a schema."""

    typmod: int
    modes: ValueModes

    def __call__(self, value: Any) -> str | None:
        if isinstance(value, dict):
            return _variable_decimal(value)
        if type(value) is not str:
            return value_text(value)
        mode = self.modes.decimal
        if mode == "precise":
            return _decimal(value, _scale(self.typmod))
        is_decimal = _DECIMAL.match(value) is not None
        encoded = mode is None and _base64(value) is not None
        if is_decimal and encoded:
            raise Undecodable(
                f'"{value}" may be a number or its encoded bytes; set decimal_handling_mode as the connector has it'
            )
        if encoded:
            return _decimal(value, _scale(self.typmod))
        if not is_decimal:
            raise Undecodable(
                f'"{value}" is neither a number nor the encoded bytes of one'
                if mode is None
                else f'"{value}" is no number, as decimal_handling_mode={mode} says'
            )
        return value


def _scale(typmod: int) -> int:
    if typmod < 4:
        raise Undecodable("the scale of a decimal is not known: the events have no schema and the column no scale")
    return numeric_precision_scale(typmod)[1]


# --- values -----------------------------------------------------------------------------------------------------------


def _base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def _decoded(value: Any) -> bytes:
    data = _base64(value) if type(value) is str else None
    if data is None:
        raise Undecodable(f"{value_text(value)} is not base64")
    return data


@frozen
class ScaledDecimal:
    """A decimal's digits as base64; the schema has its scale."""

    scale: int

    def __call__(self, value: Any) -> str | None:
        return _decimal(value, self.scale)


def _decimal(value: Any, scale: int) -> str | None:
    if value is None or isinstance(value, Number):
        return value_text(value)
    return decimal_text(int.from_bytes(_decoded(value), "big", signed=True), scale)


def decimal_text(unscaled: int, scale: int) -> str:
    sign, digits = ("-", str(-unscaled)) if unscaled < 0 else ("", str(unscaled))
    if scale <= 0:
        return sign + digits + "0" * (-scale if unscaled else 0)
    digits = digits.rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def _variable_decimal(value: Any) -> str | None:
    if isinstance(value, str):
        return value_text(value)
    if not isinstance(value, dict) or "value" not in value:
        raise Undecodable(f"{value_text(value)} is no VariableScaleDecimal")
    return _decimal(value["value"], _whole(value.get("scale", Number("0"))))


def _whole(value: Any) -> int:
    if not isinstance(value, str) or not _WHOLE.match(value):
        raise Undecodable(f"{value_text(value)} is no whole number")
    return int(value)


def _bytea(modes: ValueModes, *, is_text: bool) -> Convert:
    """`is_text`: the schema says that the connector has encoded the bytes; only its mode says how."""
    if modes.binary == "hex":
        return _hex_bytea
    if modes.binary == "base64-url-safe":
        return lambda value: base64_bytea(value.translate(_URL_SAFE))
    if is_text and modes.binary is None:
        return _unknown_bytes
    return base64_bytea


_URL_SAFE = str.maketrans("-_", "+/")


def _unknown_bytes(value: Any) -> str:
    raise Undecodable("bytes are encoded as a text; set binary_handling_mode as the connector has it")


def _hex_bytea(value: Any) -> str:
    try:
        return "\\x" + bytes.fromhex(value).hex()
    except (ValueError, TypeError):
        raise Undecodable(f"{value_text(value)} is not hexadecimal") from None


def base64_bytea(value: Any) -> str:
    return "\\x" + _decoded(value).hex()


def _bits(value: Any, length: int) -> str | None:
    """Bits, the last one first; the least that hold the value where the length is not known."""
    if isinstance(value, bool):
        return _bit(value)
    plain = _PLAIN_BITS.match(value) if isinstance(value, str) else None
    if plain is not None:
        return plain[1]
    data = _decoded(value)
    if length > 8 * len(data):
        length = 8 * len(data)
    bits = format(int.from_bytes(data, "little"), "b") if data else ""
    return bits.rjust(length, "0")


def _bit(value: Any) -> str | None:
    return value_text(value) if not isinstance(value, bool) else "1" if value else "0"


def day(value: Any) -> str:
    days = _whole(value)
    infinite = next((infinity for infinity, number in INFINITE_DAYS.items() if number == days), None)
    return write_text(days + UNIX_EPOCH_DAYS if infinite is None else infinite, oids.DATE)


def _usecs(value: Any, unit: str) -> int:
    number = _whole(value)
    if unit == MILLIS:
        return number * 1000
    if unit == MICROS:
        return number
    whole, rest = divmod(number, 1000)
    return whole + (rest >= 500)


@frozen
class TimeOfDay:
    unit: str

    def __call__(self, value: Any) -> str:
        usecs = _usecs(value, self.unit)
        if not 0 <= usecs <= 86_400_000_000:
            raise Undecodable(f"{value} is no time of day")
        return write_text(usecs, oids.TIME)


@frozen
class Timestamp:
    unit: str

    def __call__(self, value: Any) -> str:
        number = _whole(value)
        if number in INFINITE:
            return write_text(INFINITE[number], oids.TIMESTAMP)
        return timestamp_text(_usecs(value, self.unit))


def timestamp_text(usecs: int) -> str:
    """The text of microseconds since 1970."""
    shifted = usecs + UNIX_EPOCH_USECS
    if abs(shifted) >= INFINITY:
        raise Undecodable(f"{usecs} is no timestamp")
    return write_text(shifted, oids.TIMESTAMP)


def zoned(value: Any) -> str:
    """An ISO 8601 timestamp, whose year may have a sign: 1 BC is 0000. Beyond PostgreSQL's years it is an infinity."""
    if type(value) is not str:
        raise Undecodable(f"{value_text(value)} is no timestamp in ISO 8601")
    signed = _YEAR.match(value)
    if signed is None and not value.startswith("0000-"):
        return value
    year = int(f"{signed[1]}{signed[2]}") if signed else 0
    rest = value[signed.end() - 1 :] if signed else value[4:]
    if year > _LAST_YEAR or year < -4713:
        return "infinity" if year > 0 else "-infinity"
    if signed and value.startswith("+294247-01-10T04:00:25.2"):
        return "infinity"
    return f"{year:04}{rest}" if year > 0 else f"{1 - year:04}{rest} BC"


def _micro_duration(value: Any) -> str:
    return write_text(Interval(0, 0, _whole(value)), oids.INTERVAL)


def _nano_duration(value: Any) -> str:
    return write_text(Interval(0, 0, _usecs(value, NANOS)), oids.INTERVAL)


def _point(value: Any) -> str | None:
    if isinstance(value, dict) and "x" in value and "y" in value:
        return f"({value_text(value['x'])},{value_text(value['y'])})"
    return value_text(value)


_DECIMALS = ("org.apache.kafka.connect.data.Decimal", "io.debezium.data.Decimal")
_SEMANTIC: dict[str, Convert] = {
    "io.debezium.time.Date": day,
    "org.apache.kafka.connect.data.Date": day,
    "io.debezium.time.Time": TimeOfDay(MILLIS),
    "org.apache.kafka.connect.data.Time": TimeOfDay(MILLIS),
    "io.debezium.time.MicroTime": TimeOfDay(MICROS),
    "io.debezium.time.NanoTime": TimeOfDay(NANOS),
    "io.debezium.time.Timestamp": Timestamp(MILLIS),
    "org.apache.kafka.connect.data.Timestamp": Timestamp(MILLIS),
    "io.debezium.time.MicroTimestamp": Timestamp(MICROS),
    "io.debezium.time.NanoTimestamp": Timestamp(NANOS),
    "io.debezium.time.ZonedTimestamp": zoned,
    "io.debezium.time.IsoTimestamp": zoned,
    "io.debezium.time.IsoDate": zoned,
    "io.debezium.time.MicroDuration": _micro_duration,
    "io.debezium.time.NanoDuration": _nano_duration,
    "io.debezium.data.geometry.Point": _point,
}


def interval_text(value: Interval) -> str:
    """An interval as Debezium writes it with interval.handling.mode = string."""
    years, months = divmod(abs(value.months), 12)
    sign = -1 if value.months < 0 else 1
    seconds, usecs = divmod(abs(value.usecs), 1_000_000)
    minus = "-" if value.usecs < 0 else ""
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    fraction = f".{usecs:06}".rstrip("0") if usecs else ""

    def part(number: int) -> str:
        return f"{minus}{number}" if number else "0"

    last = f"{minus}{seconds}{fraction}" if seconds or usecs else "0"
    return f"P{sign * years}Y{sign * months}M{value.days}DT{part(hours)}H{part(minutes)}M{last}S"
