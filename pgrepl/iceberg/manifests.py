"""Manifests and manifest lists, and the removal of metadata that nobody reads any more.

A manifest has the files of a range (contents.py), and its name a digest of what is in it: one that is there is not
written again. Sequence numbers are DuckLake's snapshots. Manifests are Avro files: an entry is put together from pieces
that are encoded once, which is faster than a general encoder.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pgrepl.ground.errors import PgError
from pgrepl.iceberg import tables
from pgrepl.iceberg.place import SETTING, TableFolder, digest, folder_names, place_of
from pgrepl.iceberg.schema import Shape
from pgrepl.lake import storage
from pgrepl.lake.read.footers import FILE_PATH

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.iceberg.place import Place

# --- Avro -------------------------------------------------------------------------------------------------------------


NOTHING = b"\x00"  # of an optional value
_MAGIC = b"Obj\x01"


def _encoded(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


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


# --- schemas -------------------------------------------------------------------------------------------------


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
def entry_schema(version: int) -> Schema:
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
def list_schema(version: int) -> Schema:
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


# --- manifests --------------------------------------------------------------------------------------------------------


DATA, DELETES = 0, 1  # kinds of files
_KINDS = ("data", "deletes")
NAMED = "pgrepl.files"  # of a file's own facts: the files in this folder that it names


class Statistics(NamedTuple):
    """Of a column in a file, as DuckLake has them."""

    size: int | None
    nulls: int | None
    low: str | None
    high: str | None
    has_nan: Any


class Entry(NamedTuple):
    """What a manifest list is told of an entry."""

    sequence: int
    rows: int
    first_row_id: int | None = None


@dataclass
class Plan:
    """A manifest as it has to be. `make` gives its encoded entries, and the names of the sidecars in them; it is told
    the manifest's last sequence number, whose files are those that were added."""

    name: str
    kind: int
    shape: Shape
    entries: Sequence[Entry]
    rows: int
    make: Callable[[int], tuple[list[bytes], list[str]]]
    row: tuple[int, bytes] = (-1, b"")  # of the manifest's length, its row in a list


class Writer:
    """Writes the manifests of a table, of one version of the format."""

    def __init__(self, folder: TableFolder, version: int) -> None:
        self.folder = folder
        self.version = version

    def name(self, kind: int, of: object, shape: Shape) -> str:
        """The name of the manifest with these contents."""
        return f"metadata/{_KINDS[kind]}-{digest(self.version, self.folder.location, shape.types, of)}.avro"

    def _row(self, plan: Plan) -> bytes:
        """The row of a manifest, which is written if it is not there."""
        size = self.folder.size(plan.name)
        if size is None:
            rows, sidecars = plan.make(max(entry.sequence for entry in plan.entries))
            facts = {
                "schema": json.dumps(plan.shape.json), "schema-id": str(plan.shape.version), "partition-spec": "[]",
                "partition-spec-id": "0", "format-version": str(self.version), "content": _KINDS[plan.kind],
                NAMED: json.dumps(sidecars),
            }  # fmt: skip
            size = self.folder.write(plan.name, container(entry_schema(self.version), facts, rows))
        if plan.row[0] != size:
            plan.row = size, self._encoded(plan, size)
        return plan.row[1]

    def manifest_list(self, snapshot: int, plans: Sequence[Plan]) -> str:
        """The name of the list of a snapshot's manifests."""
        names = [plan.name for plan in plans]
        name = f"metadata/snap-{snapshot}-{digest(self.version, self.folder.location, names)}.avro"
        if self.folder.size(name) is None:
            facts = {"snapshot-id": str(snapshot), "sequence-number": str(snapshot), "parent-snapshot-id": "null",
                     "format-version": str(self.version), NAMED: json.dumps(names)}  # fmt: skip
            rows = [self._row(plan) for plan in plans]
            self.folder.write(name, container(list_schema(self.version), facts, rows))
        return name

    def _encoded(self, plan: Plan, size: int) -> bytes:
        entries = plan.entries
        last = max(entry.sequence for entry in entries)
        added = [entry.rows for entry in entries if entry.sequence == last]
        rows = sum(entry.rows for entry in entries)
        numbers = (size, 0, plan.kind, last, min(entry.sequence for entry in entries), last, len(added),
                   len(entries) - len(added), 0, sum(added), rows - sum(added), 0)  # fmt: skip
        fields = [text(self.folder.path(plan.name)), *map(number, numbers), NOTHING]
        if self.version >= 3:
            first = [entry.first_row_id for entry in entries if entry.first_row_id is not None]
            fields.append(some_number(min(first) if first and plan.kind == DATA else None))
        return b"".join(fields)

    # --- entries --------------------------------------------------------------------------------------------------

    def data_file(self, shape: Shape, path: str, entry: Entry, size: int, statistics: dict[int, Statistics]) -> bytes:
        """A data file's entry without its head."""
        fields = [
            text(path), _parquet(), number(entry.rows), number(size),
            *_metrics(shape, entry.rows, statistics), some_number(0), NOTHING,
        ]  # fmt: skip
        if self.version >= 3:
            fields += [some_number(entry.first_row_id), NOTHING, NOTHING]
        return b"".join(fields)

    def delete_entry(self, path: str, of: str, entry: Entry, size: int, last: int, vector: Vector | None) -> bytes:
        """`of`: the path of the data file; `vector`: the place of a deletion vector in its file."""
        if vector is None:
            bound = some(array([number(FILE_PATH) + text(of)]))
            metrics, file_format = (NOTHING * 4 + bound * 2), _parquet()
        else:
            metrics, file_format = NOTHING * 6, text("PUFFIN")
        fields = [
            head(entry.sequence, last, DELETES), text(path), file_format, number(entry.rows),
            number(size), metrics, NOTHING, some(text(of)),
        ]  # fmt: skip
        if self.version >= 3:
            place = (None, None) if vector is None else vector
            fields += [NOTHING, *map(some_number, place)]
        return b"".join(fields)


class Vector(NamedTuple):
    """The place of a deletion vector in its file."""

    offset: int
    size: int


@cache
def _parquet() -> bytes:
    return text("PARQUET")


def head(sequence: int, last: int, kind: int) -> bytes:
    """Whether the file was added by the manifest's last snapshot, by which snapshot it was; what it holds."""
    encoded = some_number(sequence)
    return number(1 if sequence == last else 0) + encoded * 3 + number(kind)


def _metrics(shape: Shape, rows: int, statistics: dict[int, Statistics]) -> list[bytes]:
    """Sizes, numbers of values, of NULLs and of NaNs, lower and upper bounds."""
    sizes, counts, nulls, nans, lows, highs = [], [], [], [], [], []
    count = number(rows)
    for leaf in shape.leaves:
        known = statistics.get(leaf.id)
        if known is None:
            continue
        key = number(leaf.id)
        if known.size is not None:
            sizes.append(key + number(known.size))
        if leaf.is_column:
            counts.append(key + count)
            if known.nulls is not None:
                nulls.append(key + number(known.nulls))
        if leaf.is_float:
            if known.has_nan is None or known.has_nan:
                continue  # DuckDB takes NaN for the greatest value, and would skip the file
            nans.append(key + b"\x00")
        if known.low is not None and (low := leaf.low(known.low)) is not None:
            lows.append(key + data(low))
        if known.high is not None and (high := leaf.high(known.high)) is not None:
            highs.append(key + data(high))
    return [some(array(pairs)) for pairs in (sizes, counts, nulls, nans, lows, highs)]


# --- cleaning ---------------------------------------------------------------------------------------------------------


HINT = "metadata/version-hint.text"
_LIST = re.compile(r'"manifest-list": "([^"]*)"')
_METADATA = ".metadata.json"
_EXPORTED = re.compile(r"/v\d+\.metadata\.json\Z")
_DIGEST = "[0-9a-f]{24}"
_OURS = re.compile(
    rf"metadata/((00000-{_DIGEST}|v\d+)\.metadata\.json|(data|deletes|snap-\d+)-{_DIGEST}\.avro|version-hint\.text)(\..*tmp)?"
    rf"|data/(rows|deletes)-{_DIGEST}\.(parquet|puffin)(\..*tmp)?"
)
_PARTS = 4  # of the time: so often it is looked for what can go
_MAKING = 60  # seconds that metadata may be in the making


swept: dict[str, float] = {}  # when this process has looked at a folder


def sweep(folder: TableFolder, current: str, grace: int) -> None:
    """Remove what no metadata.json names that was the current one within `grace` seconds. A process looks at a folder
    a few times in that time."""
    now = time.monotonic()
    if now < swept.get(folder.location, -grace) + grace / _PARTS:
        return
    swept[folder.location] = now
    ages = {name: age for name, age in folder.ages().items() if _OURS.fullmatch(name)}
    written = sorted((age, name) for name, age in ages.items() if name.endswith(_METADATA))
    dead = {name for is_of in (_EXPORTED.search, _is_own) for name in _followed(written, is_of, grace)} - {current}
    if not dead or max(ages[name] for name in dead) < grace + grace / _PARTS:
        return
    living = named_by(folder, [name for _, name in written if name not in dead])
    for name, age in ages.items():
        if name in dead or (name not in living and age > max(grace, _MAKING)):
            folder.remove(name)


def _is_own(name: str) -> bool:
    return not _EXPORTED.search(name)


def _followed(written: list[tuple[float, str]], is_of: Callable[[str], object], grace: int) -> list[str]:
    """Those that were followed by another one longer than `grace` ago."""
    return [name for age, name in written if age > grace and is_of(name)][1:]  # the first may have been followed lately


def named_by(folder: TableFolder, metadata: Sequence[str]) -> set[str]:
    """The files that are named by these, directly or not."""
    start = len(folder.location) + 1
    waiting = [path[start:] for name in metadata for path in _LIST.findall(folder.read(name) or "")]
    names = {*metadata, HINT}
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            if name.endswith(".avro"):
                waiting += json.loads(facts_of(folder.bytes_of(name)).get(NAMED, "[]"))
    return names


def remove_dropped(session: Session) -> None:
    """Remove the metadata of tables that are no more, and of which nothing was asked for within the time."""
    try:
        _remove_dropped(session, place_of(session))
    except PgError as problem:  # there is no place, or it does not answer
        if session.settings.get(SETTING):
            session.notice("WARNING", f"metadata of dropped tables was not removed: {problem.message}")


def _remove_dropped(session: Session, place: Place) -> None:
    grace = int(session.settings.value("pgrepl.iceberg_grace"))
    there = {folder_names(namespace, name) for namespace, name in tables.of_everyone(session)}
    for folder in _folders(place, there):
        ages = folder.ages()
        if ages and all(age > grace for age in ages.values()):
            for name in ages:
                if _OURS.fullmatch(name):
                    folder.remove(name)


def _folders(place: Place, but: set[tuple[str, str]]) -> Iterator[TableFolder]:
    for namespace in storage.folders_in(f"{place.location}/"):
        for name in storage.folders_in(f"{place.location}/{namespace}/"):
            if (namespace, name) not in but:
                yield TableFolder(f"{place.location}/{namespace}/{name}")
