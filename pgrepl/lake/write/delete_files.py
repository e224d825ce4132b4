"""Delete files: the positions of a data file's deleted rows, in Parquet or as deletion vectors; staged, read, merged.

A partial file has the snapshot of each deletion, too. A deletion vector is a Roaring bitmap, as Iceberg defines them
for Puffin files. A file of DuckLake 1.0 is one bare blob; its deletions are of the snapshot at which the file begins.
One of DuckLake 1.1 may be a Puffin container, as Iceberg has it, with a blob for each snapshot; each has all positions
that are deleted at its snapshot.

blob:      size (big-endian) | magic | bitmap | CRC-32 of magic and bitmap (big-endian)
bitmap:    number of 32-bit bitmaps, and of each its upper 32 bits and itself (Roaring's portable format)
container: PFA1 | blobs | PFA1 | JSON about the blobs | its size | flags | PFA1
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pq
from pgrepl.lake import storage
from pgrepl.lake.read import footers, inlined
from pgrepl.lake.read.data_file import PARQUET, PUFFIN, NewDeletes, once
from pgrepl.lake.read.files import last_snapshot
from pgrepl.lake.read.footers import Recent
from pgrepl.lake.storage import crash_point, make_table_folder
from pgrepl.lake.write.file_writer import IDENTITY, SummedOutput, field_id

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import DataFile, DeleteFile
    from pgrepl.lake.table import LakeTable

    Numbers = npt.NDArray[np.int64]
    AnyNumbers = npt.NDArray[Any]
    Positions = npt.NDArray[np.int64]

DELETES, VECTORS = "-delete.parquet", "-delete.puffin"  # the ends of such files' names
_known: Recent[str, tuple[Any, Any]] = Recent(1 << 22, lambda pair: len(pair[0]) + (1 << 16))  # positions, 64 files


def write_deletes(
    table: LakeTable,
    file: DataFile,
    positions: Numbers,
    snapshots: Numbers | None,
    begin_snapshot: int | None = None,
    snapshot: int | None = None,
    *,
    folder: str | None = None,
) -> NewDeletes:
    """Write a delete file with distinct positions, ascending; with `snapshots` a partial one. `folder`: an existing one
    in the table's."""
    is_vector = table.vectors >= (1 if snapshots is None else max(2, len(np.unique(snapshots))))
    name = storage.new_name(VECTORS if is_vector else DELETES)
    if folder is None:
        make_table_folder(table)
    else:
        name = f"{folder}/{name}"
    write = _write_vectors if is_vector else _write_positions
    kind = PUFFIN if is_vector else PARQUET
    return NewDeletes(
        name, begin_snapshot, snapshot, len(positions), *write(table, name, file.path, positions, snapshots), kind
    )


def _write_vectors(
    table: LakeTable, name: str, data_path: str, positions: Numbers, snapshots: Numbers | None
) -> tuple[int, int, int, int]:
    """Write deletion vectors; returns the file's size, its footer's, the checksum that is compared, and the file's."""
    data, footer = made(positions, snapshots, data_path, contained=table.vectors > 1)
    path = table.location + name
    crash_point("stage.deletes")
    storage.write(path, data)
    crash_point("stage.deletes.closed")
    with storage.writing(path):
        storage.make_durable(path)
    checksum = zlib.crc32(data)
    return len(data), footer, checksum, checksum


def _write_positions(
    table: LakeTable, name: str, data_path: str, positions: Numbers, snapshots: Numbers | None
) -> tuple[int, int, int, int]:
    """Write positions as Parquet; returns what `_write_vectors` does."""
    path = table.location + name
    same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(positions), np.int32)), pa.array([data_path]))
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
    return size, len(end) - storage.TAIL, zlib.crc32(end), sink.checksum


def has_usable_deletes(file: DataFile) -> bool:
    """Can Iceberg's readers use the delete files? They want its field ids, columns without NULLs, and the data file's
    path as it is now."""
    return all(_is_usable(deletes, file.path) for deletes in file.delete_files)


def _is_usable(file: DeleteFile, path: str) -> bool:
    if file.format == PUFFIN:
        return True
    footer = footers.of(file)
    names = footer.by_id.get(footers.FILE_PATH)
    if names is None or footer.is_former or any(footer.metadata.schema.column(i).max_definition_level for i in (0, 1)):
        return False
    for group in footer.row_groups:
        statistics = footer.metadata.row_group(group).column(names.first_leaf).statistics
        if statistics is None or not statistics.has_min_max or not statistics.min == statistics.max == path:
            return False
    return True


def read_positions(path: str) -> Numbers:
    """The positions of a delete file that is not in the catalog yet."""
    if path.endswith(VECTORS):
        return read(_whole(path), 0)[0]
    footer = footers.footer(path)
    with footers.DataFileReader(footer) as reader:
        (column,) = reader.read(footer.row_groups, [footer.by_id[footers.POSITION]])
    positions: Numbers = column.to_numpy().astype(np.int64, copy=False)
    return positions


def read_delete_file(file: DeleteFile) -> tuple[Numbers, Numbers]:
    """The positions of a delete file, and the snapshot of each deletion. The last files are remembered."""
    known: tuple[Numbers, Numbers] | None = _known.get(file.path)
    if known is None:
        known = _read_vectors(file) if file.format == PUFFIN else _read_positions(file)
        _known.put(file.path, known)
    return known


def _whole(path: str) -> bytes:
    with storage.reading(path), storage.open_input(path) as stream:
        return bytes(stream.read())


def _read_vectors(file: DeleteFile) -> tuple[Numbers, Numbers]:
    data = _whole(file.path)
    footers.compare_with(file, len(data), zlib.crc32(data))
    try:
        pair = read(data, file.begin_snapshot)
    except Damaged as problem:
        footers.damaged(file.path, str(problem))
    if len(pair[0]) != file.delete_count:
        footers.damaged(file.path, f"It has {len(pair[0])} positions instead of {file.delete_count}.")
    return pair


def _read_positions(file: DeleteFile) -> tuple[Numbers, Numbers]:
    footer = footers.of(file)
    position = footer.by_id.get(footers.POSITION) or footer.by_name["pos"]
    snapshot = footer.by_id.get(footers.SNAPSHOT_ID) or footer.by_name.get(footers.SNAPSHOT_ID_NAME)
    columns = [position] if snapshot is None else [position, snapshot]
    with footers.DataFileReader(footer) as reader:
        arrays = [column.to_numpy() for column in reader.read(footer.row_groups, columns)]
    if snapshot is None:
        arrays.append(np.broadcast_to(np.int64(file.begin_snapshot), len(arrays[0])))
    return arrays[0].astype(np.int64, copy=False), arrays[1].astype(np.int64, copy=False)


# --- deleted rows -----------------------------------------------------------------------------------------------------


def deleted_positions(
    session: Session, table: LakeTable, file: DataFile, snapshot: int | None = None
) -> npt.NDArray[np.int64]:
    """The positions of the file that are deleted at the snapshot, ascending, none twice."""
    return once(deletions(session, table, file, snapshot)[0])


def deletions(
    session: Session, table: LakeTable, file: DataFile, snapshot: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The deleted positions with the snapshot of each deletion; in no order."""
    at = last_snapshot(session) if snapshot is None else snapshot
    own = inlined.deletes(session, table, at, file.data_file_id).get(file.data_file_id, [])
    return joined(file.delete_files, own, at)


def joined(
    delete_files: Sequence[DeleteFile], own: list[tuple[int, int]], snapshot: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The deletions of delete files and inlined deletes (position, snapshot) together."""
    positions, snapshots = np.array(own, np.int64).reshape(-1, 2).T
    for delete_file in delete_files:
        listed, when = read_delete_file(delete_file)
        past = when <= snapshot
        if not past.all():
            listed, when = listed[past], when[past]
        positions, snapshots = np.concatenate([positions, listed]), np.concatenate([snapshots, when])
    return positions, snapshots


# --- staged deletes ---------------------------------------------------------------------------------------------------


@frozen
class StagedDeletes:
    """Deletes from one data file. `file` None: no row is left, so that the data file ends. `count`: the number of new
    positions."""

    data_file_id: int
    count: int
    file: NewDeletes | None
    replaces: tuple[int, ...]  # the data file's old delete files: DuckDB may have made more than one


def stage_deletes(
    table: LakeTable,
    file: DataFile,
    own: Sequence[tuple[int, int]],
    positions: AnyNumbers,
    at: int,
    likely: int,
    folder: str | None = None,
) -> StagedDeletes:
    """Stage deletes of distinct positions, ascending. `own`: the file's inlined deletes, position and snapshot. `at`:
    the snapshot that is read; `likely`: the one of these deletes. `folder`: an existing one in the table's."""
    old = file.delete_files
    replaces = tuple(sorted(deletes.delete_file_id for deletes in old))
    gone, _ = joined(old, list(own), at)
    alive = np.ones(file.record_count, np.bool_)
    alive[gone] = alive[positions] = False
    if not alive.any():
        return StagedDeletes(file.data_file_id, len(positions), None, replaces)
    if not old:
        staged = write_deletes(table, file, positions, None, folder=folder)
        return StagedDeletes(file.data_file_id, len(positions), staged, replaces)
    before = [read_delete_file(deletes) for deletes in old]
    merged = np.concatenate([*(listed for listed, _ in before), positions])
    snapshots = np.concatenate([*(when for _, when in before), np.full(len(positions), likely, np.int64)])
    order = np.lexsort((snapshots, merged))  # of two deletions of a row the first counts
    merged, snapshots = merged[order], snapshots[order]
    first = np.concatenate([[True], merged[1:] != merged[:-1]])
    begin = min(deletes.begin_snapshot for deletes in old)
    staged = write_deletes(table, file, merged[first], snapshots[first], begin, likely, folder=folder)
    return StagedDeletes(file.data_file_id, len(positions), staged, replaces)


_MAGIC, _PUFFIN = b"\xd1\xd3\x39\x64", b"PFA1"
_TYPE, _SNAPSHOT = "deletion-vector-v1", "ducklake-snapshot-id"
_TAIL = 12  # bytes behind the JSON of a container
_NO_RUNS, _RUNS = 12346, 12347  # cookies of a 32-bit bitmap
_IN_ARRAY = 4096  # values of a container up to which they are listed
_OFFSETS = 4  # containers from which on a bitmap with runs has offsets


class Damaged(ValueError):
    """The bytes are no deletion vector."""


class Blob(NamedTuple):
    """A vector in a file. `snapshot` None: that at which the file begins."""

    snapshot: int | None
    offset: int
    length: int


# --- files ------------------------------------------------------------------------------------------------------------


def blobs(data: bytes) -> list[Blob]:
    """The vectors in a file, by their snapshots."""
    if data[4:8] == _MAGIC:
        return [Blob(None, 0, len(data))]
    if len(data) < 4 * 2 + _TAIL or data[:4] != _PUFFIN or data[-4:] != _PUFFIN:
        raise Damaged("It is no deletion vector.")
    size, flags = struct.unpack("<II", data[-_TAIL:-4])
    start = len(data) - _TAIL - size
    if flags or start < 8 or data[start - 4 : start] != _PUFFIN:
        raise Damaged("Its footer cannot be read.")
    try:
        vectors = [_blob(entry) for entry in json.loads(data[start:-_TAIL])["blobs"] if entry["type"] == _TYPE]
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise Damaged("Its footer cannot be read.") from problem
    if not all(4 <= blob.offset <= blob.offset + blob.length <= start - 4 for blob in vectors):
        raise Damaged("Its footer names bytes that are not there.")
    return sorted(vectors, key=lambda blob: -1 if blob.snapshot is None else blob.snapshot)


def _blob(given: dict[str, Any]) -> Blob:
    snapshot = given.get("properties", {}).get(_SNAPSHOT)
    return Blob(None if snapshot is None else int(snapshot), int(given["offset"]), int(given["length"]))


def read(data: bytes, begin_snapshot: int) -> tuple[Positions, Positions]:
    """The positions in a file, ascending, and the snapshot of each: of the first vector that has it."""
    positions = snapshots = np.empty(0, np.int64)
    for blob in reversed(blobs(data)):
        here = decode(data[blob.offset : blob.offset + blob.length])
        when = np.int64(begin_snapshot if blob.snapshot is None else blob.snapshot)
        known = np.isin(positions, here, assume_unique=True)
        snapshots[known] = when
        if np.count_nonzero(known) < len(here):  # in the last vector: it has all positions of earlier ones
            missing = np.setdiff1d(here, positions, assume_unique=True) if len(positions) else here
            positions = np.concatenate([positions, missing])
            snapshots = np.concatenate([snapshots, np.full(len(missing), when)])
            if len(missing) < len(positions):
                order = np.argsort(positions)
                positions, snapshots = positions[order], snapshots[order]
    return positions, snapshots


def made(positions: Positions, snapshots: Positions | None, path: str, *, contained: bool = True) -> tuple[bytes, int]:
    """A file with positions, ascending, of the data file at `path`, and the size of its footer. `snapshots`: of the
    deletions. Iceberg's readers want a container; a bare blob is all that DuckLake 1.0 knows."""
    if not contained:
        return encode(positions), 0
    file = _PUFFIN
    told = []
    for snapshot in [None] if snapshots is None else np.unique(snapshots).tolist():
        here = positions if snapshots is None or snapshot is None else positions[snapshots <= snapshot]
        blob = encode(here)
        properties = {"referenced-data-file": path, "cardinality": str(len(here))}
        if snapshot is not None:
            properties[_SNAPSHOT] = str(snapshot)
        told.append(
            {"type": _TYPE, "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": len(file),
             "length": len(blob), "properties": properties}
        )  # fmt: skip
        file += blob
    footer = json.dumps({"blobs": told, "properties": {"created-by": "pgrepl"}}).encode()
    end = _PUFFIN + footer + struct.pack("<II", len(footer), 0) + _PUFFIN
    return file + end, len(end)


# --- blobs ------------------------------------------------------------------------------------------------------------


def decode(blob: bytes) -> Positions:
    """The positions in a vector, ascending."""
    if len(blob) < 20 or blob[4:8] != _MAGIC or int.from_bytes(blob[:4], "big") != len(blob) - 8:
        raise Damaged("It is no deletion vector.")
    if zlib.crc32(blob[4:-4]) != int.from_bytes(blob[-4:], "big"):
        raise Damaged("The checksum of a vector does not agree.")
    pieces = [np.empty(0, np.int64)]
    try:
        (count,) = struct.unpack_from("<q", blob, 8)
        at = 16
        for _ in range(count):
            (upper,) = struct.unpack_from("<I", blob, at)
            at = _decode_bitmap(blob, at + 4, upper << 32, pieces)
    except (struct.error, ValueError) as problem:
        raise Damaged("A vector cannot be read.") from problem
    if at != len(blob) - 4:
        raise Damaged("A vector cannot be read.")
    return np.concatenate(pieces)


def _decode_bitmap(blob: bytes, at: int, upper: int, pieces: list[Any]) -> int:
    """Add the values of the 32-bit bitmap at `at`, each with `upper` added; returns where it ends."""
    (cookie,) = struct.unpack_from("<I", blob, at)
    runs = bytes(0)
    if cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", blob, at + 4)
        at += 8
    elif cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        at += 4
        runs = blob[at : at + (count + 7) // 8]
        at += len(runs)
    else:
        raise ValueError(cookie)
    heads = np.frombuffer(blob, "<u2", 2 * count, at).astype(np.int64).reshape(-1, 2).tolist()
    at += 4 * count + (4 * count if not runs or count >= _OFFSETS else 0)
    for number, (key, most) in enumerate(heads):
        size, values = _decode_container(blob, at, most + 1, bool(runs) and runs[number // 8] >> number % 8 & 1 == 1)
        pieces.append(values + (upper + (key << 16)))
        at += size
    return at


def _decode_container(blob: bytes, at: int, count: int, is_runs: bool) -> tuple[int, Positions]:
    """The size of a container, and its values."""
    if is_runs:
        (number,) = struct.unpack_from("<H", blob, at)
        pairs = np.frombuffer(blob, "<u2", 2 * number, at + 2).astype(np.int64).reshape(-1, 2)
        lengths = pairs[:, 1] + 1
        before = np.cumsum(lengths) - lengths
        return 2 + 4 * number, np.arange(lengths.sum()) + np.repeat(pairs[:, 0] - before, lengths)
    if count <= _IN_ARRAY:
        return 2 * count, np.frombuffer(blob, "<u2", count, at).astype(np.int64)
    bits = np.frombuffer(blob, np.uint8, 8192, at)
    return 8192, np.flatnonzero(np.unpackbits(bits, bitorder="little").view(np.bool_))


def encode(positions: Positions) -> bytes:
    """A vector with distinct positions, ascending."""
    uppers, starts = np.unique(positions >> 32, return_index=True)
    parts = [_MAGIC, struct.pack("<q", len(uppers))]
    for upper, here in zip(uppers.tolist(), np.split(positions, starts[1:]) if len(uppers) else (), strict=True):
        parts += [struct.pack("<I", upper), *_encode_bitmap(here & 0xFFFFFFFF)]
    whole = b"".join(parts)
    return struct.pack(">I", len(whole)) + whole + struct.pack(">I", zlib.crc32(whole))


def _encode_bitmap(values: Positions) -> Iterator[bytes]:
    """A 32-bit bitmap of listed values and of bits, without runs: every reader knows these."""
    keys, starts = np.unique(values >> 16, return_index=True)
    containers = [_encode_container(here) for here in np.split(values & 0xFFFF, starts[1:])]
    counts = np.diff(np.append(starts, len(values)))
    yield struct.pack("<II", _NO_RUNS, len(keys))
    yield np.stack([keys, counts - 1], 1).astype("<u2").tobytes()
    sizes = np.array([8 + 8 * len(keys), *map(len, containers[:-1])])
    yield np.cumsum(sizes).astype("<u4").tobytes()
    yield from containers


def _encode_container(values: Positions) -> bytes:
    if len(values) <= _IN_ARRAY:
        return values.astype("<u2").tobytes()
    bits = np.zeros(1 << 16, np.uint8)
    bits[values] = 1
    return np.packbits(bits, bitorder="little").tobytes()
