"""PostgreSQL's built-in functions in Python, by pg_proc.prosrc. Each module has one family of functions, registered as
registry.py describes.

Families are imported in order until one of them has the function. Functions that need the catalog are in other
packages; the session knows them (context.Context.catalog_function).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from pgrepl.expr.functions.registry import Context, Implementation, missing, source_of
from pgrepl.types.builtin import Proc

FAMILIES = (
    "comparison",
    "numbers.arithmetic",
    "strings",
    "text_format",
    "like",
    "pattern",
    "casts",
    "arrays",
    "times.date_arithmetic",
    "times.intervals",
    "times.datetime",
    "times.zones",
    "times.date_fields",
    "numbers.numeric",
    "numbers.numeric_powers",
    "misc",
    "uuids",
    "documents.json",
    "documents.json_changing",
    "documents.json_making",
    "numbers.math",
    "binary",
    "containers",
    "network",
    "times.date_formats",
    "numbers.number_format",
    "numbers.to_number",
    "hashing",
    "documents.json_populate",
)
# names with these prefixes are looked up in the catalog's functions first
_CATALOG_NAMES = (
    "pg", "PG_", "has_", "to_reg", "current", "session_user", "nextval", "currval", "lastval", "setval", "set_config",
    "show_config", "format_type", "getdatabaseencoding", "acl", "row_security", "col_desc", "obj_desc", "shobj_desc",
    "txid_", "xid_age",
)  # fmt: skip


@cache
def own(source: str) -> Implementation | None:
    """The implementation of a function that needs no catalog."""
    for name in FAMILIES:
        found: Implementation | None = import_module(f"{__name__}.{name}").implements.get(source)
        if found is not None:
            return found
    return None


def find(proc: Proc, context: Context) -> Implementation | None:
    source = source_of(proc)
    if source.startswith(_CATALOG_NAMES):
        return _of_catalog(source, context) or own(source)
    return own(source) or _of_catalog(source, context)


def _of_catalog(source: str, context: Context) -> Implementation | None:
    found = context.catalog_function(source)
    return None if found is None else Implementation(*found)


def implementation(proc: Proc, context: Context) -> Implementation:
    """The implementation of a function; an error when pgrepl does not have it."""
    found = find(proc, context)
    if found is None:
        raise missing(proc)
    return found
