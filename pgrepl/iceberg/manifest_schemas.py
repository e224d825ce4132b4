"""The Avro schemas of manifests and manifest lists, with Iceberg's field ids, without fields that are never told."""

from __future__ import annotations

from functools import cache
from typing import Any

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
