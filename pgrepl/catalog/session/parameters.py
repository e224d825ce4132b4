"""The settings: names, types, units, ranges and defaults as PostgreSQL 17 has them, and the parsing of their values
(guc.c).

`data/settings.json` has one a line. One without a description is accepted without effect, so that scripts run.
Settings that control what only PostgreSQL's server has are unknown. Some values are lists: of identifiers
(`"$user", public`), or synchronous_standby_names (syncrep_gram.y):

    s1, s2                    one of them, the first that is there
    FIRST 2 (s1, s2, s3)      two of them, by their order; FIRST may be left out
    ANY 2 (s1, s2, s3)        any two of them
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql.keywords import fold, truncate
from pgrepl.types.input_checks import LETTER, NAME_PART
from pgrepl.types.numbers import parse_bool

Value: TypeAlias = bool | int | float | str

LIST_INPUT = frozenset(
    {
        "datestyle", "temp_tablespaces", "createrole_self_grant", "session_preload_libraries",
        "local_preload_libraries", "search_path", "log_destination", "wal_consistency_checking",
        "restrict_nonsystem_relation_kind", "synchronized_standby_slots", "synchronous_standby_names",
    }
)  # fmt: skip
LIST_QUOTE = frozenset({"temp_tablespaces", "session_preload_libraries", "local_preload_libraries", "search_path"})
NO_SHOW_ALL = frozenset(
    {
        "is_superuser", "role", "session_authorization", "seed", "default_with_oids", "ssl_renegotiation_limit",
        "effective_wal_level",  # of 19
    }
)  # fmt: skip
NO_RESET = frozenset({"transaction_isolation", "transaction_read_only", "transaction_deferrable", "seed"})
NO_RESET_ALL = NO_RESET | {"is_superuser", "role", "session_authorization"}
SUPERUSER_ONLY = frozenset(
    {"primary_conninfo", "session_preload_libraries", "data_directory", "config_file", "hba_file", "ident_file"}
)
_OCTAL = frozenset({"data_directory_mode", "unix_socket_permissions"})
NO_EFFECT = "Accepted for scripts made for PostgreSQL; changes nothing here."

MEMORY = {"B": 1.0, "kB": 1024.0, "MB": 1024.0**2, "GB": 1024.0**3, "TB": 1024.0**4}
TIME = {"us": 0.001, "ms": 1.0, "s": 1000.0, "min": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}
BASE = {"B": 1.0, "kB": 1024.0, "8kB": 8192.0, "MB": 1024.0**2, **TIME}


@frozen
class Parameter:
    """One parameter; the fields are pg_settings' columns."""

    name: str
    default: Value
    unit: str | None
    category: str
    short_desc: str
    context: str  # internal postmaster sighup superuser-backend backend superuser user
    vartype: str  # bool integer real string enum
    minimum: Value | None
    maximum: Value | None
    options: tuple[str, ...] | None
    boot: str | None

    @property
    def key(self) -> str:
        return self.name.lower()


@cache
def _lines() -> dict[str, list[Any]]:
    text = Path(__file__).with_name("data").joinpath("settings.json").read_text(encoding="utf-8")
    return {line[0].lower(): line for line in json.loads(text)}


@cache
def find(name: str) -> Parameter | None:
    """The parameter of that name, in upper or lower case, or None."""
    line = _lines().get(ascii_lower(name))
    if line is None:
        return None
    shown_name, default, unit, category, description, context, vartype, low, high, options, boot = line
    number = int if vartype == "integer" else float
    value: Value = default
    if vartype == "bool":
        value = default == "on"
    elif vartype in ("integer", "real"):
        value = number(default)
    low, high = (None if bound is None else number(bound) for bound in (low, high))
    options = None if options is None else tuple(options)
    text = NO_EFFECT if description is None else description
    return Parameter(shown_name, value, unit, category, text, context, vartype, low, high, options, boot)


def all_parameters() -> list[Parameter]:
    """The parameters that SHOW ALL shows, in its order."""
    listed = [find(key) for key in sorted(_lines()) if key not in NO_SHOW_ALL]
    return [parameter for parameter in listed if parameter is not None]


def ascii_lower(name: str) -> str:
    return name.lower() if name.isascii() else "".join(c.lower() if c.isascii() else c for c in name)


def unrecognized(name: str) -> PgError:
    return PgError("42704", f'unrecognized configuration parameter "{name}"')


# --- value to text ------------------------------------------------------------------------------------------------


def show(parameter: Parameter, value: Value) -> str:
    """The value as SHOW prints it, in the largest unit that divides it (ShowGUCOption)."""
    if parameter.vartype in ("integer", "real") and parameter.unit is not None and isinstance(value, (int, float)):
        if value > 0:
            return _with_unit(value, parameter.unit)
    return setting(parameter, value)


def setting(parameter: Parameter, value: Value) -> str:
    """The value as pg_settings.setting has it, without unit."""
    return f"{value:04o}" if parameter.key in _OCTAL and isinstance(value, int) else raw(parameter, value)


def raw(parameter: Parameter, value: Value) -> str:
    """The value as pg_settings has the one that RESET sets, and the limits."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:g}"
    return value


def is_memory(unit: str) -> bool:
    return unit.endswith("B")


def _with_unit(value: float, base: str) -> str:
    scale = MEMORY if is_memory(base) else TIME
    for unit, size in sorted(scale.items(), key=lambda item: -item[1]):
        multiplier = size / BASE[base]
        quotient = value / multiplier
        if isinstance(value, int):
            if multiplier <= 1.0 or value % int(multiplier) == 0:
                return f"{round(quotient)}{unit}"
        elif abs(quotient - round(quotient)) <= 1e-8 * max(abs(quotient), 1.0) and quotient >= 1:
            return f"{quotient:g}{unit}"
    smallest = min(scale, key=scale.__getitem__)
    return f"{value / (scale[smallest] / BASE[base]):g}{smallest}"


# --- parameter values -------------------------------------------------------------------------------------------------


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


_SPACE = " \t\n\r\f\v"


def split_identifiers(text: str, separator: str = ",") -> list[str] | None:
    """The names of a list, unquoted ones in lower case; None if the list is not well formed."""
    names = _split(text, separator)
    return None if names is None else [*names]


@lru_cache(1024)
def _split(text: str, separator: str) -> list[str] | None:
    names: list[str] = []
    position = _skip(text, 0)
    if position == len(text):
        return names
    while True:
        if position < len(text) and text[position] == '"':
            name, position = _quoted(text, position + 1)
            if name is None:
                return None
        else:
            start = position
            while position < len(text) and text[position] not in _SPACE and text[position] != separator:
                position += 1
            if position == start:
                return None
            name = fold(text[start:position])
        names.append(truncate(name))
        position = _skip(text, position)
        if position == len(text):
            return names
        if text[position] != separator:
            return None
        position = _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position


def _quoted(text: str, position: int) -> tuple[str | None, int]:
    out = ""
    while True:
        end = text.find('"', position)
        if end < 0:
            return None, position
        out += text[position:end]
        position = end + 1
        if position < len(text) and text[position] == '"':
            out += '"'
            position += 1
            continue
        return out, position


_SLOT_NAME_LENGTH = 64
_OF_SLOT_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")


def check_slot_name(name: str) -> None:
    """Raises if a text cannot be the name of a slot (ReplicationSlotValidateName)."""
    if not name:
        raise PgError("42602", f'replication slot name "{name}" is too short')
    if len(name.encode()) >= _SLOT_NAME_LENGTH:
        raise PgError("42622", f'replication slot name "{name}" is too long')
    if not _OF_SLOT_NAMES.issuperset(name):
        raise PgError(
            "42602",
            f'replication slot name "{name}" contains invalid character',
            hint="Replication slot names may only contain lower case letters, numbers, and the underscore character.",
        )


# --- synchronous standbys ---------------------------------------------------------------------------------------------


_TOKEN = re.compile(
    r"""(?P<space>[ \t\n\r\f\v]+) | (?P<word>[A-Za-z\x80-\U0010ffff_][A-Za-z0-9\x80-\U0010ffff_$]*) | (?P<number>[0-9]+)
    | "(?P<quoted>[^"]*(?:""[^"]*)*)" | (?P<open>") | (?P<name>\*) | (?P<mark>[,()]) | (?P<junk>.)""",
    re.VERBOSE | re.ASCII,
)


class _Token(NamedTuple):
    kind: str
    text: str  # what an error shows of it
    name: str = ""


@frozen
class Standbys:
    """The standbys that commits wait for (SyncRepConfigData)."""

    is_quorum: bool
    count: int  # of those that must have a commit
    names: tuple[str, ...]

    def priority(self, name: str) -> int:
        """1 for the first; of ANY all have 1. 0: the standby is none of them (SyncRepGetStandbyPriority)."""
        for number, standby in enumerate(self.names, 1):
            if standby == "*" or _lower(standby) == _lower(name):
                return 1 if self.is_quorum else number
        return 0


def _lower(text: str) -> str:
    """In lower case as pg_strcasecmp compares: letters of ASCII."""
    return text.encode().lower().decode()


def parse_standbys(text: str) -> Standbys | None:
    """The standbys that the text names, None if it is empty; an error with PostgreSQL's SQLSTATE and DETAIL."""
    if not text:
        return None
    parser = _Parser(text)
    method = parser.take("first", "any")
    if method is not None or parser.begins_count():
        count = _whole_number(parser.expect("number"))
        parser.expect("(")
        names = parser.names()
        parser.expect(")")
    else:
        count = 1
        names = parser.names()
    parser.expect("end")
    if count <= 0:
        raise PgError("22023", f"number of synchronous standbys ({count}) must be greater than zero")
    return Standbys((method or "").lower() == "any", count, tuple(names))


def _whole_number(text: str) -> int:
    """As C's atoi, which keeps the last 32 bits of the largest long."""
    number = min(int(text), (1 << 63) - 1) & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    def begins_count(self) -> bool:
        """Is the number that comes the one of standbys, and not the name of one?"""
        kinds = [token.kind for token in self._tokens[self._at : self._at + 2]]
        return kinds == ["number", "("]

    def take(self, *kinds: str) -> str | None:
        token = self._tokens[self._at]
        if token.kind not in kinds:
            return None
        self._at += 1
        return token.text

    def expect(self, *kinds: str) -> str:
        taken = self.take(*kinds)
        if taken is None:
            kind, text, _ = self._tokens[self._at]
            what = "unterminated quoted identifier" if kind == "unterminated" else "syntax error"
            raise PgError("42601", "", detail=f"{what} " + (f'at or near "{text}"' if text else "at end of input"))
        return taken

    def names(self) -> list[str]:
        names = [self._name()]
        while self.take(",") is not None:
            names.append(self._name())
        return names

    def _name(self) -> str:
        self.expect("name", "number")
        return self._tokens[self._at - 1].name


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind, shown = str(match.lastgroup), match.group()
        if kind == "word":
            yield _Token(shown.lower() if shown.lower() in ("first", "any") else "name", shown, shown)
        elif kind == "quoted":
            yield _Token("name", '"', match["quoted"].replace('""', '"'))
        elif kind == "open":
            yield _Token("unterminated", "")
            return
        elif kind == "mark":
            yield _Token(shown, shown)
        elif kind != "space":
            yield _Token(kind, shown, shown)
    yield _Token("end", "")
