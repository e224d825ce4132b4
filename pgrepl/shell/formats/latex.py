"""The latex and latex-longtable formats."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.shell.table import PrintOptions, TableContent

_ESCAPES = str.maketrans(
    {
        "#": "\\#",
        "$": "\\$",
        "%": "\\%",
        "&": "\\&",
        "<": "\\textless{}",
        ">": "\\textgreater{}",
        "\\": "\\textbackslash{}",
        "^": "\\^{}",
        "_": "\\_",
        "{": "\\{",
        "|": "\\textbar{}",
        "}": "\\}",
        "~": "\\~{}",
        "\n": "\\\\",
    }
)


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _title(table: TableContent, options: PrintOptions) -> str:
    if table.title is None or options.tuples_only:
        return ""
    return f"\\begin{{center}}\n{_escaped(table.title)}\n\\end{{center}}\n\n"


def _end(options: PrintOptions, rule: bool, footers: Sequence[str]) -> str:
    notes = "" if options.tuples_only else "".join(f"{_escaped(footer)} \\\\\n" for footer in footers)
    return ("\\hline\n" if rule else "") + "\\end{tabular}\n\n\\noindent " + notes + "\n"


def latex(table: TableContent, options: PrintOptions) -> str:
    border = min(options.border, 3)
    out: list[str] = []
    if options.start_table:
        columns = (" | " if border else "").join(table.aligns)
        if border >= 2:
            columns = f"| {columns} |"
        out += (_title(table, options), f"\\begin{{tabular}}{{{columns}}}\n")
        if not options.tuples_only:
            if border >= 2:
                out.append("\\hline\n")
            heads = " & ".join(f"\\textit{{{_escaped(header)}}}" for header in table.headers)
            out.append(heads + " \\\\\n\\hline\n")
    for row in table.rows:
        if row:
            out.append(" & ".join(_escaped(text) for text in row) + " \\\\\n" + ("\\hline\n" if border == 3 else ""))
    if options.stop_table:
        out.append(_end(options, border == 2, table.footers_to_print(options)))
    return "".join(out)


def latex_longtable(table: TableContent, options: PrintOptions) -> str:
    border = min(options.border, 3)
    out: list[str] = []
    if options.start_table:
        columns = (" | " if border else "").join(_longtable_columns(table.aligns, options.tableattr))
        if border >= 2:
            columns = f"| {columns} |"
        out.append(f"\\begin{{longtable}}{{{columns}}}\n")
        if not options.tuples_only:
            out += _longtable_heads(table, border)
    for row in table.rows:
        if row:
            out.append("\n&\n".join(f"\\raggedright{{{_escaped(text)}}}" for text in row))
            out.append(" \\tabularnewline\n" + (" \\hline\n" if border == 3 else ""))
    if options.stop_table:
        out.append("\\end{longtable}\n")
    return "".join(out)


def _longtable_columns(aligns: str, attributes: str | None) -> list[str]:
    """The column types: left-aligned ones have the widths of `\\pset tableattr`, whose last one repeats."""
    widths = (attributes or "").split()
    columns = []
    last = None
    for align in aligns:
        if align == "l" and widths:
            last = widths.pop(0)
        columns.append(f"p{{{last}\\textwidth}}" if align == "l" and last is not None else align)
    return columns


def _longtable_heads(table: TableContent, border: int) -> list[str]:
    heads = " & ".join(f"\\small\\textbf{{\\textit{{{_escaped(header)}}}}}" for header in table.headers) + " \\\\\n"
    top = "\\toprule\n" if border >= 2 else ""
    out = [top, heads, "\\midrule\n\\endfirsthead\n", top, heads]
    out.append(("\\midrule\n" if border != 3 else "") + "\\endhead\n")
    bottom = "\\bottomrule\n"
    if table.title is not None:
        title = _escaped(table.title)
        rule = bottom if border == 2 else ""
        out.append(f"{rule}\\caption[{title} (Continued)]{{{title}}}\n\\endfoot\n")
        out.append(f"{rule}\\caption[{title}]{{{title}}}\n\\endlastfoot\n")
    elif border >= 2:
        out.append(f"{bottom}\\endfoot\n{bottom}\\endlastfoot\n")
    return out


def latex_expanded(table: TableContent, options: PrintOptions) -> str:
    border = min(options.border, 2)
    out: list[str] = []
    if options.start_table:
        out += (_title(table, options), f"\\begin{{tabular}}{{{('cl', 'c|l', '|c|l|')[border]}}}\n")
    for number, row in enumerate(table.rows, options.prior_records + 1):
        if not row:
            continue
        if not options.tuples_only:
            if border == 2:
                out.append(f"\\hline\n\\multicolumn{{2}}{{|c|}}{{\\textit{{Record {number}}}}} \\\\\n")
            else:
                out.append(f"\\multicolumn{{2}}{{c}}{{\\textit{{Record {number}}}}} \\\\\n")
        if border >= 1:
            out.append("\\hline\n")
        for header, text in zip(table.headers, row, strict=True):
            out.append(f"{_escaped(header)} & {_escaped(text)} \\\\\n")
    if options.stop_table:
        out.append(_end(options, border == 2, table.own_footers()))
    return "".join(out)
