"""Results as JSON: an array of objects, or an object a line. Numbers keep their exact text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring as quoted

from pgrepl.shell.table import PrintOptions, TableContent
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, read_array
from pgrepl.types.builtin import base_type, element_type, type_by_oid

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
