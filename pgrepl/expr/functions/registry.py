"""Where the families of functions register what they compute, by pg_proc.prosrc.

    @implements("int4pl", "int24pl", "int42pl")
    def int4pl(a: int, b: int) -> int: …

An implementation gets the values of its arguments; a strict one is never called with NULL (None). With `context=True`
it gets the `Call` first: session, style, types of the arguments. A set-returning one gives an iterable; where a row
has several columns, of tuples. Functions that PostgreSQL writes in SQL have no prosrc of their own; they are keyed by
their signature, `lpad(text,integer)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from pgrepl.errors import PgError
from pgrepl.types.builtin import SQL, Proc
from pgrepl.types.names import format_type

F = TypeVar("F", bound=Callable[..., Any])


class Implementation(NamedTuple):
    function: Callable[..., Any]
    wants_call: bool


_IMPLEMENTATIONS: dict[str, Implementation] = {}


def implements(*sources: str, context: bool = False) -> Callable[[F], F]:
    def register(function: F) -> F:
        for source in sources:
            _IMPLEMENTATIONS[source] = Implementation(function, context)
        return function

    return register


def registered(source: str) -> Implementation | None:
    """Of the families that have been imported."""
    return _IMPLEMENTATIONS.get(source)


def source_of(proc: Proc) -> str:
    """What a function is registered by."""
    if proc.lang == SQL:
        return f"{proc.name}({','.join(map(format_type, proc.argtypes))})"
    return proc.src


def missing(proc: Proc) -> PgError:
    """The error that pgrepl does not have a function."""
    arguments = ", ".join(map(format_type, proc.argtypes))
    return PgError("0A000", f"function {proc.name}({arguments}) is not supported")
