"""Quoting names and strings for SQL text, as PostgreSQL's quote_ident and quote_literal do."""

from __future__ import annotations

import re

from pgrepl.sql.keywords import KEYWORDS, KeywordClass

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")


def quote_identifier(name: str) -> str:
    """A name, quoted unless it is a lower-case word that is no key word or an unreserved one (quote_identifier)."""
    if _PLAIN.match(name) and KEYWORDS.get(name, KeywordClass.UNRESERVED) is KeywordClass.UNRESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_always(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_qualified(schema: str | None, name: str) -> str:
    """`schema.name`, or the name alone (quote_qualified_identifier)."""
    if schema is None:
        return quote_identifier(name)
    return f"{quote_identifier(schema)}.{quote_identifier(name)}"


def quote_literal(text: str) -> str:
    """A string constant; one with backslashes is an E'' string (quote_literal)."""
    quoted = text.replace("'", "''")
    if "\\" in quoted:
        return "E'" + quoted.replace("\\", "\\\\") + "'"
    return f"'{quoted}'"
