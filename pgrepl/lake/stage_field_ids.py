"""Field ids of fields inside lists, maps and structs: Spark writes those of columns only, so they are written into the
footer afterwards. The data stay as they are.

A footer is a struct of Thrift's compact protocol: fields as (difference to the last field's number, type) in a byte,
numbers as zigzag varints. Its second field is the list of schema elements, the tree in depth first order; only those
are read and rewritten, the bytes after them are kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.lake.table import LakeColumn, LakeField

MAGIC = b"PAR1"

_I32, _BINARY, _LIST, _STRUCT = 5, 8, 9, 12
_NAME, _CHILDREN, _FIELD_ID = 4, 5, 9  # fields of a SchemaElement


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def zigzag(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def field(self, last: int) -> tuple[int, int]:
        """The next field's number and type; type 0 at the end of a struct."""
        header = self.byte()
        kind = header & 0x0F
        if kind == 0:
            return 0, 0
        step = header >> 4
        return (last + step if step else self.zigzag()), kind

    def list_header(self) -> tuple[int, int]:
        header = self.byte()
        count = header >> 4
        return (self.varint() if count == 15 else count), header & 0x0F

    def skip(self, kind: int) -> None:
        if kind in (1, 2):  # the type has the boolean's value
            return
        if kind == 3:
            self.at += 1
        elif kind in (4, 5, 6):
            self.varint()
        elif kind == 7:
            self.at += 8
        elif kind == _BINARY:
            length = self.varint()
            self.at += length
        elif kind in (_LIST, 10):
            count, inside = self.list_header()
            for _ in range(count):
                self.skip(3 if inside in (1, 2) else inside)
        elif kind == _STRUCT:
            last, inside = self.field(0)
            while inside:
                self.skip(inside)
                last, inside = self.field(last)
        else:
            raise PgError("XX001", f"unknown type {kind} in the footer of a Parquet file")


class _Element:
    """A schema element: its fields as bytes of the footer, and its children."""

    def __init__(self, reader: _Reader) -> None:
        self.fields: dict[int, tuple[int, bytes]] = {}
        self.name = ""
        self.count = 0
        self.children: list[_Element] = []
        number, kind = reader.field(0)
        while kind:
            start = reader.at
            if number == _NAME:
                length = reader.varint()
                self.name = reader.data[reader.at : reader.at + length].decode("utf-8", "surrogateescape")
                reader.at += length
            elif number == _CHILDREN:
                self.count = reader.zigzag()
            else:
                reader.skip(kind)
            self.fields[number] = (kind, reader.data[start : reader.at])
            number, kind = reader.field(number)

    def written(self) -> bytes:
        parts = []
        last = 0
        for number, (kind, value) in sorted(self.fields.items()):
            parts += [bytes([(number - last) << 4 | kind]), value]
            last = number
        return b"".join(parts) + b"\0"


def with_field_ids(footer: bytes, columns: Sequence[LakeColumn]) -> bytes:
    """The footer (without its length and magic word) with field ids for all nested fields of these columns."""
    reader = _Reader(footer)
    number, kind = reader.field(0)
    while number != 2:
        reader.skip(kind)
        number, kind = reader.field(number)
    start = reader.at
    count, _ = reader.list_header()
    elements = [_Element(reader) for _ in range(count)]
    end = reader.at
    root = _tree(iter(elements))
    by_name = {child.name: child for child in root.children}
    for column in columns:
        if column.name in by_name:
            _number(by_name[column.name], column.type, column.fields)
    header = bytes([count << 4 | _STRUCT]) if count < 15 else bytes([0xF0 | _STRUCT]) + _varint(count)
    return footer[:start] + header + b"".join(element.written() for element in elements) + footer[end:]


def _tree(elements: Iterator[_Element]) -> _Element:
    element = next(elements)
    element.children = [_tree(elements) for _ in range(element.count)]
    return element


def _number(element: _Element, kind: str, fields: Sequence[LakeField]) -> None:
    """Set the field ids of a nested element's children."""
    inside = element.children if kind == "struct" else [e for repeated in element.children for e in repeated.children]
    found: Mapping[str, _Element] = {child.name: child for child in inside}
    for at, field in enumerate(fields):
        child = found.get(field.name) if kind == "struct" else inside[at]
        if child is not None:
            child.fields[_FIELD_ID] = (_I32, _varint(field.column_id << 1))
            _number(child, field.type, field.fields)


def _varint(value: int) -> bytes:
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def footer_end(footer: bytes) -> bytes:
    """The bytes after the footer: its length and the magic word."""
    return struct.pack("<I", len(footer)) + MAGIC
