"""The shell's variables. Special ones have rules for their values, and change the shell.

The rules are psql's: unsetting a special variable gives it its default, and a bad value is an error that keeps the old.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from pgrepl.ground.frozen import frozen
from pgrepl.types.input_checks import LETTER_OR_DIGIT

_NAME = re.compile(LETTER_OR_DIGIT + "+")
_INTEGER = re.compile(r"[ \t\n\r\f\v]*([+-]?)(0[xX][0-9A-Fa-f]+|[0-9]+)")

Report = Callable[[str], None]


def parse_bool(value: str) -> bool | None:
    """The value of true, false, yes, no, on, off, 1, 0 or a prefix of them (ParseVariableBool); None: it is none."""
    lower = value.lower() if value.isascii() else value
    if lower and ("true".startswith(lower) or "yes".startswith(lower)):
        return True
    if lower and ("false".startswith(lower) or "no".startswith(lower)):
        return False
    if lower == "on" or lower == "1":
        return True
    if lower in ("of", "off", "0"):
        return False
    return None


def parse_integer(value: str) -> int | None:
    """The number that C's strtol reads in base 0, if it fits into an int (ParseVariableNum)."""
    match = _INTEGER.fullmatch(value)
    if match is None:
        return None
    digits = match[2]
    octal = digits.startswith("0") and digits.isdigit() and len(digits) > 1
    if octal and ("8" in digits or "9" in digits):
        return None
    number = int(digits, 8 if octal else 16 if digits[:2] in ("0x", "0X") else 10)
    number = -number if match[1] == "-" else number
    return number if -(2**31) <= number < 2**31 else None


@frozen
class VariableRule:
    """The rule of a special variable. `default` is its value when unset; `check` gives the error of a bad value."""

    default: str | None
    check: Callable[[str], str | None]
    empty: str | None = None  # the value of `\\set NAME`; None: the empty text
    substitute: Callable[[str], str] = str


def _bool_rule(name: str) -> VariableRule:
    def check(value: str) -> str | None:
        if parse_bool(value) is None:
            return f'unrecognized value "{value}" for "{name}": Boolean expected'
        return None

    return VariableRule("off", check, "on")


def _integer_rule(name: str, default: str) -> VariableRule:
    def check(value: str) -> str | None:
        if parse_integer(value) is None:
            return f'invalid value "{value}" for "{name}": integer expected'
        return None

    return VariableRule(default, check)


def enum_error(name: str, value: str, suggestions: str) -> str:
    return f'unrecognized value "{value}" for "{name}"\nAvailable values are: {suggestions}.'


def _enum_rule(name: str, default: str, suggestions: str) -> VariableRule:
    allowed = frozenset(suggestions.split(", "))

    def check(value: str) -> str | None:
        return None if value.lower() in allowed else enum_error(name, value, suggestions)

    return VariableRule(default, check)


def _bool_or(name: str, word: str) -> VariableRule:
    def check(value: str) -> str | None:
        if value.lower() == word or parse_bool(value) is not None:
            return None
        return enum_error(name, value, f"on, off, {word}")

    return VariableRule("off", check, "on")


def _any(value: str) -> str | None:
    return None


def _eof_count(value: str) -> str:
    return value if parse_integer(value) is not None else "10"


RULES: dict[str, VariableRule] = {
    "AUTOAPPLY": _bool_rule("AUTOAPPLY"),
    "AUTOCOMMIT": _bool_rule("AUTOCOMMIT"),
    "COMPLETION": _enum_rule("COMPLETION", "readline", "readline, popup"),
    "COMP_KEYWORD_CASE": _enum_rule(
        "COMP_KEYWORD_CASE", "preserve-upper", "lower, upper, preserve-lower, preserve-upper"
    ),
    "ECHO": _enum_rule("ECHO", "none", "none, errors, queries, all"),
    "ECHO_HIDDEN": _bool_or("ECHO_HIDDEN", "noexec"),
    "FETCH_COUNT": _integer_rule("FETCH_COUNT", "0"),
    "HIDE_TABLEAM": _bool_rule("HIDE_TABLEAM"),
    "HIDE_TOAST_COMPRESSION": _bool_rule("HIDE_TOAST_COMPRESSION"),
    "HISTCONTROL": _enum_rule("HISTCONTROL", "none", "none, ignorespace, ignoredups, ignoreboth"),
    "HISTFILE": VariableRule(None, _any),
    "HISTSIZE": _integer_rule("HISTSIZE", "500"),
    "IGNOREEOF": VariableRule("0", _any, substitute=_eof_count),
    "ON_ERROR_ROLLBACK": _bool_or("ON_ERROR_ROLLBACK", "interactive"),
    "ON_ERROR_STOP": _bool_rule("ON_ERROR_STOP"),
    "ON_STALE": _enum_rule("ON_STALE", "warning", "error, warning, off"),
    "PROMPT1": VariableRule(None, _any),
    "PROMPT2": VariableRule(None, _any),
    "PROMPT3": VariableRule(None, _any),
    "QUIET": _bool_rule("QUIET"),
    "SHOW_ALL_RESULTS": _bool_rule("SHOW_ALL_RESULTS"),
    "SHOW_CONTEXT": _enum_rule("SHOW_CONTEXT", "errors", "never, errors, always"),
    "SINGLELINE": _bool_rule("SINGLELINE"),
    "SINGLESTEP": _bool_rule("SINGLESTEP"),
    "VERBOSITY": _enum_rule("VERBOSITY", "default", "default, verbose, terse, sqlstate"),
}


class Variables:
    """Names and values; `report` gets the error about a bad value."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._values: dict[str, str] = {name: rule.default for name, rule in RULES.items() if rule.default is not None}

    def get(self, name: str) -> str | None:
        return self._values.get(name)

    def set(self, name: str, value: str | None) -> bool:
        """Set, or with None unset. False, after an error message: the value is bad."""
        if not _NAME.fullmatch(name):
            # unsetting a variable that cannot exist is no error
            if value is not None:
                self._report(f'invalid variable name: "{name}"')
            return value is None
        rule = RULES.get(name)
        if rule is not None:
            if value is None:
                value = rule.default
            else:
                value = rule.empty if rule.empty is not None and not value else rule.substitute(value)
            problem = None if value is None else rule.check(value)
            if problem is not None:
                self._report(problem)
                return False
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = value
        return True

    def special(self, name: str) -> bool:
        return name in RULES

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Names and values in the order of strcmp: by UTF-8 bytes."""
        return iter(sorted(self._values.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape")))

    # --- values of special variables ---------------------------------------------------------------------------------

    def on(self, name: str) -> bool:
        return bool(parse_bool(self._values[name]))

    def word(self, name: str) -> str:
        return self._values[name].lower()

    def number(self, name: str) -> int:
        return parse_integer(self._values[name]) or 0
