"""Input and output of integers, OIDs, floats and booleans.

>>> read_int4(" 1_000 "), read_float8("1e3"), write_float8(1e15)
(1000, 1000.0, '1e+15')
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal

from pgrepl.ground.errors import PgError
from pgrepl.types.input_checks import invalid_text, out_of_range
from pgrepl.types.style import TextStyle

SPACE = " \t\n\v\f\r"  # as C's isspace

INT2_MIN, INT2_MAX = -(2**15), 2**15 - 1
INT4_MIN, INT4_MAX = -(2**31), 2**31 - 1
INT8_MIN, INT8_MAX = -(2**63), 2**63 - 1

_PLAIN = re.compile(r"-?[0-9]{1,18}\Z", re.ASCII)
_INTEGER = re.compile(
    r"[ \t\n\v\f\r]*(?P<sign>[-+]?)"
    r"(?:0[xX](?P<hex>(?:_?[0-9a-fA-F])+)|0[oO](?P<oct>(?:_?[0-7])+)|0[bB](?P<bin>(?:_?[01])+)|(?P<dec>[0-9](?:_?[0-9])*))"
)


def _integer_reader(typename: str, low: int, high: int) -> Callable[[str], int]:
    """As pg_strtoint32_safe does: decimal, 0x, 0o, 0b, underscores between digits, spaces around."""

    def read(text: str) -> int:
        if _PLAIN.match(text):
            value = int(text)
            if low <= value <= high:
                return value
            raise out_of_range(typename, text)
        match = _INTEGER.match(text)
        if match is None:
            raise invalid_text(typename, text)
        kind = match.lastgroup
        assert kind is not None
        base = {"hex": 16, "oct": 8, "bin": 2, "dec": 10}[kind]
        digits = match[kind].replace("_", "")
        if int(digits[:-1] or "0", base) > -low // base:  # overflow is reported before trailing junk
            raise out_of_range(typename, text)
        if text[match.end() :].strip(SPACE):
            raise invalid_text(typename, text)
        value = int(digits, base)
        value = -value if match["sign"] == "-" else value
        if not low <= value <= high:
            raise out_of_range(typename, text)
        return value

    return read


read_int2 = _integer_reader("smallint", INT2_MIN, INT2_MAX)
read_int4 = _integer_reader("integer", INT4_MIN, INT4_MAX)
read_int8 = _integer_reader("bigint", INT8_MIN, INT8_MAX)

_UNSIGNED = re.compile(r"[ \t\n\v\f\r]*([-+]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", re.ASCII)


def read_unsigned(text: str, typename: str) -> tuple[int, str]:
    """As uint32in_subr and uint64in_subr do: C's strtoul with base 0. Also returns the rest of the text."""
    match = _UNSIGNED.match(text)
    if match is None:
        raise invalid_text(typename, text)
    digits = match[2]
    base = 16 if digits[1:2] in ("x", "X") else 8 if digits[0] == "0" else 10
    value = int(digits, base)
    if value >= 2**64:
        raise out_of_range(typename, text)
    value = (-value if match[1] == "-" else value) % 2**64
    return value, text[match.end() :]


def _unsigned_reader(typename: str, bits: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value, rest = read_unsigned(text, typename)
        if rest.strip(SPACE):
            raise invalid_text(typename, text)
        if bits == 32:
            return _to_32_bits(value, text, typename)
        return value

    return read


def _to_32_bits(value: int, text: str, typename: str) -> int:
    """A small negative number as the unsigned number with the same bits."""
    if 2**32 <= value < 2**64 - 2**31:
        raise out_of_range(typename, text)
    return value % 2**32


def read_oids(text: str) -> list[int]:
    """As oidvectorin does: numbers separated by white space; an error message shows all of the text that is left."""
    oids = []
    while text.strip(SPACE):
        value, rest = read_unsigned(text.lstrip(SPACE), "oid")
        if rest and rest[0] not in SPACE:
            raise invalid_text("oid", rest)
        oids.append(_to_32_bits(value, text, "oid"))
        text = rest
    return oids


read_oid = _unsigned_reader("oid", 32)
read_xid = _unsigned_reader("xid", 32)
read_cid = _unsigned_reader("cid", 32)
read_xid8 = _unsigned_reader("xid8", 64)

_SHORT = re.compile(r"[-+]?[0-9]+", re.ASCII)


def read_shorts(text: str) -> list[int]:
    """As int2vectorin does; an error message shows all of the text that is left."""
    shorts = []
    while text.strip(SPACE):
        text = text.lstrip(SPACE)
        number = _SHORT.match(text)
        rest = text[number.end() :] if number else text
        if number is not None and not INT2_MIN <= int(number[0]) <= INT2_MAX:
            raise out_of_range("smallint", text)
        if number is None or (rest and rest[0] != " "):
            raise invalid_text("smallint", text)
        shorts.append(int(number[0]))
        text = rest
    return shorts


_TRUE_FALSE = {
    **{word[:n]: True for word in ("true", "yes") for n in range(1, len(word) + 1)},
    **{word[:n]: False for word in ("false", "no") for n in range(1, len(word) + 1)},
    "on": True,
    "1": True,
    "of": False,
    "off": False,
    "0": False,
}


def parse_bool(text: str) -> bool | None:
    """As parse_bool does for settings and options: a unique prefix, in any case. None: not a boolean."""
    return _TRUE_FALSE.get(text.lower())


def read_bool(text: str) -> bool:
    value = parse_bool(text.strip(SPACE))
    if value is None:
        raise invalid_text("boolean", text)
    return value


_FLOAT = re.compile(
    r"[-+]?(?:0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][-+]?[0-9]+)?"
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    r"|(?i:infinity|inf|nan))",
    re.ASCII,
)


def _parse_float(text: str, typename: str, to_type: Callable[[float], float]) -> float:
    """A float as strtod reads it; out of range is reported before trailing junk."""
    match = _FLOAT.match(text.lstrip(SPACE))
    if match is None:
        raise invalid_text(typename, text)
    number = match[0]
    try:
        value = float.fromhex(number) if number.lstrip("+-")[:2] in ("0x", "0X") else float(number)
    except OverflowError:
        value = math.inf
    value = to_type(value)
    if (math.isinf(value) and "n" not in number.lower()) or (value == 0 and not _is_written_zero(number)):
        raise PgError("22003", f'"{number}" is out of range for type {typename}')
    if text.lstrip(SPACE)[match.end() :].strip(SPACE):
        raise invalid_text(typename, text)
    return value


def _is_written_zero(number: str) -> bool:
    mantissa = re.split("[pP]" if number.lstrip("+-")[:2] in ("0x", "0X") else "[eE]", number)[0]
    return not mantissa.lstrip("+-").removeprefix("0x").removeprefix("0X").strip("0.")


def read_float8(text: str) -> float:
    return _parse_float(text, "double precision", float)


def read_float4(text: str) -> float:
    return _parse_float(text, "real", to_float4)


_SINGLE = struct.Struct("f")


def to_float4(value: float) -> float:
    """Round to single precision; too large becomes infinite."""
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def write_float8(value: float, style: TextStyle | None = None) -> str:
    if style is not None and style.extra_float_digits <= 0:
        return _special(value) or _printf_g(value, max(1, 15 + style.extra_float_digits))
    return _special(value) or _scientific(_shortest_float8(value), 15)


def write_float4(value: float, style: TextStyle | None = None) -> str:
    if style is not None and style.extra_float_digits <= 0:
        return _special(value) or _printf_g(value, max(1, 6 + style.extra_float_digits))
    return _special(value) or _scientific(shortest_float4(value), 6)


def _shortest_float8(value: float) -> str:
    """Python's shortest form, but never one exactly between two floats (1e23), which PostgreSQL does not trust."""
    text = repr(value)
    if abs(value) < 2**53:
        return text
    written = int(Decimal(text))
    if abs(written - int(value)) * 2 != math.ulp(value):
        return text
    return next(
        t for digits in range(15, 18) if float(t := f"{value:.{digits}e}") == value and int(Decimal(t)) != written
    )


def shortest_float4(value: float) -> str:
    """The fewest digits that read back as the same single-precision number, and are not halfway to another."""
    _, exponent = math.frexp(value)
    halfway = math.ldexp(1.0, exponent - 25)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if to_float4(float(text)) == value and abs(float(text) - value) != halfway:
            return text
    return f"{value:.9g}"


def _special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return None


def _printf_g(value: float, digits: int) -> str:
    return f"{value:.{digits}g}"


def _scientific(text: str, limit: int) -> str:
    """The digits laid out as PostgreSQL's shortest-decimal printer does: exponent form outside 1e-4 … 10^limit."""
    sign = "-" if text[0] == "-" else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    if not (whole + fraction).strip("0"):
        return sign + "0"
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if -4 <= power < limit:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        if len(digits) <= power + 1:
            return sign + digits.ljust(power + 1, "0")
        return f"{sign}{digits[: power + 1]}.{digits[power + 1 :]}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'-' if power < 0 else '+'}{abs(power):02d}"
