"""Python values as parameters: a type of PostgreSQL's and the value's text.

    >>> dumped(5), dumped("x"), dumped(None), dumped([1, None])
    ((23, '5'), (705, 'x'), (705, None), (1007, '{1,NULL}'))

A str has no type yet, like a string literal, so that it can become whatever the statement needs there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pgrepl.api.exceptions import ProgrammingError, exception_of
from pgrepl.types import oids
from pgrepl.types.builtin import array_type
from pgrepl.types.encoding import not_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Parameter

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
    found: set[int] = set()
    text = _array_text(values, found)
    if not found or oids.UNKNOWN in found:
        return oids.UNKNOWN, text
    kinds = [kind for kind in _NUMBERS if kind in found]
    element = kinds[-1] if len(kinds) == len(found) else found.pop() if len(found) == 1 else oids.UNKNOWN
    return array_type(element) or oids.UNKNOWN, text


def _array_text(values: Sequence[Any], found: set[int]) -> str:
    words = []
    for value in values:
        if isinstance(value, (list, tuple)):
            words.append(_array_text(value, found))
            continue
        typoid, text = dumped(value)
        if text is None:
            words.append("NULL")
            continue
        found.add(typoid)
        plain = typoid in _NUMBERS or typoid == oids.BOOL
        words.append(text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
    return "{" + ",".join(words) + "}"
