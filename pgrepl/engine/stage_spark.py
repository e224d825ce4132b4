"""Staging of rows that Spark writes: data files in the table's folder, which are not in the catalog until the commit.

Each file's footer is read once, for its field ids and statistics. Spark writes no field ids of fields inside lists
and structs: they are written into the footer afterwards (Thrift's compact protocol), the data stay as they are.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pgrepl.engine import spark
from pgrepl.engine.job import watch_folder
from pgrepl.engine.object_store_cache import writable
from pgrepl.engine.scan_spark import spark_path
from pgrepl.ground.errors import PgError
from pgrepl.ground.threads import ThreadPool
from pgrepl.lake import storage
from pgrepl.lake.read import footers
from pgrepl.lake.read.data_file import NewFile, once
from pgrepl.lake.read.places import Positions, locate, row_ids_of
from pgrepl.lake.storage import crash_point, make_table_folder
from pgrepl.lake.write import file_writer
from pgrepl.lake.write.file_writer import IDENTITY, of_footer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.table import LakeColumn, LakeField, LakeTable

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
            _number_element(by_name[column.name], column.type, column.fields)
    header = bytes([count << 4 | _STRUCT]) if count < 15 else bytes([0xF0 | _STRUCT]) + _varint(count)
    return footer[:start] + header + b"".join(element.written() for element in elements) + footer[end:]


def _tree(elements: Iterator[_Element]) -> _Element:
    element = next(elements)
    element.children = [_tree(elements) for _ in range(element.count)]
    return element


def _number_element(element: _Element, kind: str, fields: Sequence[LakeField]) -> None:
    """Set the field ids of a nested element's children."""
    inside = element.children if kind == "struct" else [e for repeated in element.children for e in repeated.children]
    found: Mapping[str, _Element] = {child.name: child for child in inside}
    for at, field in enumerate(fields):
        child = found.get(field.name) if kind == "struct" else inside[at]
        if child is not None:
            child.fields[_FIELD_ID] = (_I32, _varint(field.column_id << 1))
            _number_element(child, field.type, field.fields)


def _varint(value: int) -> bytes:
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def footer_end(footer: bytes) -> bytes:
    """The bytes after the footer: its length and the magic word."""
    return struct.pack("<I", len(footer)) + MAGIC


# --- stage ------------------------------------------------------------------------------------------------------------


ROW_GROUP_BYTES = 16 * 1024 * 1024  # small row groups are as fast to scan, and much faster for look-ups
ROW_GROUP_ROWS = 491_520
SMALL_BYTES = 8 * 1024 * 1024  # up to this size together rows go into one file
_OF_SPARK = {"lz4": "lz4_raw"}  # Spark's names
_AT_A_TIME = 8  # files finished together


def write_frame(session: Session, table: LakeTable, df: DataFrame, row_ids: str | None = None) -> list[NewFile]:
    """Write the rows. `df` has a column c{attnum} for each column of the table, in any order (others are left out).
    `row_ids` names the column with the row ids of updated rows. Files without rows are removed; after an error no file
    is left."""
    identity = storage.uuid7()
    columns = [_with_id(f"c{c.attnum}", c.form.spark, c.name, c.column_id, identity) for c in table.columns]
    if row_ids is not None:
        columns.append(_with_id(row_ids, "bigint", footers.ROW_ID_NAME, footers.ROW_ID, identity))
    with _folder(table) as folder:
        crash_point("stage.write")
        with spark.pg_errors(), writable(folder) as target, watch_folder(session, lambda: _parts(folder)):
            written = df.select(*columns).write.option("parquet.block.size", ROW_GROUP_BYTES)
            written.option("compression", _OF_SPARK.get(table.compression, table.compression))
            written.option("parquet.page.write-checksum.enabled", "true")
            written.option("parquet.block.row.count.limit", ROW_GROUP_ROWS).parquet(spark_path(target))
        crash_point("stage.written")
        paths = _together(folder, _parts(folder), table.compression)
        return _finished(table, paths, with_row_ids=row_ids is not None)


def _with_id(name: str, kind: str, output: str, field_id: int, identity: str) -> Column:
    """A column with its field id. Spark writes its metadata into the footer, which `identity` makes different from that
    of every other write."""
    from pyspark.sql import functions as F

    # not DataFrame.to(schema), which drops field ids
    return F.col(name).cast(kind).alias(output, metadata={"parquet.field.id": field_id, IDENTITY: identity})


# --- the folder ------------------------------------------------------------------------------------------------------


@contextmanager
def _folder(table: LakeTable) -> Iterator[str]:
    """A new folder in the table's for one write; it stays only in an object store, which keeps the files in it."""
    make_table_folder(table)
    folder = f"{table.location}ducklake-{storage.uuid7()}"
    try:
        yield folder
    except BaseException:
        _remove(folder)
        raise
    if storage.local_path(folder) is not None:
        _remove(folder)


def _remove(folder: str) -> None:
    local = storage.local_path(folder)
    if local is not None:
        shutil.rmtree(local, ignore_errors=True)
        return
    system, inside = storage.file_system(folder)
    with suppress(OSError):  # nothing has been written
        system.delete_dir(inside)


def _parts(folder: str) -> list[tuple[str, int]]:
    """The files that Spark has written, in the order of its partitions, with their sizes."""
    from pyarrow import fs

    system, inside = storage.file_system(folder)
    listed = system.get_file_info(fs.FileSelector(inside, allow_not_found=True))
    return sorted((f"{folder}/{each.base_name}", each.size) for each in listed if each.base_name.endswith(".parquet"))


def _together(folder: str, parts: Sequence[tuple[str, int]], compression: str) -> list[str]:
    """The files, or one with all rows if they are small: many small files are slow to read."""
    paths = [path for path, _ in parts]
    if len(parts) < 2 or sum(size for _, size in parts) > SMALL_BYTES:
        return paths
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.concat_tables([_read(path) for path in paths])
    one = f"{folder}/all.parquet"
    with storage.writing(one), storage.open_output(one) as output:
        writer = pq.ParquetWriter(
            output, rows.schema, compression=compression, store_schema=False, write_page_checksum=True
        )
        with writer:
            writer.add_key_value_metadata({IDENTITY: folder})
            writer.write_table(rows)
    for path in paths:
        storage.remove(path)
    return [one]


def _read(path: str) -> Any:
    import pyarrow.parquet as pq

    with storage.reading(path), storage.open_input(path) as source:
        return pq.read_table(source)


# --- the files -------------------------------------------------------------------------------------------------------


def _finished(table: LakeTable, paths: Sequence[str], *, with_row_ids: bool) -> list[NewFile]:
    """The files with rows, complete and in their places."""
    moved: list[str] = []
    try:
        with ThreadPool(_AT_A_TIME) as threads:
            placed = list(threads.map(lambda path: _placed(table, path, moved), paths))
            made = [path for path in placed if path is not None]
            return list(threads.map(lambda path: _new_file(table, path, with_row_ids), made))
    except BaseException:
        for path in moved:
            storage.remove(path)
        raise


def _placed(table: LakeTable, path: str, moved: list[str]) -> str | None:
    """The file's final path, with all field ids in it; None: it has no rows. A path outside of the write's folder is
    noted in `moved` before the file is there, as other files may fail meanwhile."""
    import pyarrow.parquet as pq

    with storage.reading(path), storage.open_input(path) as source:
        rows = pq.read_metadata(source).num_rows
    if rows == 0:
        storage.remove(path)
        return None
    nested = [column for column in table.columns if column.fields]
    local = storage.local_path(path)
    if local is None:
        return _copied(path, nested) if nested else path
    if nested:
        _number(local, nested)
    final = table.location + storage.new_name()
    moved.append(final)
    with storage.writing(final):
        os.rename(local, storage.local_path(final) or "")
        storage.make_durable(final)
    return final


def _number(local: str, nested: Sequence[LakeColumn]) -> None:
    """Write the field ids of nested fields into the footer, in place."""
    with storage.writing(local), open(local, "r+b") as file:
        file.seek(-storage.TAIL, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-storage.TAIL - length, os.SEEK_END)
        at = file.tell()
        footer = with_field_ids(file.read(length), nested)
        file.seek(at)
        file.write(footer + footer_end(footer))
        file.truncate()


def _copied(path: str, nested: Sequence[LakeColumn]) -> str:
    """Write a copy with the field ids of nested fields, where files cannot be changed in place."""
    other = path.removesuffix(".parquet") + "-ids.parquet"
    with storage.reading(path), storage.open_input(path) as source:
        content = source.read()
    length = int.from_bytes(content[-storage.TAIL : -4], "little")
    at = len(content) - storage.TAIL - length
    footer = with_field_ids(content[at : -storage.TAIL], nested)
    with storage.writing(other), storage.open_output(other) as output:
        output.write(memoryview(content)[:at])
        output.write(footer + footer_end(footer))
    storage.remove(path)
    return other


def _new_file(table: LakeTable, path: str, with_row_ids: bool) -> NewFile:
    footer = footers.footer(path)
    missing = [column.name for column in table.columns if column.column_id not in footer.by_id]
    if missing or (with_row_ids and footers.ROW_ID not in footer.by_id):
        raise PgError("XX000", f'Spark wrote file "{path}" without field ids', detail=f"Columns: {', '.join(missing)}.")
    return NewFile(
        name=path.removeprefix(table.location),
        record_count=footer.metadata.num_rows,
        file_size_bytes=footer.size,
        footer_size=footer.footer_size,
        statistics=of_footer(footer, table),
        has_row_ids=with_row_ids,
        footer_checksum=footer.checksum,
        checksum=None if storage.local_path(path) is None else file_writer.of_file(path),
    )


__all__ = ["Positions", "locate", "positions", "row_ids_of", "write_frame"]


def positions(places: DataFrame, column: str = "place") -> Positions:
    """The places in a column of a DataFrame, which is run once."""
    from pyspark.sql import functions as F

    file, pos, row = (F.col(f"{column}.{part}") for part in ("file", "pos", "row"))
    with spark.pg_errors():
        found = places.select(
            F.coalesce(file, F.lit(-1)).alias("file"), F.when(file.isNull(), row).otherwise(pos).alias("at")
        ).toArrow()
    return _grouped(found["file"].to_numpy(), found["at"].to_numpy())


def _grouped(files: Any, at: Any) -> Positions:
    import numpy as np

    order = np.argsort(files, kind="stable")
    present, starts = np.unique(files[order], return_index=True)
    parts = np.split(at[order], starts[1:]) if len(present) else []
    found = {int(file): once(part) for file, part in zip(present, parts, strict=True)}
    return Positions(found, found.pop(-1, np.empty(0, np.int64)))
