"""The manifests of a table's snapshot, and small files for what is not in the lake's files as Iceberg wants it: inlined
rows and deletes, delete files of an older form.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pgrepl.ground.lazy import np, pa, pq
from pgrepl.ground.threads import ThreadPool
from pgrepl.iceberg import tables
from pgrepl.iceberg.contents import Contents, Data, Deletes, InlinedPart, Part
from pgrepl.iceberg.manifests import DATA, DELETES, Entry, Plan, Statistics, Vector, Writer, head, number
from pgrepl.iceberg.place import TableFolder, digest
from pgrepl.iceberg.schema import Shape
from pgrepl.lake import storage
from pgrepl.lake.read import footers, inlined
from pgrepl.lake.read.data_file import PARQUET, PUFFIN, DeleteFile
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.lake.write import delete_files
from pgrepl.lake.write.delete_files import read_delete_file
from pgrepl.lake.write.file_writer import field_id, schema_of, with_statistics
from pgrepl.lake.write.statistics import of_rows

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.iceberg.tables import Described


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
        number: Statistics(None, known.nulls, known.low, known.high, known.has_nan)
        for number, known in of_rows(shown, values).items()
    }


def table_at(session: Session, table: LakeTable, snapshot: int, last: int) -> LakeTable:
    return table if snapshot == last else lake_table(session, table.oid, snapshot)


def _rows_file(table: LakeTable, rows: Sequence[inlined.InlinedRow]) -> bytes:
    columns = list(zip(*[row.values for row in rows], strict=True)) or [()] * len(table.columns)
    arrays = [column.form.to_array(list(given)) for column, given in zip(table.columns, columns, strict=True)]
    arrays += [pa.array([row.row_id for row in rows], pa.int64()),
               pa.array([row.begin_snapshot for row in rows], pa.int64())]  # fmt: skip
    changed = pa.field(footers.SNAPSHOT_ID_NAME, pa.int64(), metadata=field_id(footers.SNAPSHOT_ID))
    schema = schema_of(table, row_ids=True).append(changed)
    return _parquet(pa.Table.from_arrays(arrays, schema=schema), write_statistics=with_statistics(table))


def _parquet(table: Any, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False, compression="zstd", **options)
    return bytes(sink.getvalue())


# --- deletes ------------------------------------------------------------------------------------------------------


def deletes_name(of: object, data: Data) -> str:
    return f"data/deletes-{digest(of, data.path)}.parquet"


def write_positions(folder: TableFolder, name: str, data: Data, positions: Any) -> int:
    """Write a position delete file for a data file; its size."""
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
    blobs = delete_files.blobs(content)
    is_whole = len(blobs) == 1 and (blobs[0].snapshot or 0) <= snapshot and json.dumps(data.path).encode() in content
    if is_whole:
        return file.path, file.rows, file.size, Vector(blobs[0].offset, blobs[0].length)
    positions, snapshots = read_delete_file(_lake_file(file))
    positions = positions[snapshots <= snapshot]
    name = f"data/deletes-{digest(positions.tolist(), data.path)}.puffin"
    content, _ = delete_files.made(positions, np.zeros(len(positions), np.int64), data.path)
    if folder.size(name) is None and len(positions):
        folder.write(name, content)
    vector = delete_files.blobs(content)[0] if len(positions) else blobs[0]
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


_AT_ONCE = 8  # files of an object store whose footers are read


class Planner:
    """Plans the manifests of a table's members. Parts keep their plans, for the next making."""

    def __init__(self) -> None:
        self._encoded: tuple[Shape | None, dict[int, bytes]] = None, {}  # data files of the last manifest

    def begin(self, table: Described, writer: Writer, next_files: Mapping[int, int]) -> None:
        """`next_files`: the number of the next file at each snapshot."""
        self._table = table
        self._session = table.session
        self.writer = writer
        self._next_files = next_files
        self._with_row_ids = not table.is_tree  # else they would be those of several tables

    def plans(self, contents: Contents, shape: Shape, snapshot: int) -> Iterator[Plan]:
        """The manifests of one member."""
        inlined = contents.inlined_deletes(snapshot)
        merged = {data.id for data, _ in inlined}
        for part in (part.at(snapshot) for part in contents.ranges):
            if part.data:
                yield self._data(contents, part, shape)
            if part.deletes:
                yield self._deletes(part, shape, snapshot, merged)
        if inlined:
            yield self._inlined_deletes(inlined, shape)
        for rows in contents.inlined_rows(snapshot) if shape.fields else ():
            yield self._inlined_rows(contents, shape, snapshot, rows)

    # --- data files -----------------------------------------------------------------------------------------------

    def _data(self, contents: Contents, part: Part, shape: Shape) -> Plan:
        key = ("data", self.writer.version, shape.types)
        known: Plan | None = part.plans.get(key)
        if known is None:
            entries = [
                Entry(file.sequence, file.rows, file.row_id_start if self._with_row_ids else None)
                for file in part.data
            ]  # fmt: skip
            name = self.writer.name(DATA, part.known, shape)

            def make(last: int) -> tuple[list[bytes], list[str]]:
                encoded = self._data_files(contents, part.data, entries, shape)
                return [head(entry.sequence, last, DATA) + encoded_file
                        for entry, encoded_file in zip(entries, encoded, strict=True)], []  # fmt: skip

            known = part.plans[key] = Plan(name, DATA, shape, entries, part.rows, make)
        return known

    def _data_files(
        self, contents: Contents, files: list[Data], entries: Sequence[Entry], shape: Shape
    ) -> Iterable[bytes]:
        """The encoded data files of a range, most of which are those of the last time if it is the last range."""
        before, known = self._encoded
        if before is not shape:
            known = {}
        new = [file for file in files if file.id not in known]
        statistics = self._statistics(contents, new) if new else {}
        encoded = {
            file.id: known.get(file.id)
            or self.writer.data_file(shape, file.path, entry, file.size, statistics.get(file.id, {}))
            for file, entry in zip(files, entries, strict=True)
        }
        self._encoded = shape, encoded
        return encoded.values()

    def _statistics(self, contents: Contents, files: list[Data]) -> dict[int, dict[int, Statistics]]:
        statistics: dict[int, dict[int, Statistics]] = {}
        rows = self._session.link.execute(tables.STATISTICS, (files[0].id, files[-1].id, contents.table.table_id))
        for file_id, column_id, *facts in rows:
            statistics.setdefault(file_id, {})[column_id] = Statistics(*facts)
        return statistics

    # --- delete files ---------------------------------------------------------------------------------------------

    def _deletes(self, part: Part, shape: Shape, snapshot: int, merged: set[int]) -> Plan:
        """Delete files as they are, or what of them is of the snapshot, as Iceberg has it. A deletion vector counts
        alone: one with inlined deletes beside it becomes a position delete file."""
        is_past = snapshot < self._table.snapshot
        later = {
            file.id for file, _ in part.deletes if is_past and file.has_later(snapshot, self._next_files[snapshot])
        }
        beside = {file.id for file, _ in part.deletes if file.format == PUFFIN and file.data_file in merged}
        key = ("deletes", self.writer.version, shape.types, *((snapshot, *later) if later else ()), "beside", *beside)
        known: Plan | None = part.plans.get(key)
        if known is not None:
            return known
        of = [(file.id, file.path, data.path, file.id in later and snapshot, file.id in beside)
              for file, data in part.deletes]  # fmt: skip
        entries = [Entry(self._sequence(file, data, snapshot), file.rows) for file, data in part.deletes]

        def make(last: int) -> tuple[list[bytes], list[str]]:
            self._look_ahead(part, later)
            folder, rows, named = self.writer.folder, [], []
            for (file, data), entry in zip(part.deletes, entries, strict=True):
                is_vector = file.format == PUFFIN and file.id not in beside and self.writer.version >= 3
                path, count, size, vector = file.path, file.rows, file.size, None
                if is_vector:
                    path, count, size, vector = place_vector(folder, file, data, snapshot)
                elif file.format == PUFFIN or file.id in later or not is_as_wanted(file, data):
                    path, count, size = copy_deletes(folder, file, data, snapshot)
                if path != file.path:
                    named.append(path.removeprefix(f"{folder.location}/"))
                if count:
                    row = entry._replace(rows=count)
                    rows.append(self.writer.delete_entry(path, data.path, row, size, last, vector))
            return rows, named

        rows = sum(entry.rows for entry in entries)
        known = part.plans[key] = Plan(self.writer.name(DELETES, of, shape), DELETES, shape, entries, rows, make)
        return known

    def _sequence(self, file: Deletes, data: Data, snapshot: int) -> int:
        """Not before the data file's: else it would not count for it."""
        return max(min(file.sequence, snapshot), data.sequence)

    def _look_ahead(self, part: Part, later: set[int]) -> None:
        """Read footers of an object store many at a time."""
        paths = [file.path for file, _ in part.deletes if file.id not in later and file.format == PARQUET]
        if len(paths) > 1 and storage.local_path(paths[0]) is None:
            with ThreadPool(_AT_ONCE) as threads:
                list(threads.map(footer, paths))

    # --- inlined --------------------------------------------------------------------------------------------------

    def _inlined_deletes(self, inlined: list[tuple[Data, list[tuple[int, int]]]], shape: Shape) -> Plan:
        known = [(data.id, data.path, digest(positions)) for data, positions in inlined]
        entries = [
            Entry(max(data.sequence, *(when for _, when in positions)), len(positions)) for data, positions in inlined
        ]

        def make(last: int) -> tuple[list[bytes], list[str]]:
            folder, rows, named = self.writer.folder, [], []
            for (data, positions), entry in zip(inlined, entries, strict=True):
                name = deletes_name(positions, data)
                size = folder.size(name)
                if size is None:
                    size = write_positions(folder, name, data, sorted({position for position, _ in positions}))
                named.append(name)
                rows.append(self.writer.delete_entry(folder.path(name), data.path, entry, size, last, None))
            return rows, named

        rows = sum(entry.rows for entry in entries)
        return Plan(self.writer.name(DELETES, known, shape), DELETES, shape, entries, rows, make)

    def _inlined_rows(self, contents: Contents, shape: Shape, snapshot: int, part: InlinedPart) -> Plan:
        key = ("rows", self.writer.version, shape)
        known: Plan | None = part.plans.get(key)
        if known is None:
            known = part.plans[key] = self._of_inlined(contents, shape, snapshot, part)
        return known

    def _of_inlined(self, contents: Contents, shape: Shape, snapshot: int, part: InlinedPart) -> Plan:
        known = (contents.table.table_id, part.known, [(field.id, field.name, field.type) for field in shape.fields])
        name = f"data/rows-{digest(known, shape.fields)}.parquet"
        entry = Entry(part.changed, part.rows, 0 if self._with_row_ids else None)  # its rows have their ids

        def make(last: int) -> tuple[list[bytes], list[str]]:
            folder = self.writer.folder
            table = table_at(self._session, contents.table, snapshot, self._table.snapshot)
            statistics = write_rows(self._session, folder, table, shape, name, snapshot, part)
            size = folder.size(name) or 0
            row = self.writer.data_file(shape, folder.path(name), entry, size, statistics)
            return [head(entry.sequence, last, DATA) + row], [name]

        return Plan(self.writer.name(DATA, name, shape), DATA, shape, [entry], part.rows, make)
