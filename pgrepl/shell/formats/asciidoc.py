"""The asciidoc format."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.shell.table import PrintOptions, TableContent

_FRAMES = {0: ',frame="none",grid="none"', 1: ',frame="none"', 2: ',frame="all",grid="all"'}


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _begin(table: TableContent, options: PrintOptions, definition: str) -> str:
    title = f".{table.title}\n" if table.title is not None and not options.tuples_only else ""
    return f"\n{title}[{definition}{_FRAMES.get(options.border, '')}]\n|====\n"


def _end(options: PrintOptions, footers: Sequence[str]) -> str:
    if not options.stop_table or options.tuples_only or not footers:
        return "|====\n"
    return "|====\n\n....\n" + "".join(footer + "\n" for footer in footers) + "....\n"


def asciidoc(table: TableContent, options: PrintOptions) -> str:
    out: list[str] = []
    if options.start_table:
        columns = ",".join(">l" if align == "r" else "<l" for align in table.aligns)
        header = "" if options.tuples_only else 'options="header",'
        out.append(_begin(table, options, f'{header}cols="{columns}"'))
        if not options.tuples_only:
            out.append(" ".join("^l|" + _escaped(text) for text in table.headers) + "\n")
    for row in table.rows:
        if not row:
            continue
        cells = [_escaped(text) if text.strip(" \t") else " " for text in row]
        if cells[-1] == " ":
            cells[-1] = ""
        out.append(" ".join("|" + cell for cell in cells) + "\n")
    out.append(_end(options, table.footers_to_print(options)))
    return "".join(out)


def asciidoc_expanded(table: TableContent, options: PrintOptions) -> str:
    out = [_begin(table, options, 'cols="h,l"')] if options.start_table else []
    for number, row in enumerate(table.rows, options.prior_records + 1):
        if not row:
            continue
        out.append("2+|\n" if options.tuples_only else f"2+^|Record {number}\n")
        for header, text, align in zip(table.headers, row, table.aligns, strict=True):
            shown = _escaped(text) if text.strip(" \t") else " "
            out.append(f"<l|{_escaped(header)} {'>l' if align == 'r' else '<l'}|{shown}\n")
    out.append(_end(options, table.own_footers()))
    return "".join(out)
