"""The register of functions: a module's `Family` maps pg_proc.prosrc to implementations.

    implements = Family()

    @implements("int4pl", "int24pl", "int42pl")
    def int4pl(a: int, b: int) -> int: …

An implementation gets the values of its arguments; a strict one is never called with NULL (None). With `context=True`
it gets the `Call` first: session, style, types of the arguments. A set-returning one returns an iterable, of tuples if
a row has several columns. Functions that PostgreSQL writes in SQL are keyed by their signature, `lpad(text,integer)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from pgrepl.errors import PgError
from pgrepl.types.builtin import SQL, Proc
from pgrepl.types.names import format_type

F = TypeVar("F", bound=Callable[..., Any])


class Implementation(NamedTuple):
    function: Callable[..., Any]
    wants_call: bool


class Family:
    """The functions of a module."""

    def __init__(self) -> None:
        self._known: dict[str, Implementation] = {}
        self.get = self._known.get

    def __call__(self, *sources: str, context: bool = False) -> Callable[[F], F]:
        def register(function: F) -> F:
            for source in sources:
                self._known[source] = Implementation(function, context)
            return function

        return register

    def __iter__(self) -> Iterator[tuple[str, Implementation]]:
        return iter(self._known.items())


def source_of(proc: Proc) -> str:
    """The key that a function is registered under."""
    if proc.lang == SQL:
        return f"{proc.name}({','.join(map(format_type, proc.argtypes))})"
    return proc.src


def missing(proc: Proc) -> PgError:
    """The error for a function that pgrepl does not have."""
    arguments = ", ".join(map(format_type, proc.argtypes))
    return PgError("0A000", f"function {proc.name}({arguments}) is not supported")
