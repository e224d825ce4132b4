"""What PostgreSQL's built-in functions compute: Python for each pg_proc.prosrc, one module a family.

    @implements("int4pl", "int24pl", "int42pl")
    def int4pl(a: int, b: int) -> int: …

An implementation gets the values of its arguments; a strict one is never called with NULL (None). With `context=True`
it gets the `Call` first: session, style, types of the arguments. A set-returning one gives an iterable; where a row
has several columns, of tuples. Functions that PostgreSQL writes in SQL have no prosrc of their own; they are keyed by
their signature, `lpad(text,integer)`.

A family is imported when a function is first looked for that the families before it do not have. Other rooms add theirs
with `add_family`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from pgrepl.errors import PgError
from pgrepl.types.builtin import SQL, Proc
from pgrepl.types.names import format_type

F = TypeVar("F", bound=Callable[..., Any])


class Implementation(NamedTuple):
    function: Callable[..., Any]
    wants_call: bool


_IMPLEMENTATIONS: dict[str, Implementation] = {}
_HERE = "pgrepl.expr.functions."
_FAMILIES = [
    _HERE + name
    for name in (
        "comparison",
        "arithmetic",
        "text",
        "text_format",
        "pattern",
        "casts",
        "arrays",
        "date_arithmetic",
        "intervals",
        "spans",
        "datetime",
        "zones",
        "date_fields",
        "numeric",
        "numeric_powers",
        "misc",
        "json",
        "json_changing",
        "json_making",
        "math",
        "binary",
        "ranges",
        "network",
        "to_char",
        "from_char",
        "number_format",
        "to_number",
        "hashing",
    )
]
_loaded: set[str] = set()


def implements(*sources: str, context: bool = False) -> Callable[[F], F]:
    def register(function: F) -> F:
        for source in sources:
            _IMPLEMENTATIONS[source] = Implementation(function, context)
        return function

    return register


def add_family(module: str) -> None:
    """Name a module whose import registers implementations; it is tried before those that are not loaded yet."""
    if module not in _FAMILIES:
        _FAMILIES.insert(0, module)


def source_of(proc: Proc) -> str:
    """What a function is registered by."""
    if proc.lang == SQL:
        return f"{proc.name}({','.join(map(format_type, proc.argtypes))})"
    return proc.src


def find(proc: Proc) -> Implementation | None:
    source = source_of(proc)
    found = _IMPLEMENTATIONS.get(source)
    for module in _FAMILIES:
        if found is not None:
            break
        if module not in _loaded:
            import_module(module)  # waits for another thread that does the same
            _loaded.add(module)
            found = _IMPLEMENTATIONS.get(source)
    return found or _IMPLEMENTATIONS.get(source)


def implementation(proc: Proc) -> Implementation:
    """The same, or the error that pgrepl does not have it."""
    found = find(proc)
    if found is None:
        arguments = ", ".join(map(format_type, proc.argtypes))
        raise PgError("0A000", f"function {proc.name}({arguments}) is not supported")
    return found
