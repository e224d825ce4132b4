"""A table for a person: rich on a terminal, psql's aligned text in a pipe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TextIO

from pgrepl.shell.table import PrintOptions, Table


def write_table(
    stream: TextIO, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()
) -> None:
    if stream.isatty():
        from rich.console import Console

        Console(file=stream).print(rich_table(title, headers, rows, numeric))
    else:
        stream.write(plain_table(title, headers, rows, numeric))


def plain_table(
    title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()
) -> str:
    from pgrepl.shell.formats.aligned import aligned, lay_out

    aligns = "".join("r" if at in numeric else "l" for at in range(len(headers)))
    table, options = Table(headers, rows, aligns, title, ()), PrintOptions(title=title)
    return aligned(table, options, lay_out(table, options, 0))


def rich_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()) -> Any:
    from rich.markup import escape
    from rich.table import Table as RichTable

    table = RichTable(title=escape(title), title_justify="left")
    for at, header in enumerate(headers):
        table.add_column(header, justify="right" if at in numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*[escape(cell) for cell in row])
    return table
