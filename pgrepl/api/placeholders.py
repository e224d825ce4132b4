"""Placeholders of DB-API: `%s` and `%(name)s` become PostgreSQL's `$1`, `$2`, …; values are never put into the text.

    >>> numbered("SELECT %s, 5 %% 3", ["a"])
    ('SELECT $1, 5 % 3', ['a'])
    >>> numbered("SELECT %(a)s || %(a)s", {"a": "b"})
    ('SELECT $1 || $1', ['b'])

A text with `$1` is taken as it is, and its `%` are operators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pgrepl.api.exceptions import ProgrammingError

Parameters: TypeAlias = "Sequence[Any] | Mapping[str, Any]"

_PLACE = re.compile(r"%(?:(%)|\(([^)]*)\)s|(s)|(.?))", re.DOTALL)


def numbered(text: str, given: Parameters) -> tuple[str, list[Any]]:
    """The text with `$n`, and the values in their order."""
    from pgrepl.sql.scanner import parameter_numbers

    if isinstance(given, (str, bytes)) or not isinstance(given, (Mapping, Sequence)):
        raise ProgrammingError(f"parameters must be a sequence or a mapping, not {type(given).__name__}")
    if "$" in text and isinstance(given, Sequence) and _has_numbers(text, parameter_numbers):
        return text, list(given)
    return _converted(text, given)


def _has_numbers(text: str, parameter_numbers: Any) -> bool:
    from pgrepl.errors import PgError

    try:
        return bool(parameter_numbers(text))
    except PgError:
        return False  # the parser reports the error


def _converted(text: str, given: Parameters) -> tuple[str, list[Any]]:
    values: list[Any] = []
    names: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        percent, name, positional, other = found.groups()
        if percent:
            return "%"
        if name is not None:
            if not isinstance(given, Mapping):
                raise ProgrammingError(f"the placeholder %({name})s needs a mapping of parameters")
            if name not in names:
                if name not in given:
                    raise ProgrammingError(f'there is no parameter "{name}"')
                values.append(given[name])
                names[name] = len(values)
            return f"${names[name]}"
        if positional:
            if isinstance(given, Mapping):
                raise ProgrammingError("the placeholder %s needs a sequence of parameters; name it: %(name)s")
            if len(values) < len(given):
                values.append(given[len(values)])
            else:
                values.append(None)
                missing.append(len(values))
            return f"${len(values)}"
        raise ProgrammingError(f'a "%" in a query with parameters is a placeholder, or doubled: %%; not "%{other}"')

    missing: list[int] = []
    made = _PLACE.sub(place, text)
    if missing or (not isinstance(given, Mapping) and len(values) != len(given)):
        raise ProgrammingError(f"the query has {len(values)} placeholders but {len(given)} parameters were given")
    return made, values
