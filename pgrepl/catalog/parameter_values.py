"""Parsing of a setting's text: booleans, enumerations, numbers with units and ranges (guc.c)."""

from __future__ import annotations

import math
import re

from pgrepl.catalog.parameters import BASE, MEMORY, TIME, Parameter, Value, ascii_lower, is_memory, unrecognized
from pgrepl.errors import PgError
from pgrepl.types.letters import LETTER, NAME_PART
from pgrepl.types.numbers import parse_bool

_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")
# hidden values of enumerations, and what they stand for
_ENUM_ALIASES: dict[str, dict[str, str]] = {
    "client_min_messages": {"debug": "debug2", "info": "info"},
    "log_min_messages": {"debug": "debug2"},
    "log_min_error_statement": {"debug": "debug2"},
    "wal_compression": {**dict.fromkeys(_ON, "pglz"), **dict.fromkeys(_OFF[1:], "off")},
    "wal_level": {"archive": "replica", "hot_standby": "replica"},
}
_ENUMS_WITH_BOOLEANS = frozenset(
    {
        "backslash_quote", "compute_query_id", "constraint_exclusion", "synchronous_commit", "huge_pages",
        "debug_parallel_query",
    }
)  # fmt: skip

_SIMPLE = LETTER + NAME_PART + "*"


_RESERVED = "pgrepl"  # as an extension reserves its own (MarkGUCPrefixReserved)


def check_custom_name(name: str) -> None:
    """An error unless the name is a custom parameter's, `a.b` (assignable_custom_variable_name)."""
    if "." not in name:
        raise unrecognized(name)
    if not re.match(rf"{_SIMPLE}(\.{_SIMPLE})+\Z", name):
        raise PgError(
            "42602",
            f'invalid configuration parameter name "{name}"',
            detail="Custom parameter names must be two or more simple identifiers separated by dots.",
        )
    if name.lower().startswith(f"{_RESERVED}."):
        raise PgError(
            "42602", f'invalid configuration parameter name "{name}"', detail=f'"{_RESERVED}" is a reserved prefix.'
        )


def parse(parameter: Parameter, text: str, name: str | None = None) -> Value:
    """A value from its text, checked against type, range and list (parse_and_validate_value)."""
    shown = parameter.name if name is None else name
    if parameter.vartype == "bool":
        flag = parse_bool(text)
        if flag is None:
            raise PgError("22023", f'parameter "{shown}" requires a Boolean value')
        return flag
    if parameter.vartype == "enum":
        return _parse_enum(parameter, text, shown)
    if parameter.vartype == "integer":
        return _in_range(parameter, _parse_integer(parameter, text, shown), shown)
    if parameter.vartype == "real":
        return _in_range(parameter, _parse_number(parameter, text, shown, real=True), shown)
    return text


def invalid_value(
    name: str, text: str, *, detail: str | None = None, hint: str | None = None, sqlstate: str = "22023"
) -> PgError:
    return PgError(sqlstate, f'invalid value for parameter "{name}": "{text}"', detail=detail, hint=hint)


def _parse_enum(parameter: Parameter, text: str, shown: str) -> str:
    word = ascii_lower(text)
    options = parameter.options or ()
    alias = _ENUM_ALIASES.get(parameter.key, {}).get(word)
    if alias is not None:
        return alias
    for option in options:
        if option.lower() == word:
            return option
    if parameter.key in _ENUMS_WITH_BOOLEANS and word in _ON + _OFF:
        return "on" if word in _ON else "off"
    raise invalid_value(shown, text, hint=f"Available values: {', '.join(options)}.")


_NUMBER = r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|[0-9]+)"
_FLOAT = r"[ \t\n\v\f\r]*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?P<word>inf(?:inity)?|nan))"
_HINTS = {
    True: 'Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".',
    False: 'Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".',
}


def _parse_integer(parameter: Parameter, text: str, shown: str) -> int:
    number = round(_parse_number(parameter, text, shown, real=False))
    if not -(2**31) <= number < 2**31:
        raise invalid_value(shown, text, hint="Value exceeds integer range.")
    return number


def _parse_number(parameter: Parameter, text: str, shown: str, *, real: bool) -> float:
    number: float
    matched = None if real else re.match(_NUMBER, text)
    if matched is not None and text[matched.end() : matched.end() + 1] not in (".", "e", "E"):
        digits = matched[2]
        if digits[:2] in ("0x", "0X"):
            number = int(digits, 16)
        elif digits.startswith("0") and len(digits) > 1:
            octal = re.match(r"[0-7]*", digits)
            assert octal is not None
            if octal.end() < len(digits):
                raise invalid_value(shown, text)
            number = int(digits, 8)
        else:
            number = int(digits)
        if number.bit_length() > 63:  # strtol gives up and strtod takes over
            try:
                number = float(number)
            except OverflowError:
                raise invalid_value(shown, text) from None
        number = -number if matched[1] == "-" else number
    else:
        matched = re.match(_FLOAT, text, re.IGNORECASE)
        if matched is None:
            raise invalid_value(shown, text)
        number = float(matched[0])
        if math.isnan(number) or (math.isinf(number) and not (real and matched["word"])):
            raise invalid_value(shown, text)
    rest = text[matched.end() :].strip(" \t\n\v\f\r")
    if rest:
        if parameter.unit is None:
            raise invalid_value(shown, text)
        converted = _to_base(number, rest, parameter.unit)
        if converted is None:
            raise invalid_value(shown, text, hint=_HINTS[is_memory(parameter.unit)])
        number = converted
    if not real and math.isinf(number):
        raise invalid_value(shown, text, hint="Value exceeds integer range.")
    return number


def _to_base(number: float, unit: str, base: str) -> float | None:
    """Convert, rounding a fraction to the next smaller unit (convert_to_base_unit)."""
    scale = MEMORY if is_memory(base) else TIME
    if unit not in scale:
        return None
    multiplier = scale[unit] / BASE[base]
    smaller = [s / BASE[base] for s in scale.values() if s < scale[unit]]
    value = number * multiplier
    if smaller and math.isfinite(value):
        value = round(value / max(smaller)) * max(smaller)
    return value


def _in_range(parameter: Parameter, number: float, shown: str) -> Value:
    low, high = parameter.minimum, parameter.maximum
    assert isinstance(low, (int, float)) and isinstance(high, (int, float))
    if low <= number <= high:
        return number
    unit = f" {parameter.unit}" if parameter.unit else ""
    written = [f"{n:g}" if parameter.vartype == "real" else str(n) for n in (number, low, high)]
    raise PgError(
        "22023",
        f'{written[0]}{unit} is outside the valid range for parameter "{shown}"'
        f" ({written[1]}{unit} .. {written[2]}{unit})",
    )
