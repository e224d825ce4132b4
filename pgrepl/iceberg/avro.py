"""Avro files, of which Iceberg's manifests are: their schemas, values, and the container around them.

An entry of a manifest is put together from pieces that are encoded once, which is faster than a general encoder.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

NOTHING = b"\x00"  # of an optional value
_MAGIC = b"Obj\x01"


def _encoded(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


_SMALL = [_encoded(number) for number in range(8192)]


def number(value: int) -> bytes:
    """An int or a long."""
    return _SMALL[value] if 0 <= value < 8192 else _encoded(value)


def data(value: bytes) -> bytes:
    return number(len(value)) + value


def text(value: str) -> bytes:
    return data(value.encode("utf-8", "surrogatepass"))


def some(encoded: bytes) -> bytes:
    """An optional value that is there."""
    return b"\x02" + encoded


def some_number(value: int | None) -> bytes:
    return NOTHING if value is None else b"\x02" + number(value)


def array(items: Sequence[bytes]) -> bytes:
    return number(len(items)) + b"".join(items) + b"\x00" if items else b"\x00"


def container(schema: Mapping[str, Any], facts: Mapping[str, str], rows: Sequence[bytes]) -> bytes:
    """A file with records of the schema. Equal contents are equal files."""
    body = b"".join(rows)
    mark = hashlib.blake2b(body, digest_size=16).digest()
    every = {"avro.schema": json.dumps(schema), "avro.codec": "deflate", **facts}
    head = array([text(name) + text(value) for name, value in every.items()])
    if not rows:
        return _MAGIC + head + mark
    packer = zlib.compressobj(4, zlib.DEFLATED, -15)
    packed = packer.compress(body) + packer.flush()
    return b"".join([_MAGIC, head, mark, number(len(rows)), data(packed), mark])


def facts_of(file: bytes) -> dict[str, str]:
    """The facts in the head of a file that `container` has made."""
    at = len(_MAGIC)

    def long() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = file[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)

    def word() -> str:
        nonlocal at
        length = long()
        at += length
        return file[at - length : at].decode()

    return {word(): word() for _ in range(long())}


# --- manifest schemas -------------------------------------------------------------------------------------------------


Schema = dict[str, Any]


def _needed(name: str, kind: Any, number: int) -> Schema:
    return {"name": name, "type": kind, "field-id": number}


def _optional(name: str, kind: Any, number: int) -> Schema:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def _by_column(name: str, number: int, key: int, value: int, kind: str) -> Schema:
    pair = {
        "type": "record", "name": f"k{key}_v{value}",
        "fields": [_needed("key", "int", key), _needed("value", kind, value)],
    }  # fmt: skip
    return _optional(name, {"type": "array", "logicalType": "map", "items": pair}, number)


@cache
def entry(version: int) -> Schema:
    """Of a manifest's entries."""
    file = [
        _needed("content", "int", 134), _needed("file_path", "string", 100), _needed("file_format", "string", 101),
        _needed("partition", {"type": "record", "name": "r102", "fields": []}, 102),
        _needed("record_count", "long", 103), _needed("file_size_in_bytes", "long", 104),
        _by_column("column_sizes", 108, 117, 118, "long"), _by_column("value_counts", 109, 119, 120, "long"),
        _by_column("null_value_counts", 110, 121, 122, "long"), _by_column("nan_value_counts", 137, 138, 139, "long"),
        _by_column("lower_bounds", 125, 126, 127, "bytes"), _by_column("upper_bounds", 128, 129, 130, "bytes"),
        _optional("sort_order_id", "int", 140), _optional("referenced_data_file", "string", 143),
    ]  # fmt: skip
    if version >= 3:
        file += [_optional("first_row_id", "long", 142), _optional("content_offset", "long", 144),
                 _optional("content_size_in_bytes", "long", 145)]  # fmt: skip
    fields = [
        _needed("status", "int", 0), _optional("snapshot_id", "long", 1), _optional("sequence_number", "long", 3),
        _optional("file_sequence_number", "long", 4),
        _needed("data_file", {"type": "record", "name": "r2", "fields": file}, 2),
    ]  # fmt: skip
    return {"type": "record", "name": "manifest_entry", "fields": fields}


@cache
def manifest_list(version: int) -> Schema:
    summary = {
        "type": "record", "name": "r508",
        "fields": [
            _needed("contains_null", "boolean", 509), _optional("contains_nan", "boolean", 518),
            _optional("lower_bound", "bytes", 510), _optional("upper_bound", "bytes", 511),
        ],
    }  # fmt: skip
    fields = [
        _needed("manifest_path", "string", 500), _needed("manifest_length", "long", 501),
        _needed("partition_spec_id", "int", 502), _needed("content", "int", 517),
        _needed("sequence_number", "long", 515), _needed("min_sequence_number", "long", 516),
        _needed("added_snapshot_id", "long", 503), _needed("added_files_count", "int", 504),
        _needed("existing_files_count", "int", 505), _needed("deleted_files_count", "int", 506),
        _needed("added_rows_count", "long", 512), _needed("existing_rows_count", "long", 513),
        _needed("deleted_rows_count", "long", 514),
        _optional("partitions", {"type": "array", "items": summary, "element-id": 508}, 507),
    ]  # fmt: skip
    if version >= 3:
        fields.append(_optional("first_row_id", "long", 520))
    return {"type": "record", "name": "manifest_file", "fields": fields}
