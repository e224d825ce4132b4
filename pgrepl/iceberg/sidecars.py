"""Small files beside the metadata, for what is not in the lake's files as Iceberg wants it: inlined rows and deletes,
and delete files of an older form, of a lake that was moved, or with later deletes in them, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pgrepl.iceberg.avro import number
from pgrepl.iceberg.contents import Data, Deletes, InlinedPart, digest
from pgrepl.iceberg.manifests import Statistics, Vector
from pgrepl.iceberg.place import TableFolder
from pgrepl.iceberg.schema import Shape
from pgrepl.lake import deletion_vector, footers, inlined, storage
from pgrepl.lake.data_file import DeleteFile
from pgrepl.lake.delete_file import read_delete_file
from pgrepl.lake.file_writer import field_id, schema_of, with_statistics
from pgrepl.lake.statistics import of_rows
from pgrepl.lake.table import LakeTable, lake_table

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def write_rows(
    session: Session, folder: TableFolder, table: LakeTable, shape: Shape, name: str, snapshot: int, part: InlinedPart
) -> dict[int, Statistics]:
    """Write inlined rows at a snapshot into the file, if it is not there; their statistics."""
    shown = replace(table, columns=tuple([c for c in table.columns if c.column_id in shape.ids]))
    rows = inlined.rows_between(session, shown, snapshot, part.first, part.last)
    values = [row.values for row in rows]
    if folder.size(name) is None:
        folder.write(name, _rows_file(shown, rows))
    return {
        number: Statistics(None, found.nulls, found.low, found.high, found.has_nan)
        for number, found in of_rows(shown, values).items()
    }


def table_at(session: Session, table: LakeTable, snapshot: int, last: int) -> LakeTable:
    return table if snapshot == last else lake_table(session, table.oid, snapshot)


def _rows_file(table: LakeTable, rows: Sequence[inlined.InlinedRow]) -> bytes:
    import pyarrow as pa

    columns = list(zip(*[row.values for row in rows], strict=True)) or [()] * len(table.columns)
    arrays = [column.form.to_array(list(given)) for column, given in zip(table.columns, columns, strict=True)]
    arrays += [pa.array([row.row_id for row in rows], pa.int64()),
               pa.array([row.begin_snapshot for row in rows], pa.int64())]  # fmt: skip
    changed = pa.field(footers.SNAPSHOT_ID_NAME, pa.int64(), metadata=field_id(footers.SNAPSHOT_ID))
    schema = schema_of(table, row_ids=True).append(changed)
    return _parquet(pa.Table.from_arrays(arrays, schema=schema), write_statistics=with_statistics(table))


def _parquet(table: Any, **options: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False, compression="zstd", **options)
    return bytes(sink.getvalue())


# --- deletes ------------------------------------------------------------------------------------------------------


def deletes_name(of: object, data: Data) -> str:
    return f"data/deletes-{digest(of, data.path)}.parquet"


def write_positions(folder: TableFolder, name: str, data: Data, positions: Any) -> int:
    """Write a position delete file for a data file; its size."""
    import numpy as np
    import pyarrow as pa

    paths = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(positions), np.int32)), pa.array([data.path]))
    schema = pa.schema([
        pa.field("file_path", paths.type, False, field_id(footers.FILE_PATH)),
        pa.field("pos", pa.int64(), False, field_id(footers.POSITION)),
    ])  # fmt: skip
    table = pa.Table.from_arrays([paths, pa.array(positions, pa.int64())], schema=schema)
    encodings = {"pos": "DELTA_BINARY_PACKED"}
    return folder.write(name, _parquet(table, use_dictionary=["file_path"], column_encoding=encodings))


def place_vector(folder: TableFolder, file: Deletes, data: Data, snapshot: int) -> tuple[str, int, int, Vector]:
    """The deletion vector of a snapshot: the path of its file, its rows, the file's size, its place in it.

    pyiceberg asks the file which data file a vector is for, and takes all vectors in it. So a file that does not say
    that, or has those of several snapshots, is written anew, with one.
    """
    with storage.reading(file.path), storage.open_input(file.path) as stream:
        content = bytes(stream.read())
    found = deletion_vector.blobs(content)
    is_whole = len(found) == 1 and (found[0].snapshot or 0) <= snapshot and json.dumps(data.path).encode() in content
    if is_whole:
        return file.path, file.rows, file.size, Vector(found[0].offset, found[0].length)
    import numpy as np

    positions, snapshots = read_delete_file(_lake_file(file))
    positions = positions[snapshots <= snapshot]
    name = f"data/deletes-{digest(positions.tolist(), data.path)}.puffin"
    content, _ = deletion_vector.made(positions, np.zeros(len(positions), np.int64), data.path)
    if folder.size(name) is None and len(positions):
        folder.write(name, content)
    vector = deletion_vector.blobs(content)[0] if len(positions) else found[0]
    return folder.path(name), len(positions), len(content), Vector(vector.offset, vector.length)


def copy_deletes(folder: TableFolder, file: Deletes, data: Data, snapshot: int) -> tuple[str, int, int]:
    """A delete file as Iceberg wants it, of the deletes up to a snapshot: its path, its rows and its size."""
    positions, snapshots = read_delete_file(_lake_file(file))
    positions = positions[snapshots <= snapshot]
    name = deletes_name(positions.tolist(), data)
    size = folder.size(name)
    if size is None and len(positions):
        size = write_positions(folder, name, data, positions)
    return folder.path(name), len(positions), size or 0


def _lake_file(file: Deletes) -> DeleteFile:
    return DeleteFile(
        file.id, file.data_file, file.begin, file.path, file.rows, file.size, file.partial, format=file.format
    )


_LIKELY = 16 * 1024  # bytes of which a delete file's footer has fewer
_PATH_ID = number(footers.FILE_PATH)  # as it stands in a footer: Thrift's numbers are Avro's


@lru_cache(2000)
def footer(path: str) -> bytes:
    """The file's bytes from its footer on; of a file on this machine without pyarrow, which is large."""
    local = storage.local_path(path)
    if local is not None:
        with storage.reading(path), open(local, "rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _LIKELY, 0))
            end = file.read()
        wanted = int.from_bytes(end[-storage.TAIL : -4], "little") + storage.TAIL
        if wanted <= len(end):
            return end[-wanted:]
    return storage.read_footer(path)[1]


def is_as_wanted(file: Deletes, data: Data) -> bool:
    """Has the delete file Iceberg's field ids, and the data file's path of now?

    Its footer has the path as a bound: with its length before it, so that a longer one is not taken for it.
    """
    end = footer(file.path)
    path = data.path.encode()
    length, sized = len(path), b""
    while length > 0x7F:
        sized, length = sized + bytes([length & 0x7F | 0x80]), length >> 7
    return _PATH_ID in end and b"\x18" + sized + bytes([length]) + path in end
