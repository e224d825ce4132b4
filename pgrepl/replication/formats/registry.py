"""The readers and writers of formats by name, and their options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import BinaryIO

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.replication.formats import feeds, plugins
from pgrepl.replication.formats.debezium import DebeziumRecords, MaxwellRecords
from pgrepl.replication.formats.debezium_columns import DebeziumBlocks
from pgrepl.replication.formats.debezium_values import modes_of
from pgrepl.replication.formats.debezium_written import DebeziumWriter
from pgrepl.replication.formats.event import (
    BadRecord,
    Blocks,
    ChangeEvent,
    ColumnTypes,
    EventBlock,
    Events,
    Found,
    KnownTypes,
    Reader,
    one_by_one,
)
from pgrepl.replication.formats.plain import JsonLinesRecords, JsonLinesWriter, dms_blocks, plain_blocks, roles_of
from pgrepl.replication.formats.rows import csv_options
from pgrepl.replication.formats.wal2json import Wal2jsonRecords, Wal2jsonWriter
from pgrepl.replication.formats.written import LineWriter, SourceFacts

_Found = Iterator["ChangeEvent | BadRecord"]
_FoundBlocks = Iterator["EventBlock | ChangeEvent | BadRecord"]

_ROLES = ("op", "order", "xid", "at", "before", "schema_column", "table_column")
_CSV = ("delimiter", "quote", "null")

# format: the names of its options
OPTIONS: dict[str, tuple[str, ...]] = {
    "debezium": (
        "decimal_handling_mode", "time_precision_mode", "binary_handling_mode", "unavailable_value_placeholder",
        "add_fields_prefix",
    ),
    "wal2json": (),
    "test_decoding": (),
    "pgoutput": (),
    "maxwell": (),
    "dms": (*_ROLES, *_CSV, "columns"),
    "delta": _CSV,
    "ducklake": _CSV,
    "jsonl": _ROLES,
    "csv": (*_ROLES, *_CSV, "columns"),
    "parquet": _ROLES,
}  # fmt: skip
FORMATS = tuple(OPTIONS)
_DMS_NULL = "NULL"  # CsvNullValue


@frozen
class _Reader:
    """A format's functions: records one by one, and as columns where it has such a way."""

    records: Callable[[BinaryIO, str], _Found]
    columns: Callable[[BinaryIO, str], _FoundBlocks] | None = None
    lines: Callable[[BinaryIO, str], _FoundBlocks] | None = None  # reads any lines of a file like this one
    has_lines: Callable[[bytes], bool] = bool  # by the first bytes: do its lines mean the same without the others?

    def read(self, file: BinaryIO, name: str) -> Events:
        return Found(self.records(file, name))

    def blocks(self, file: BinaryIO, name: str) -> Blocks:
        return Found((self.columns or self.records)(file, name))

    def is_divisible(self, start: bytes) -> bool:
        return self.lines is not None and self.has_lines(start)

    def some_lines(self, file: BinaryIO, name: str) -> Blocks:
        assert self.lines is not None, "the file is divisible"
        return Found(self.lines(file, name))


def reader(name: str, options: Mapping[str, str] | None = None, types: ColumnTypes | None = None) -> Reader:
    """The reader of a format. `options` are the format's own (see docs/files.md); one that it does not know is an
    error. `types` tells the columns of the declared tables, for formats that encode values without naming the type; a
    format whose records name no table asks for that of (None, None)."""
    given = dict(options or {})
    if name not in OPTIONS:
        raise PgError("22023", f'unrecognized format "{name}"', hint=f"Available formats: {', '.join(FORMATS)}.")
    unknown = next((option for option in given if option not in OPTIONS[name]), None)
    if unknown is not None:
        listed = ", ".join(OPTIONS[name])
        hint = f"Valid options are: {listed}." if listed else "It has no options."
        raise PgError("22023", f'format "{name}" has no option "{unknown}"', hint=hint)
    return _READERS[name](name, given, types)


def _debezium(_: str, options: Mapping[str, str], types: ColumnTypes | None) -> Reader:
    modes, prefix = modes_of(options), options.get("add_fields_prefix", "__")
    if not prefix:
        raise PgError("22023", 'option "add_fields_prefix" must not be empty')

    def records(file: BinaryIO, name: str) -> _Found:
        return DebeziumRecords(modes, types, prefix).events(file, name)

    def blocks(file: BinaryIO, name: str) -> _FoundBlocks:
        known = None if types is None else KnownTypes(types)
        return DebeziumBlocks(lambda: DebeziumRecords(modes, known, prefix)).blocks(file, name)

    return _Reader(records, blocks, blocks, _is_object)


def _is_object(start: bytes) -> bool:
    return start.lstrip()[:1] == b"{"


def _wal2json(_: str, options: Mapping[str, str], types: ColumnTypes | None) -> Reader:
    records = Wal2jsonRecords(types)
    return _Reader(records.events, None, records.lines, records.has_lines)


def _maxwell(_: str, options: Mapping[str, str], types: ColumnTypes | None) -> Reader:
    events = MaxwellRecords(types).events
    return _Reader(events, None, events, _is_object)


def _by_columns(blocks: Callable[[BinaryIO, str], _FoundBlocks]) -> _Reader:
    return _Reader(lambda file, name: one_by_one(blocks(file, name)), blocks)


def _plain(kind: str, options: Mapping[str, str], types: ColumnTypes | None) -> Reader:
    if kind == "jsonl" and not options:
        events = JsonLinesRecords(types).events
        return _Reader(events, None, events, _is_object)
    blocks = partial(plain_blocks, kind, roles_of(options), csv_options(options), types)
    plain_reader = _by_columns(blocks)
    return replace(plain_reader, lines=blocks, has_lines=_is_object) if kind == "jsonl" else plain_reader


def _dms(_: str, options: Mapping[str, str], types: ColumnTypes | None) -> Reader:
    csv = csv_options({"null": _DMS_NULL, **options})
    return _by_columns(partial(dms_blocks, roles_of(options), csv, types))


def _feed(kind: str, options: Mapping[str, str], types: ColumnTypes | None) -> Reader:
    feed = feeds.DELTA if kind == "delta" else feeds.DUCKLAKE
    return _by_columns(partial(feeds.feed_blocks, feed, csv_options(options), types))


_READERS: dict[str, Callable[[str, Mapping[str, str], ColumnTypes | None], Reader]] = {
    "debezium": _debezium,
    "wal2json": _wal2json,
    "test_decoding": lambda *_: _Reader(plugins.test_decoding_events),
    "pgoutput": lambda *_: _Reader(plugins.pgoutput_events),
    "maxwell": _maxwell,
    "dms": _dms,
    "delta": _feed,
    "ducklake": _feed,
    "jsonl": _plain,
    "csv": _plain,
    "parquet": _plain,
}


def line_writer(name: str, context: SourceFacts) -> LineWriter:
    if name == "debezium":
        return DebeziumWriter(context)
    if name == "wal2json":
        return Wal2jsonWriter(context)
    return JsonLinesWriter(context)
