"""The unaligned and csv formats, straight and expanded, and results as JSON, whose numbers keep their exact text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring as quoted

from pgrepl.shell.formats.table import PrintOptions, TableContent
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, read_array
from pgrepl.types.builtin import base_type, element_type, type_by_oid


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
    found: list[str] = []
    taken = set(names)
    for name in names:
        if name in found:
            number = next(n for n in range(1, len(names) + 1) if f"{name}_{n}" not in taken)
            name = f"{name}_{number}"
            taken.add(name)
        found.append(name)
    return found


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
