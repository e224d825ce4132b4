"""Tables of subcommands: drawn by rich on a terminal, psql's aligned format in a pipe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from pgrepl.shell.table import PrintOptions, TableContent

if TYPE_CHECKING:
    from rich.console import Console


def write_table(
    stream: TextIO, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()
) -> None:
    if stream.isatty():
        from rich.console import Console

        console = Console(file=stream)
        console.print(rich_table(console, title, headers, rows, numeric))
    else:
        stream.write(plain_table(title, headers, rows, numeric))


def plain_table(
    title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()
) -> str:
    from pgrepl.shell.formats.aligned import aligned, lay_out

    aligns = "".join("r" if at in numeric else "l" for at in range(len(headers)))
    table, options = TableContent(headers, rows, aligns, title, ()), PrintOptions(title=title)
    return aligned(table, options, lay_out(table, options, 0))


def rich_table(
    console: Console, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()
) -> Any:
    """A table of rich; one that is too wide is printed row after row, as with `\\x auto`."""
    from rich.markup import escape
    from rich.measure import Measurement
    from rich.table import Table as RichTable

    table = RichTable(title=escape(title), title_justify="left")
    for at, header in enumerate(headers):
        table.add_column(header, justify="right" if at in numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*[escape(cell) for cell in row])
    if Measurement.get(console, console.options.update(max_width=10_000), table).maximum <= console.width:
        return table
    upright = RichTable(title=escape(title), title_justify="left", show_header=False)
    upright.add_column(style="bold")
    upright.add_column(overflow="fold")
    for row in rows:
        for header, cell in zip(headers, row, strict=True):
            if cell:
                upright.add_row(header, escape(cell))
        upright.add_section()
    return upright
