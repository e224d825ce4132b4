r"""`\crosstabview`: one column's values down, another's across, a third's in the cells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pgrepl.shell.shell import Shell
from pgrepl.shell.slash_lexer import dequote_identifier
from pgrepl.shell.table import TableContent, alignment
from pgrepl.shell.width import printable

if TYPE_CHECKING:
    from pgrepl.query.result import Result

_MAX_COLUMNS = 1600


class _Refused(Exception):
    """The reason why the result makes no crosstab."""


def print_crosstab(shell: Shell, result: Result, arguments: list[str | None]) -> bool:
    try:
        table = _turned(shell, result, arguments)
    except _Refused as problem:
        shell.error(f"\\crosstabview: {problem}")
        return False
    return shell.print_table(table)


def _turned(shell: Shell, result: Result, arguments: list[str | None]) -> TableContent:
    columns = result.columns or ()
    names = [column.name for column in columns]
    if len(names) < 3:
        raise _Refused("query must return at least three columns")
    down = 0 if arguments[0] is None else _column(arguments[0], names)
    across = 1 if arguments[1] is None else _column(arguments[1], names)
    if down == across:
        raise _Refused("vertical and horizontal headers must be different columns")
    if arguments[2] is not None:
        data = _column(arguments[2], names)
    elif len(names) != 3:
        raise _Refused("data column must be specified when query returns more than three columns")
    else:
        data = 3 - down - across
    order = None if arguments[3] is None else _column(arguments[3], names)

    heads: dict[str | None, int] = {}
    sides: dict[str | None, int] = {}
    sort_values: dict[str | None, str | None] = {}
    for row in result.rows:
        heads.setdefault(row[across], len(heads))
        sort_values.setdefault(row[across], None if order is None else row[order])
        if len(heads) > _MAX_COLUMNS:
            raise _Refused(f"maximum number of columns ({_MAX_COLUMNS}) exceeded")
        sides.setdefault(row[down], len(sides))
    if order is not None:
        ranked = sorted(sorted(heads, key=_by_bytes), key=lambda head: _rank(sort_values[head]))
        heads = {head: at for at, head in enumerate(ranked)}

    cells: list[list[str | None]] = [[side] + [""] * len(heads) for side in sides]
    filled: set[tuple[int, int]] = set()
    null = shell.options.null
    for row in result.rows:
        place = sides[row[down]], heads[row[across]]
        if place in filled:
            side, head = (null or "(null)" if value is None else value for value in (row[down], row[across]))
            raise _Refused(f'query result contains multiple data values for row "{side}", column "{head}"')
        filled.add(place)
        cells[place[0]][place[1] + 1] = row[data]
    aligns = alignment([columns[down].type]) + alignment([columns[data].type]) * len(heads)
    shown = [[printable(null if value is None else value) for value in line] for line in cells]
    headers = [printable(names[down])] + [printable(null if head is None else head) for head in heads]
    return TableContent(headers, shown, aligns, title=shell.options.title)


def _by_bytes(value: str | None) -> tuple[bool, bytes]:
    return value is None, (value or "").encode("utf-8", "surrogateescape")


def _rank(value: str | None) -> int:
    """The value as a number; 0: it is none (rankSort)."""
    return int(value) if value is not None and re.fullmatch("-?[0-9]+", value) else 0


def _column(argument: str, names: list[str]) -> int:
    """A column by its number or name (indexOfColumn)."""
    if argument and re.fullmatch("[0-9]+", argument):
        number = int(argument)
        if not 1 <= number <= len(names):
            raise _Refused(f"column number {number} is out of range 1..{len(names)}")
        return number - 1
    name = dequote_identifier(argument, fold=True)
    found = [at for at, column in enumerate(names) if column == name]
    if len(found) > 1:
        raise _Refused(f'ambiguous column name: "{name}"')
    if not found:
        raise _Refused(f'column name not found: "{name}"')
    return found[0]
