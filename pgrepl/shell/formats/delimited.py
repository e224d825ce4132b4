"""The unaligned and csv formats, straight and expanded."""

from __future__ import annotations

from pgrepl.shell.table import PrintOptions, TableContent


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
