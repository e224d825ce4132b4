"""The html format."""

from __future__ import annotations

from pgrepl.shell.table import PrintOptions, TableContent

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "<br />\n", '"': "&quot;"})


def escaped(text: str) -> str:
    """The text as HTML; spaces at the beginning, as EXPLAIN has them, are kept."""
    body = text.lstrip(" ")
    return "&nbsp;" * (len(text) - len(body)) + body.translate(_ENTITIES)


def _begin(table: TableContent, options: PrintOptions) -> str:
    attributes = f" {options.tableattr}" if options.tableattr is not None else ""
    out = f'<table border="{options.border}"{attributes}>\n'
    if table.title is not None and not options.tuples_only:
        out += f"  <caption>{escaped(table.title)}</caption>\n"
    return out


def _end(footers: tuple[str, ...]) -> str:
    notes = "<p>" + "".join(escaped(footer) + "<br />\n" for footer in footers) + "</p>" if footers else ""
    return f"</table>\n{notes}\n"


def _cell(text: str, align: str) -> str:
    shown = escaped(text) if text.strip(" \t") else "&nbsp; "
    return f'    <td align="{"right" if align == "r" else "left"}">{shown}</td>\n'


def html(table: TableContent, options: PrintOptions) -> str:
    out: list[str] = []
    if options.start_table:
        out.append(_begin(table, options))
        if not options.tuples_only:
            heads = "".join(f'    <th align="center">{escaped(header)}</th>\n' for header in table.headers)
            out.append(f"  <tr>\n{heads}  </tr>\n")
    for row in table.rows:
        if row:
            cells = "".join(_cell(text, align) for text, align in zip(row, table.aligns, strict=True))
            out.append(f'  <tr valign="top">\n{cells}  </tr>\n')
    if options.stop_table:
        out.append(_end(() if options.tuples_only else tuple(table.footers_to_print(options))))
    return "".join(out)


def html_expanded(table: TableContent, options: PrintOptions) -> str:
    out = [_begin(table, options)] if options.start_table else []
    for number, row in enumerate(table.rows, options.prior_records + 1):
        if not row:
            continue
        if options.tuples_only:
            out.append('\n  <tr><td colspan="2">&nbsp;</td></tr>\n')
        else:
            out.append(f'\n  <tr><td colspan="2" align="center">Record {number}</td></tr>\n')
        for header, text, align in zip(table.headers, row, table.aligns, strict=True):
            out.append(f'  <tr valign="top">\n    <th>{escaped(header)}</th>\n{_cell(text, align)}  </tr>\n')
    if options.stop_table:
        out.append(_end(() if options.tuples_only else tuple(table.own_footers())))
    return "".join(out)
