"""The formats for other programs: unaligned, csv, and results as JSON, whose numbers keep their exact text; asciidoc,
html, latex, latex-longtable and troff-ms."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring as quoted

from pgrepl.shell.formats.table import PrintOptions, TableContent
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, read_array
from pgrepl.types.builtin import base_type, element_type, type_by_oid

_FRAMES = {0: ',frame="none",grid="none"', 1: ',frame="none"', 2: ',frame="all",grid="all"'}


def _asciidoc_escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _asciidoc_begin(table: TableContent, options: PrintOptions, definition: str) -> str:
    title = f".{table.title}\n" if table.title is not None and not options.tuples_only else ""
    return f"\n{title}[{definition}{_FRAMES.get(options.border, '')}]\n|====\n"


def _asciidoc_end(options: PrintOptions, footers: Sequence[str]) -> str:
    if not options.stop_table or options.tuples_only or not footers:
        return "|====\n"
    return "|====\n\n....\n" + "".join(footer + "\n" for footer in footers) + "....\n"


def asciidoc(table: TableContent, options: PrintOptions) -> str:
    out: list[str] = []
    if options.start_table:
        columns = ",".join(">l" if align == "r" else "<l" for align in table.aligns)
        header = "" if options.tuples_only else 'options="header",'
        out.append(_asciidoc_begin(table, options, f'{header}cols="{columns}"'))
        if not options.tuples_only:
            out.append(" ".join("^l|" + _asciidoc_escaped(text) for text in table.headers) + "\n")
    for row in table.rows:
        if not row:
            continue
        cells = [_asciidoc_escaped(text) if text.strip(" \t") else " " for text in row]
        if cells[-1] == " ":
            cells[-1] = ""
        out.append(" ".join("|" + cell for cell in cells) + "\n")
    out.append(_asciidoc_end(options, table.footers_to_print(options)))
    return "".join(out)


def asciidoc_expanded(table: TableContent, options: PrintOptions) -> str:
    out = [_asciidoc_begin(table, options, 'cols="h,l"')] if options.start_table else []
    for number, row in enumerate(table.rows, options.prior_records + 1):
        if not row:
            continue
        out.append("2+|\n" if options.tuples_only else f"2+^|Record {number}\n")
        for header, text, align in zip(table.headers, row, table.aligns, strict=True):
            shown = _asciidoc_escaped(text) if text.strip(" \t") else " "
            out.append(f"<l|{_asciidoc_escaped(header)} {'>l' if align == 'r' else '<l'}|{shown}\n")
    out.append(_asciidoc_end(options, table.own_footers()))
    return "".join(out)


# --- html -------------------------------------------------------------------------------------------------------------


_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "<br />\n", '"': "&quot;"})


def escaped(text: str) -> str:
    """The text as HTML; spaces at the beginning, as EXPLAIN has them, are kept."""
    body = text.lstrip(" ")
    return "&nbsp;" * (len(text) - len(body)) + body.translate(_ENTITIES)


def _html_begin(table: TableContent, options: PrintOptions) -> str:
    attributes = f" {options.tableattr}" if options.tableattr is not None else ""
    out = f'<table border="{options.border}"{attributes}>\n'
    if table.title is not None and not options.tuples_only:
        out += f"  <caption>{escaped(table.title)}</caption>\n"
    return out


def _html_end(footers: tuple[str, ...]) -> str:
    notes = "<p>" + "".join(escaped(footer) + "<br />\n" for footer in footers) + "</p>" if footers else ""
    return f"</table>\n{notes}\n"


def _cell(text: str, align: str) -> str:
    shown = escaped(text) if text.strip(" \t") else "&nbsp; "
    return f'    <td align="{"right" if align == "r" else "left"}">{shown}</td>\n'


def html(table: TableContent, options: PrintOptions) -> str:
    out: list[str] = []
    if options.start_table:
        out.append(_html_begin(table, options))
        if not options.tuples_only:
            heads = "".join(f'    <th align="center">{escaped(header)}</th>\n' for header in table.headers)
            out.append(f"  <tr>\n{heads}  </tr>\n")
    for row in table.rows:
        if row:
            cells = "".join(_cell(text, align) for text, align in zip(row, table.aligns, strict=True))
            out.append(f'  <tr valign="top">\n{cells}  </tr>\n')
    if options.stop_table:
        out.append(_html_end(() if options.tuples_only else tuple(table.footers_to_print(options))))
    return "".join(out)


def html_expanded(table: TableContent, options: PrintOptions) -> str:
    out = [_html_begin(table, options)] if options.start_table else []
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
        out.append(_html_end(() if options.tuples_only else tuple(table.own_footers())))
    return "".join(out)


# --- latex ------------------------------------------------------------------------------------------------------------


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


def _latex_escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _title(table: TableContent, options: PrintOptions) -> str:
    if table.title is None or options.tuples_only:
        return ""
    return f"\\begin{{center}}\n{_latex_escaped(table.title)}\n\\end{{center}}\n\n"


def _latex_end(options: PrintOptions, rule: bool, footers: Sequence[str]) -> str:
    notes = "" if options.tuples_only else "".join(f"{_latex_escaped(footer)} \\\\\n" for footer in footers)
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
            heads = " & ".join(f"\\textit{{{_latex_escaped(header)}}}" for header in table.headers)
            out.append(heads + " \\\\\n\\hline\n")
    for row in table.rows:
        if row:
            out.append(
                " & ".join(_latex_escaped(text) for text in row) + " \\\\\n" + ("\\hline\n" if border == 3 else "")
            )
    if options.stop_table:
        out.append(_latex_end(options, border == 2, table.footers_to_print(options)))
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
            out.append("\n&\n".join(f"\\raggedright{{{_latex_escaped(text)}}}" for text in row))
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
    heads = (
        " & ".join(f"\\small\\textbf{{\\textit{{{_latex_escaped(header)}}}}}" for header in table.headers) + " \\\\\n"
    )
    top = "\\toprule\n" if border >= 2 else ""
    out = [top, heads, "\\midrule\n\\endfirsthead\n", top, heads]
    out.append(("\\midrule\n" if border != 3 else "") + "\\endhead\n")
    bottom = "\\bottomrule\n"
    if table.title is not None:
        title = _latex_escaped(table.title)
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
            out.append(f"{_latex_escaped(header)} & {_latex_escaped(text)} \\\\\n")
    if options.stop_table:
        out.append(_latex_end(options, border == 2, table.own_footers()))
    return "".join(out)


# --- troff ------------------------------------------------------------------------------------------------------------


def _troff_escaped(text: str) -> str:
    return text.replace("\\", "\\(rs")


def _troff_begin(table: TableContent, options: PrintOptions) -> str:
    title = ""
    if table.title is not None and not options.tuples_only:
        title = f".LP\n.DS C\n{_troff_escaped(table.title)}\n.DE\n"
    return title + ".LP\n.TS\n" + ("center box;\n" if options.border >= 2 else "center;\n")


def _troff_end(options: PrintOptions, footers: Sequence[str]) -> str:
    notes = "" if options.tuples_only else "".join(_troff_escaped(footer) + "\n" for footer in footers)
    return f".TE\n.DS L\n{notes}.DE\n"


def troff_ms(table: TableContent, options: PrintOptions) -> str:
    out: list[str] = []
    if options.start_table:
        out += (_troff_begin(table, options), (" | " if options.border else "").join(table.aligns) + ".\n")
        if not options.tuples_only:
            out.append("\t".join(f"\\fI{_troff_escaped(header)}\\fP" for header in table.headers) + "\n_\n")
    out.extend("\t".join(_troff_escaped(text) for text in row) + "\n" for row in table.rows if row)
    if options.stop_table:
        out.append(_troff_end(options, table.footers_to_print(options)))
    return "".join(out)


def troff_ms_expanded(table: TableContent, options: PrintOptions) -> str:
    out: list[str] = []
    begun = not options.start_table  # a table format has been given to tbl
    if options.start_table:
        out.append(_troff_begin(table, options))
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
            out.append(f"{_troff_escaped(header)}\t{_troff_escaped(text)}\n")
    if options.stop_table:
        out.append(_troff_end(options, table.own_footers()))
    return "".join(out)


# --- unaligned and csv ------------------------------------------------------------------------------------------------


def unaligned(table: TableContent, options: PrintOptions) -> str:
    field, record = options.field_separator, options.record_separator
    out: list[str] = []
    if options.start_table and not options.tuples_only:
        if table.title is not None:
            out.append(table.title + record)
        out.append(field.join(table.headers))
        separate = True
    else:
        separate = not options.start_table
    for row in table.rows:
        if not row:
            continue
        if separate:
            out.append(record)
        out.append(field.join(row))
        separate = True
    if not options.stop_table:
        return "".join(out)
    for footer in () if options.tuples_only else table.footers_to_print(options):
        if separate:
            out.append(record)
        out.append(footer)
        separate = True
    if separate:
        out.append("\0" if options.recordsep_zero else "\n")
    return "".join(out)


def unaligned_expanded(table: TableContent, options: PrintOptions) -> str:
    field, record = options.field_separator, options.record_separator
    out: list[str] = []
    separate = not options.start_table
    if options.start_table and not options.tuples_only and table.title is not None:
        out.append(table.title)
        separate = True
    for row in table.rows:
        if not row:
            continue
        if separate:
            out.append(record + record)
        out.append(record.join(header + field + cell for header, cell in zip(table.headers, row, strict=True)))
        separate = True
    if not options.stop_table:
        return "".join(out)
    footers = () if options.tuples_only else table.own_footers()
    if footers:
        out.append(record + "".join(record + footer for footer in footers))
    if separate:
        out.append("\0" if options.recordsep_zero else "\n")
    return "".join(out)


def _csv_field(text: str, separator: str) -> str:
    r"""The field, quoted if it has a special character, or is COPY's `\.`."""
    special = separator in text or "\n" in text or "\r" in text or '"' in text
    if special or text == "\\." or separator in ("\\", "."):
        return '"' + text.replace('"', '""') + '"'
    return text


def csv(table: TableContent, options: PrintOptions) -> str:
    separator = options.csv_fieldsep
    lines = [row for row in table.rows if row]
    if options.start_table and not options.tuples_only:
        lines.insert(0, table.headers)
    return "".join(separator.join(_csv_field(text, separator) for text in line) + "\n" for line in lines)


def csv_expanded(table: TableContent, options: PrintOptions) -> str:
    separator = options.csv_fieldsep
    return "".join(
        _csv_field(header, separator) + separator + _csv_field(cell, separator) + "\n"
        for row in table.rows
        for header, cell in zip(table.headers, row, strict=True)
    )


# --- json -------------------------------------------------------------------------------------------------------------


_NUMBERS = frozenset(
    (oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.NUMERIC, oids.FLOAT4, oids.FLOAT8)
)  # the others' text is no number in JSON
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")

Write = Callable[[str], str]


def json(table: TableContent, options: PrintOptions) -> str:
    """An array; with FETCH_COUNT it comes in portions."""
    out = ["["] if options.start_table else []
    for number, line in enumerate(_objects(table), options.prior_records):
        out.append(("," if number else "") + "\n" + line)
    if options.stop_table:
        out.append("\n]\n" if options.prior_records or out[1:] else "]\n")
    return "".join(out)


def ndjson(table: TableContent, options: PrintOptions) -> str:
    return "".join(line + "\n" for line in _objects(table))


def _objects(table: TableContent) -> list[str]:
    rows = table.rows if table.values is None else table.values
    types = table.types or [oids.TEXT] * len(table.headers)
    columns = [(quoted(name), _writer(type)) for name, type in zip(_distinct(table.headers), types, strict=True)]
    return [
        "{" + ", ".join([
            f"{name}: {'null' if value is None else write(value)}"
            for (name, write), value in zip(columns, row, strict=True)
        ]) + "}"
        for row in rows
    ]  # fmt: skip


def _distinct(names: Sequence[str]) -> list[str]:
    """A name that was there before gets a number: an object has each once."""
    distinct: list[str] = []
    taken = set(names)
    for name in names:
        if name in distinct:
            number = next(n for n in range(1, len(names) + 1) if f"{name}_{n}" not in taken)
            name = f"{name}_{number}"
            taken.add(name)
        distinct.append(name)
    return distinct


def _writer(typoid: int) -> Write:
    typoid = base_type(typoid)
    if typoid in _NUMBERS:
        return _number
    if typoid == oids.BOOL:
        return lambda text: "true" if text == "t" else "false"
    if typoid in (oids.JSON, oids.JSONB):
        return _embedded
    element = element_type(typoid)
    if element:
        kind = type_by_oid(element)
        write, delimiter = _writer(element), "," if kind is None else kind.delim
        return lambda text: _array(read_array(text, element, str, delimiter), write)
    return quoted


def _number(text: str) -> str:
    """NaN and Infinity are no numbers in JSON."""
    return text if _NUMBER.fullmatch(text) else quoted(text)


def _embedded(text: str) -> str:
    """On one line: a string of JSON has no line ends in it."""
    return text.replace("\r", " ").replace("\n", " ")


def _array(array: PgArray, write: Write) -> str:
    items = ["null" if item is None else write(item) for item in array.items]
    for size in reversed(array.dims):
        items = [f"[{', '.join(items[at : at + size])}]" for at in range(0, len(items), size)]
    return items[0] if array.dims else "[]"


Render = Callable[[TableContent, PrintOptions], str]

FORMATS: dict[str, tuple[Render, Render]] = {  # straight and expanded
    "unaligned": (unaligned, unaligned_expanded),
    "csv": (csv, csv_expanded),
    "json": (json, json),
    "ndjson": (ndjson, ndjson),
    "html": (html, html_expanded),
    "asciidoc": (asciidoc, asciidoc_expanded),
    "latex": (latex, latex_expanded),
    "latex-longtable": (latex_longtable, latex_expanded),
    "troff-ms": (troff_ms, troff_ms_expanded),
}
