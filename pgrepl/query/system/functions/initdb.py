"""Objects that only initdb makes: the extension plpgsql, tablespaces, the text search parser; and lists of options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgrepl.catalog.comments import PLPGSQL
from pgrepl.errors import PgError
from pgrepl.expr.functions.registry import Family
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import ts_parsers

implements = Family()


@implements("pg_available_extensions")
def pg_available_extensions() -> Iterator[tuple[Any, ...]]:
    yield "plpgsql", "1.0", PLPGSQL


@implements("pg_available_extension_versions")
def pg_available_extension_versions() -> Iterator[tuple[Any, ...]]:
    yield "plpgsql", "1.0", True, True, False, "pg_catalog", None, PLPGSQL


@implements("pg_tablespace_location")
def pg_tablespace_location(oid: int) -> str:
    """Empty for the tablespaces of initdb, and there are no others."""
    if oid in (0, 1663, 1664):
        return ""
    raise PgError("58P01", f'could not read symbolic link "pg_tblspc/{oid}": No such file or directory')


@implements("pg_options_to_table")
def pg_options_to_table(options: PgArray) -> Iterator[tuple[str, str | None]]:
    """Each `name=value` as a row; an option without a value has NULL (untransformRelOptions)."""
    for option in options.items:
        if option is not None:
            name, equals, value = option.partition("=")
            yield name, value if equals else None


_TOKENS = (
    ("asciiword", "Word, all ASCII"), ("word", "Word, all letters"), ("numword", "Word, letters and digits"),
    ("email", "Email address"), ("url", "URL"), ("host", "Host"), ("sfloat", "Scientific notation"),
    ("version", "Version number"), ("hword_numpart", "Hyphenated word part, letters and digits"),
    ("hword_part", "Hyphenated word part, all letters"), ("hword_asciipart", "Hyphenated word part, all ASCII"),
    ("blank", "Space symbols"), ("tag", "XML tag"), ("protocol", "Protocol head"),
    ("numhword", "Hyphenated word, letters and digits"), ("asciihword", "Hyphenated word, all ASCII"),
    ("hword", "Hyphenated word, all letters"), ("url_path", "URL path"), ("file", "File or path name"),
    ("float", "Decimal notation"), ("int", "Signed integer"), ("uint", "Unsigned integer"), ("entity", "XML entity"),
)  # fmt: skip


@implements("ts_token_type_byid")
def ts_token_type(parser: int) -> Iterator[tuple[int, str, str]]:
    if ts_parsers.get(parser) is None:
        raise PgError("XX000", f"cache lookup failed for text search parser {parser}")
    for number, (alias, description) in enumerate(_TOKENS, 1):
        yield number, alias, description


@implements("ts_token_type_byname")
def ts_token_type_byname(parser: str) -> Iterator[tuple[int, str, str]]:
    found = ts_parsers.named(parser.removeprefix("pg_catalog."))
    if not found:
        raise PgError("42704", f'text search parser "{parser}" does not exist')
    return ts_token_type(found[0].oid)
