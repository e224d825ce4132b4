"""Reading a pattern and printing rows (psql's printQuery), for all describe commands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.session import Session
from pgrepl.shell.describe.patterns import BadPattern, NamePattern, parse_pattern
from pgrepl.shell.table import TableContent, result_table
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell


def session_of(shell: Shell) -> Session:
    assert shell.connection is not None
    return shell.connection.session


def read_pattern(
    shell: Shell, text: str | None, *, qualified: bool = False, dots: int = 0
) -> NamePattern | bool | None:
    """The pattern; None: there is none; False, after a message: it is not valid."""
    try:
        database = session_of(shell).database.name
        return parse_pattern(text, qualified=qualified, dots=dots, database=database)
    except BadPattern as problem:
        shell.error(str(problem))
        return False


_SHORT_TYPES = {"decimal": "numeric", "float": "double precision", "int": "integer"}
# what the grammar reads as a type, but format_type() does not print (map_typename_pattern)
_TYPE_NAMES = {
    **_SHORT_TYPES,
    **{f"{short}[]": f"{name}[]" for short, name in _SHORT_TYPES.items()},
    "bool[]": "boolean[]",
    "float4[]": "real[]",
    "float8[]": "double precision[]",
    "int2[]": "smallint[]",
    "int4[]": "integer[]",
    "int8[]": "bigint[]",
    "time[]": "time without time zone[]",
    "timetz[]": "time with time zone[]",
    "timestamp[]": "timestamp without time zone[]",
    "timestamptz[]": "timestamp with time zone[]",
    "varbit[]": "bit varying[]",
    "varchar[]": "character varying[]",
}


def read_type_pattern(shell: Shell, text: str | None) -> NamePattern | bool | None:
    """As `read_pattern`, of a type's name."""
    known = text if text is None else _TYPE_NAMES.get(text.lower(), text)
    return read_pattern(shell, known, qualified=True)


def yes(value: object) -> str:
    return "t" if value else "f"


def print_listing(
    shell: Shell,
    title: str,
    headers: Sequence[str],
    rows: Iterable[Sequence[str | None]],
    *,
    footers: Sequence[str] | None = None,
    right: Collection[int] = (),
) -> bool:
    r"""Print a result table with a title; the columns `right` are numbers; NULL is printed as \pset null says."""
    options = replace(shell.options, title=title)
    table = result_table(
        headers, [oids.INT8 if i in right else oids.TEXT for i in range(len(headers))], list(rows), options
    )
    if footers is not None:
        table = replace(table, footers=footers)
    return shell.print_table(replace(table, title=title), options)


def print_description(
    shell: Shell,
    title: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    footers: Sequence[str] | None,
    *,
    expandable: bool = True,
) -> bool:
    """Print a table of texts with its footers; None: the number of rows."""
    options = replace(shell.options, title=None)
    if not expandable:
        options = replace(options, expanded="off")
    return shell.print_table(TableContent(headers, rows, "l" * len(headers), title=title, footers=footers), options)
