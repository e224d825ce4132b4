"""The configuration parameters of a PostgreSQL 17 server: names, types, units, ranges, defaults (guc_tables.c).

`data/settings.json` holds one parameter a line, as pg_settings shows it. Values are bool, int, float or str in the base
unit.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from pgrepl.errors import PgError

Value: TypeAlias = bool | int | float | str

LIST_INPUT = frozenset(
    {
        "datestyle", "temp_tablespaces", "createrole_self_grant", "session_preload_libraries",
        "shared_preload_libraries", "local_preload_libraries", "search_path", "log_destination",
        "unix_socket_directories", "listen_addresses", "synchronous_standby_names", "wal_consistency_checking",
        "debug_io_direct", "restrict_nonsystem_relation_kind",
    }
)  # fmt: skip
LIST_QUOTE = frozenset(
    {
        "temp_tablespaces", "session_preload_libraries", "shared_preload_libraries", "local_preload_libraries",
        "search_path", "unix_socket_directories",
    }
)  # fmt: skip
NO_SHOW_ALL = frozenset(
    {"is_superuser", "role", "session_authorization", "seed", "default_with_oids", "ssl_renegotiation_limit"}
)
NO_RESET = frozenset({"transaction_isolation", "transaction_read_only", "transaction_deferrable", "seed"})
NO_RESET_ALL = NO_RESET | {"is_superuser", "role", "session_authorization"}
SUPERUSER_ONLY = frozenset(
    {
        "primary_conninfo", "krb_server_keyfile", "session_preload_libraries", "shared_preload_libraries",
        "log_directory", "log_filename", "unix_socket_directories", "data_directory", "config_file", "hba_file",
        "ident_file", "external_pid_file", "ssl_ciphers", "ssl_ecdh_curve", "ssl_dh_params_file",
        "ssl_passphrase_command", "jit_provider", "ssl_min_protocol_version", "ssl_max_protocol_version",
    }
)  # fmt: skip
_OCTAL = frozenset({"data_directory_mode", "log_file_mode", "unix_socket_permissions"})
_IS_NAME = frozenset({"application_name", "cluster_name"})

_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")
# words an enumeration takes though it does not list them
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
        "recovery_prefetch", "debug_parallel_query", "archive_mode",
    }
)  # fmt: skip

_MEMORY = {"B": 1.0, "kB": 1024.0, "MB": 1024.0**2, "GB": 1024.0**3, "TB": 1024.0**4}
_TIME = {"us": 0.001, "ms": 1.0, "s": 1000.0, "min": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}
_BASE = {"B": 1.0, "kB": 1024.0, "8kB": 8192.0, "MB": 1024.0**2, **_TIME}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; the fields are pg_settings' columns."""

    name: str
    default: Value
    unit: str | None
    category: str
    short_desc: str
    extra_desc: str | None
    context: str  # internal postmaster sighup superuser-backend backend superuser user
    vartype: str  # bool integer real string enum
    minimum: Value | None
    maximum: Value | None
    options: tuple[str, ...] | None
    boot: str | None
    from_file: bool = False  # initdb writes it into postgresql.conf

    @property
    def key(self) -> str:
        return self.name.lower()


@cache
def _lines() -> dict[str, list[Any]]:
    text = files("pgrepl.catalog").joinpath("data/settings.json").read_text(encoding="utf-8")
    return {line[0].lower(): line for line in json.loads(text)}


@cache
def find(name: str) -> Parameter | None:
    """The parameter of that name in any case, or None."""
    line = _lines().get(_ascii_lower(name))
    if line is None:
        return None
    _, default, *_ = line
    number = int if line[7] == "integer" else float
    value: Value = default
    if line[7] == "bool":
        value = default == "on"
    elif line[7] == "integer":
        value = int(default, 8) if line[0] in _OCTAL else int(default)
    elif line[7] == "real":
        value = float(default)
    low, high = (None if bound is None else number(bound) for bound in line[8:10])
    options = None if line[10] is None else tuple(line[10])
    unit, category, short, extra, context, vartype = line[2:8]
    return Parameter(
        line[0], value, unit, category, short, extra, context, vartype, low, high, options, line[11], line[12]
    )


def all_parameters() -> list[Parameter]:
    """Those that SHOW ALL shows, in its order."""
    found = [find(key) for key in sorted(_lines()) if key not in NO_SHOW_ALL]
    return [parameter for parameter in found if parameter is not None]


def _ascii_lower(name: str) -> str:
    return name.lower() if name.isascii() else "".join(c.lower() if c.isascii() else c for c in name)


_CUSTOM = re.compile(
    r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*(\.[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)+\Z"
)


def check_custom_name(name: str) -> None:
    """A name that is no parameter's may still be a custom one, `a.b` (assignable_custom_variable_name)."""
    if "." not in name:
        raise unrecognized(name)
    if not _CUSTOM.match(name):
        raise PgError(
            "42602",
            f'invalid configuration parameter name "{name}"',
            detail="Custom parameter names must be two or more simple identifiers separated by dots.",
        )


def unrecognized(name: str) -> PgError:
    return PgError("42704", f'unrecognized configuration parameter "{name}"')


# --- text to value ------------------------------------------------------------------------------------------------


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


def parse_bool(text: str) -> bool | None:
    """Any unambiguous beginning of true, false, yes, no, on, off; 1 and 0 (parse_bool)."""
    word = _ascii_lower(text)
    if not word:
        return None
    if "true".startswith(word) or "yes".startswith(word) or word in ("on", "1"):
        return True
    if "false".startswith(word) or "no".startswith(word) or (word in ("of", "off", "0")):
        return False
    return None


def _parse_enum(parameter: Parameter, text: str, shown: str) -> str:
    word = _ascii_lower(text)
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


_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|\d+)")
_FLOAT = re.compile(r"[ \t\n\v\f\r]*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE)
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
    matched = None if real else _NUMBER.match(text)
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
        number = -number if matched[1] == "-" else number
    else:
        matched = _FLOAT.match(text)
        if matched is None:
            raise invalid_value(shown, text)
        number = float(matched[0])
        if math.isnan(number):
            raise invalid_value(shown, text)
    rest = text[matched.end() :].strip(" \t\n\v\f\r")
    if rest:
        if parameter.unit is None:
            raise invalid_value(shown, text)
        converted = _to_base(number, rest, parameter.unit)
        if converted is None:
            raise invalid_value(shown, text, hint=_HINTS[_is_memory(parameter.unit)])
        number = converted
    if not real and math.isinf(number):
        raise invalid_value(shown, text, hint="Value exceeds integer range.")
    return number


def _is_memory(unit: str) -> bool:
    return unit.endswith("B")


def _to_base(number: float, unit: str, base: str) -> float | None:
    """Convert, rounding a fraction to the next smaller unit (convert_to_base_unit)."""
    scale = _MEMORY if _is_memory(base) else _TIME
    if unit not in scale:
        return None
    multiplier = scale[unit] / _BASE[base]
    smaller = [s / _BASE[base] for s in scale.values() if s < scale[unit]]
    value = number * multiplier
    if smaller:
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


# --- value to text ------------------------------------------------------------------------------------------------


def show(parameter: Parameter, value: Value) -> str:
    """As SHOW prints it: in the largest unit that divides it (ShowGUCOption)."""
    if parameter.vartype in ("integer", "real") and parameter.unit is not None and isinstance(value, (int, float)):
        if value > 0:
            return _with_unit(value, parameter.unit)
    return raw(parameter, value)


def raw(parameter: Parameter, value: Value) -> str:
    """As pg_settings.setting has it: without unit."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return f"{value:04o}" if parameter.name in _OCTAL else str(value)
    if isinstance(value, float):
        return f"{value:g}"
    return value


def _with_unit(value: float, base: str) -> str:
    scale = _MEMORY if _is_memory(base) else _TIME
    for unit, size in sorted(scale.items(), key=lambda item: -item[1]):
        multiplier = size / _BASE[base]
        quotient = value / multiplier
        if isinstance(value, int):
            if multiplier <= 1.0 or value % int(multiplier) == 0:
                return f"{round(quotient)}{unit}"
        elif abs(quotient - round(quotient)) <= 1e-8 * max(abs(quotient), 1.0) and quotient >= 1:
            return f"{quotient:g}{unit}"
    return f"{value:g}{base}"
