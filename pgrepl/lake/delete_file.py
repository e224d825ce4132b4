"""Delete files: the positions of a data file's deleted rows, as DuckLake and Iceberg write them.

A partial file has the snapshot of each deletion, too.
"""

from __future__ import annotations

import zlib
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pgrepl.lake import footers, storage
from pgrepl.lake.checksums import IDENTITY, SummedOutput
from pgrepl.lake.crash_points import crash_point
from pgrepl.lake.data_file import NewDeletes
from pgrepl.lake.file_writer import field_id
from pgrepl.lake.owner import make_folder
from pgrepl.lake.recent import Recent

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pgrepl.lake.data_file import DataFile, DeleteFile
    from pgrepl.lake.table import LakeTable

DELETES = "-delete.parquet"  # the end of such a file's name
_known: Recent[str, tuple[Any, Any]] = Recent(1 << 22, lambda found: len(found[0]) + (1 << 16))  # positions, 64 files


def write_deletes(
    table: LakeTable,
    file: DataFile,
    positions: npt.NDArray[np.int64],
    snapshots: npt.NDArray[np.int64] | None,
    begin_snapshot: int | None = None,
    snapshot: int | None = None,
    *,
    folder: str | None = None,
) -> NewDeletes:
    """Write a delete file with distinct positions, ascending; with `snapshots` a partial one. `folder`: an existing one
    in the table's."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = storage.new_name(DELETES)
    if folder is None:
        make_folder(table)
    else:
        name = f"{folder}/{name}"
    path = table.location + name
    same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(positions), np.int32)), pa.array([file.path]))
    arrays = [same, pa.array(positions)]  # the dictionary has the path once
    fields = [
        pa.field("file_path", same.type, nullable=False, metadata=field_id(footers.FILE_PATH)),
        pa.field("pos", pa.int64(), nullable=False, metadata=field_id(footers.POSITION)),
    ]
    if snapshots is not None:
        arrays.append(pa.array(snapshots))
        fields.append(pa.field(footers.SNAPSHOT_ID_NAME, pa.int64(), metadata=field_id(footers.SNAPSHOT_ID)))
    crash_point("stage.deletes")
    with storage.writing(path):
        sink = SummedOutput(path)
        with (
            closing(sink),
            pq.ParquetWriter(
                sink,
                pa.schema(fields),
                compression=table.compression,
                store_schema=False,
                use_dictionary=["file_path", footers.SNAPSHOT_ID_NAME],
                column_encoding={"pos": "DELTA_BINARY_PACKED"},
                write_page_checksum=True,
            ) as writer,
        ):
            writer.add_key_value_metadata({IDENTITY: name})
            writer.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)))
        crash_point("stage.deletes.closed")
        storage.make_durable(path)
    size, end = storage.read_footer(path)
    return NewDeletes(
        name,
        begin_snapshot,
        snapshot,
        len(positions),
        size,
        len(end) - storage.TAIL,
        zlib.crc32(end),
        sink.checksum,
    )


def has_usable_deletes(file: DataFile) -> bool:
    """Can Iceberg's readers use the delete files? They want its field ids, columns without NULLs, and the data file's
    path as it is now."""
    return all(_is_usable(each, file.path) for each in file.delete_files)


def _is_usable(file: DeleteFile, path: str) -> bool:
    footer = footers.of(file)
    names = footer.by_id.get(footers.FILE_PATH)
    if names is None or footer.is_former or any(footer.metadata.schema.column(i).max_definition_level for i in (0, 1)):
        return False
    for group in footer.row_groups:
        found = footer.metadata.row_group(group).column(names.first_leaf).statistics
        if found is None or not found.has_min_max or not found.min == found.max == path:
            return False
    return True


def read_positions(path: str) -> npt.NDArray[np.int64]:
    """The positions of a delete file that is not in the catalog yet."""
    import numpy as np

    footer = footers.footer(path)
    with footers.DataFileReader(footer) as reader:
        (found,) = reader.read(footer.row_groups, [footer.by_id[footers.POSITION]])
    positions: npt.NDArray[np.int64] = found.to_numpy().astype(np.int64, copy=False)
    return positions


def read_delete_file(file: DeleteFile) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The positions of a delete file, and the snapshot of each deletion. The last files are remembered."""
    import numpy as np

    known = _known.get(file.path)
    if known is not None:
        return known
    footer = footers.of(file)
    position = footer.by_id.get(footers.POSITION) or footer.by_name["pos"]
    snapshot = footer.by_id.get(footers.SNAPSHOT_ID) or footer.by_name.get(footers.SNAPSHOT_ID_NAME)
    columns = [position] if snapshot is None else [position, snapshot]
    with footers.DataFileReader(footer) as reader:
        arrays = [column.to_numpy() for column in reader.read(footer.row_groups, columns)]
    if snapshot is None:
        arrays.append(np.broadcast_to(np.int64(file.begin_snapshot), len(arrays[0])))
    found = (arrays[0].astype(np.int64, copy=False), arrays[1].astype(np.int64, copy=False))
    _known.put(file.path, found)
    return found
