"""Python values as parameters, and DB-API's placeholders as PostgreSQL's.

    >>> dumped(5), dumped("x"), dumped(None), dumped([1, None])
    ((23, '5'), (705, 'x'), (705, None), (1007, '{1,NULL}'))
    >>> numbered("SELECT %(a)s || %(a)s, 5 %% 3", {"a": "b"})
    ('SELECT $1 || $1, 5 % 3', ['b'])

A str has no type yet, like a string literal. Values are never put into the text. A text with `$1` is taken as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from pgrepl.api.exceptions import ProgrammingError, exception_of
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import InsertStmt
from pgrepl.sql.parser import parse
from pgrepl.sql.scanner import parameter_numbers, scan
from pgrepl.types import oids
from pgrepl.types.builtin import array_type
from pgrepl.types.input_checks import not_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Parameter

_ADDRESSES = (IPv4Address, IPv6Address, IPv4Interface, IPv6Interface, IPv4Network, IPv6Network)
_NUMBERS = (oids.INT4, oids.INT8, oids.NUMERIC, oids.FLOAT8)  # each may hold those before it


def dumped(value: Any) -> Parameter:
    if value is None:
        return oids.UNKNOWN, None
    if isinstance(value, Enum) and not isinstance(value, (int, str)):
        return dumped(value.value)
    if isinstance(value, bool):
        return oids.BOOL, "t" if value else "f"
    if isinstance(value, int):
        return _whole(int(value))
    if isinstance(value, str):
        return oids.UNKNOWN, _text(str(value.value) if isinstance(value, Enum) else str(value))
    if isinstance(value, float):
        return oids.FLOAT8, repr(float(value))
    if isinstance(value, Decimal):
        return oids.NUMERIC, str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return oids.BYTEA, "\\x" + bytes(value).hex()
    if isinstance(value, UUID):
        return oids.UUID, str(value)
    if isinstance(value, (date, time, timedelta)):
        return _moment(value)
    if isinstance(value, dict):
        return oids.UNKNOWN, json.dumps(value)
    if isinstance(value, _ADDRESSES):
        return oids.UNKNOWN, str(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return _array(list(value))
    item = getattr(value, "item", None)  # a scalar of numpy's
    if callable(item) and getattr(value, "ndim", None) == 0:
        return dumped(item())
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        return dumped(tolist())
    raise ProgrammingError(f"cannot pass a {type(value).__name__} as a parameter; pass it as str, or as a list")


def _text(text: str) -> str:
    problem = not_text(text)
    if problem is not None:
        raise exception_of(problem)
    return text


def _whole(value: int) -> Parameter:
    """As a literal: a number is of the narrowest of integer, bigint and numeric."""
    for typoid, bits in ((oids.INT4, 31), (oids.INT8, 63)):
        if -(2**bits) <= value < 2**bits:
            return typoid, str(value)
    return oids.NUMERIC, str(value)


def _moment(value: date | time | timedelta) -> Parameter:
    if value != value:  # pandas' NaT is a datetime
        return oids.UNKNOWN, None
    if isinstance(value, datetime):
        return oids.TIMESTAMP if value.tzinfo is None else oids.TIMESTAMPTZ, _years(value.isoformat(" "))
    if isinstance(value, date):
        return oids.DATE, value.isoformat()
    if isinstance(value, time):
        return oids.TIME if value.tzinfo is None else oids.TIMETZ, value.isoformat()
    text = f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
    return oids.INTERVAL, text


def _years(text: str) -> str:
    return text[:26] + text[29:] if len(text) > 29 and text[26:29].isdigit() else text  # pandas has nanoseconds


def _array(values: Sequence[Any]) -> Parameter:
    """A list as an array. Numbers get the widest type among them; texts have no type yet, nor has the array."""
    typoids: set[int] = set()
    text = _array_text(values, typoids)
    if not typoids or oids.UNKNOWN in typoids:
        return oids.UNKNOWN, text
    kinds = [kind for kind in _NUMBERS if kind in typoids]
    element = kinds[-1] if len(kinds) == len(typoids) else typoids.pop() if len(typoids) == 1 else oids.UNKNOWN
    return array_type(element) or oids.UNKNOWN, text


def _array_text(values: Sequence[Any], typoids: set[int]) -> str:
    words = []
    for value in values:
        if isinstance(value, (list, tuple)):
            words.append(_array_text(value, typoids))
            continue
        typoid, text = dumped(value)
        if text is None:
            words.append("NULL")
            continue
        typoids.add(typoid)
        plain = typoid in _NUMBERS or typoid == oids.BOOL
        words.append(text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
    return "{" + ",".join(words) + "}"


# --- placeholders -----------------------------------------------------------------------------------------------------


Parameters: TypeAlias = "Sequence[Any] | Mapping[str, Any]"

_PLACE = re.compile(r"%(?:(%)|\(([^)]*)\)s|(s)|(.?))", re.DOTALL)


def numbered(text: str, given: Parameters) -> tuple[str, list[Any]]:
    """The text with `$n`, and the values in their order."""
    if isinstance(given, (str, bytes)) or not isinstance(given, (Mapping, Sequence)):
        raise ProgrammingError(f"parameters must be a sequence or a mapping, not {type(given).__name__}")
    if "$" in text and isinstance(given, Sequence) and _has_numbers(text, parameter_numbers):
        return text, list(given)
    return _converted(text, given)


def _has_numbers(text: str, parameter_numbers: Any) -> bool:
    try:
        return bool(parameter_numbers(text))
    except PgError:
        return False  # the parser reports the error


def _converted(text: str, given: Parameters) -> tuple[str, list[Any]]:
    values: list[Any] = []
    names: dict[str, int] = {}

    def place(match: re.Match[str]) -> str:
        percent, name, positional, other = match.groups()
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
    query = _PLACE.sub(place, text)
    if missing or (not isinstance(given, Mapping) and len(values) != len(given)):
        raise ProgrammingError(f"the query has {len(values)} placeholders but {len(given)} parameters were given")
    return query, values


# --- batches ----------------------------------------------------------------------------------------------------------


_ROWS = 1000  # of one INSERT
_INSERT = re.compile(r"\s*insert\b", re.IGNORECASE)


def batches(query: str, sets: Iterable[Parameters]) -> Iterator[tuple[str, list[Parameter]]]:
    """Statements with their values. Each is its own statement, so that what is inserted before an error stays or goes
    with the transaction."""
    rows = iter(sets)
    first = next(rows, None)
    if first is None:
        return
    text, given = numbered(query, first)
    values = row_of_values(text) if _INSERT.match(text) else None
    if values is None:
        yield text, _dumped(given)
        for parameters in rows:
            text, given = numbered(query, parameters)
            yield text, _dumped(given)
        return
    begin, end, spans = values
    sets_of = _numbered_rows(query, given, rows)
    while portion := list(islice(sets_of, _ROWS)):
        width = len(portion[0])
        repeated = ", ".join(_shifted(text, begin, end, spans, width * n) for n in range(len(portion)))
        yield text[:begin] + repeated + text[end:], [value for row in portion for value in row]


def _numbered_rows(query: str, first: list[Any], rest: Iterable[Parameters]) -> Iterator[list[Parameter]]:
    yield _dumped(first)
    for parameters in rest:
        yield _dumped(numbered(query, parameters)[1])


def _dumped(values: Sequence[Any]) -> list[Parameter]:
    return [dumped(value) for value in values]


ParameterSpan = tuple[int, int, int]  # a parameter's number, and where it begins and ends


def row_of_values(text: str) -> tuple[int, int, list[ParameterSpan]] | None:
    """The begin and the end of the one row of `INSERT … VALUES (…)`, and its parameters; None for any other statement,
    or if a parameter stands elsewhere."""
    try:
        statements = parse(text)
        tokens = list(takewhile(lambda token: token[0] != "$END", scan(text)))
    except PgError:
        return None  # running it reports the error
    stmt = statements[0].stmt if len(statements) == 1 else None
    if not isinstance(stmt, InsertStmt) or stmt.select is None or stmt.returning or stmt.with_ is not None:
        return None
    if stmt.select.values is None or len(stmt.select.values) != 1 or stmt.on_conflict is not None:
        return None
    at = next((n for n, token in enumerate(tokens) if token[0] == "VALUES"), None)
    if at is None:
        return None
    depth, begin = 0, tokens[at + 1][2]
    for n, (kind, _, _, stop) in enumerate(tokens[at + 1 :], at + 1):
        depth += {"LPAR": 1, "RPAR": -1}.get(kind, 0)
        if depth == 0:
            inside = [(int(t[1]), t[2], t[3]) for t in tokens[at + 1 : n] if t[0] == "PARAM"]
            outside = [t for t in (*tokens[:at], *tokens[n:]) if t[0] == "PARAM"]
            return None if outside else (begin, stop, inside)
    return None


def _shifted(text: str, begin: int, end: int, spans: Sequence[ParameterSpan], by: int) -> str:
    """The row with parameters of higher numbers."""
    out, at = "", begin
    for number, start, stop in spans:
        out += f"{text[at:start]}${number + by}"
        at = stop
    return out + text[at:end]
