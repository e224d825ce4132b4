"""The troff-ms format."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.shell.table import PrintOptions, TableContent


def _escaped(text: str) -> str:
    return text.replace("\\", "\\(rs")


def _begin(table: TableContent, options: PrintOptions) -> str:
    title = ""
    if table.title is not None and not options.tuples_only:
        title = f".LP\n.DS C\n{_escaped(table.title)}\n.DE\n"
    return title + ".LP\n.TS\n" + ("center box;\n" if options.border >= 2 else "center;\n")


def _end(options: PrintOptions, footers: Sequence[str]) -> str:
    notes = "" if options.tuples_only else "".join(_escaped(footer) + "\n" for footer in footers)
    return f".TE\n.DS L\n{notes}.DE\n"


def troff_ms(table: TableContent, options: PrintOptions) -> str:
    out: list[str] = []
    if options.start_table:
        out += (_begin(table, options), (" | " if options.border else "").join(table.aligns) + ".\n")
        if not options.tuples_only:
            out.append("\t".join(f"\\fI{_escaped(header)}\\fP" for header in table.headers) + "\n_\n")
    out.extend("\t".join(_escaped(text) for text in row) + "\n" for row in table.rows if row)
    if options.stop_table:
        out.append(_end(options, table.footers_to_print(options)))
    return "".join(out)


def troff_ms_expanded(table: TableContent, options: PrintOptions) -> str:
    out: list[str] = []
    begun = not options.start_table  # a table format has been given to tbl
    if options.start_table:
        out.append(_begin(table, options))
        if options.tuples_only:
            out.append("c l;\n")
    for number, row in enumerate(table.rows, options.prior_records + 1):
        if not row:
            continue
        if not options.tuples_only:
            if options.border >= 2 and number > 1:
                out.append("_\n")
            if begun:
                out.append(".T&\n")
            out.append(f"c s.\n\\fIRecord {number}\\fP\n")
            begun = True
        if options.border >= 1:
            out.append("_\n")
        if not options.tuples_only:
            out.append(".T&\n" + ("c | l.\n" if options.border == 1 else "c l.\n"))
        for header, text in zip(table.headers, row, strict=True):
            out.append(f"{_escaped(header)}\t{_escaped(text)}\n")
    if options.stop_table:
        out.append(_end(options, table.own_footers()))
    return "".join(out)
