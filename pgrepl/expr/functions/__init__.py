"""What PostgreSQL's built-in functions compute: Python for each pg_proc.prosrc, one module a family.

    @implements("int4pl", "int24pl", "int42pl")
    def int4pl(a: int, b: int) -> int: …

An implementation gets the values of its arguments; a strict one is never called with NULL (None). With `context=True`
it gets the `Call` first: session, style, types of the arguments. A set-returning one gives an iterable; where a row
has several columns, of tuples. Functions that PostgreSQL writes in SQL have no prosrc of their own; they are keyed by
their signature, `lpad(text,integer)`.

A family is imported when a function is first looked for that the families before it do not have. This module names all
of them, also those of higher floors, so that what a function means never depends on what was imported before.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from pgrepl.errors import PgError
from pgrepl.types.builtin import SQL, Proc
from pgrepl.types.names import format_type

F = TypeVar("F", bound=Callable[..., Any])


class Implementation(NamedTuple):
    function: Callable[..., Any]
    wants_call: bool


_IMPLEMENTATIONS: dict[str, Implementation] = {}
_FAMILIES = tuple(
    f"{__name__}.{name}"
    for name in (
        "comparison",
        "arithmetic",
        "text",
        "text_format",
        "like",
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
        "random",
        "binary",
        "ranges",
        "network",
        "to_char",
        "from_char",
        "number_format",
        "to_number",
        "hashing",
        "hash_partitions",
    )
)
# what only the catalog can answer
_CATALOG_FAMILIES = (
    *(
        f"pgrepl.commands.system.functions.{name}"
        for name in (
            "sequences",
            "names",
            "privileges",
            "definitions",
            "state",
            "statistics",
            "structure",
            "transactions",
        )
    ),
    "pgrepl.replication.functions",
    "pgrepl.replication.messages",
    "pgrepl.replication.decoding.functions",
    "pgrepl.replication.standby.functions",
)
# where a name that begins so is looked for first; the other families follow
_CATALOG_NAMES = (
    "pg", "PG_", "has_", "to_reg", "current", "session_user", "nextval", "currval", "lastval", "setval", "set_config",
    "show_config", "format_type", "getdatabaseencoding", "acl", "row_security", "col_desc", "obj_desc", "shobj_desc",
    "txid_", "xid_age",
)  # fmt: skip
_loaded: set[str] = set()


def implements(*sources: str, context: bool = False) -> Callable[[F], F]:
    def register(function: F) -> F:
        for source in sources:
            _IMPLEMENTATIONS[source] = Implementation(function, context)
        return function

    return register


def source_of(proc: Proc) -> str:
    """What a function is registered by."""
    if proc.lang == SQL:
        return f"{proc.name}({','.join(map(format_type, proc.argtypes))})"
    return proc.src


def find(proc: Proc) -> Implementation | None:
    source = source_of(proc)
    found = _IMPLEMENTATIONS.get(source)
    first, then = _FAMILIES, _CATALOG_FAMILIES
    if source.startswith(_CATALOG_NAMES):
        first, then = then, first
    for module in chain(first, then):
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
