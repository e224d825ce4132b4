"""What PostgreSQL's built-in functions compute: Python for each pg_proc.prosrc, one module a family, which registers
what it has (registry.py).

A family is imported when a function is first looked for that the families before it do not have. This module names all
of them, also those of higher floors, so that what a function means never depends on what was imported before.
"""

from __future__ import annotations

from importlib import import_module
from itertools import chain

from pgrepl.expr.functions.registry import Implementation, missing, registered, source_of
from pgrepl.types.builtin import Proc

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
        f"pgrepl.query.system.functions.{name}"
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


def find(proc: Proc) -> Implementation | None:
    source = source_of(proc)
    found = registered(source)
    first, then = _FAMILIES, _CATALOG_FAMILIES
    if source.startswith(_CATALOG_NAMES):
        first, then = then, first
    for module in chain(first, then):
        if found is not None:
            break
        if module not in _loaded:
            import_module(module)  # waits for another thread that does the same
            _loaded.add(module)
            found = registered(source)
    return found or registered(source)


def implementation(proc: Proc) -> Implementation:
    """The same, or the error that pgrepl does not have it."""
    found = find(proc)
    if found is None:
        raise missing(proc)
    return found
