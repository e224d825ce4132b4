"""Staging of rows that Spark writes: data files in the table's folder, which are not in the catalog until the commit.

Spark writes into a folder of its own inside the table's. On a local disk the files are then moved to the table's folder
and renamed; in an object store, where a move would be a copy, they stay where they are. Each file's footer is read
once, to check that every column has its field id, and for the statistics.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.lake import checksums, footers, spark, storage
from pgrepl.lake.checksums import IDENTITY
from pgrepl.lake.crash_points import crash_point
from pgrepl.lake.ctid import once
from pgrepl.lake.data_file import NewFile
from pgrepl.lake.object_store_cache import writable
from pgrepl.lake.owner import make_folder
from pgrepl.lake.scan import spark_path
from pgrepl.lake.stage_field_ids import footer_end, with_field_ids
from pgrepl.lake.stage_positions import Positions, locate, row_ids_of
from pgrepl.lake.stage_progress import watch_folder
from pgrepl.lake.stage_statistics import of_footer
from pgrepl.thread_pool import ThreadPool

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.lake.table import LakeColumn, LakeTable

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
    make_folder(table)
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
        checksum=None if storage.local_path(path) is None else checksums.of_file(path),
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
