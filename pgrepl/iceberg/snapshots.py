"""The manifests of a table's snapshot: of its files by ranges, of its inlined rows, of its inlined deletes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pgrepl.iceberg import sidecars, sql
from pgrepl.iceberg.contents import Contents, Data, Deletes, InlinedPart, Part, digest
from pgrepl.iceberg.manifests import DATA, DELETES, Entry, Plan, Statistics, Writer
from pgrepl.iceberg.schema import Shape
from pgrepl.lake.data_file import PARQUET, PUFFIN

if TYPE_CHECKING:
    from pgrepl.iceberg.tables import Described

_AT_ONCE = 8  # files of an object store whose footers are read


class Planner:
    """Plans the manifests of a table's members."""

    def __init__(self, table: Described, writer: Writer, next_files: Mapping[int, int]) -> None:
        """`next_files`: the number of the next file at each snapshot."""
        self._table = table
        self._session = table.session
        self.writer = writer
        self._next_files = next_files
        self._with_row_ids = not table.is_tree  # else they would be those of several tables
        self._plans: dict[tuple[object, ...], Plan] = {}  # of parts

    def plans(self, contents: Contents, shape: Shape, snapshot: int) -> Iterator[Plan]:
        """The manifests of one member."""
        inlined = contents.inlined_deletes(snapshot)
        merged = {data.id for data, _ in inlined}
        for part in (each.at(snapshot) for each in contents.ranges):
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
        key = (id(part), shape.types)
        known = self._plans.get(key)
        if known is None:
            entries = [
                Entry(file.sequence, file.rows, file.row_id_start if self._with_row_ids else None)
                for file in part.data
            ]  # fmt: skip
            name = self.writer.name(DATA, part.known, shape)

            def make(last: int) -> tuple[list[bytes], list[str]]:
                statistics = self._statistics(contents, part.data)
                return [
                    self.writer.data_entry(shape, file.path, entry, file.size, statistics.get(file.id, {}), last)
                    for file, entry in zip(part.data, entries, strict=True)
                ], []

            known = self._plans[key] = Plan(name, DATA, shape, entries, part.rows, make)
        return known

    def _statistics(self, contents: Contents, files: list[Data]) -> dict[int, dict[int, Statistics]]:
        found: dict[int, dict[int, Statistics]] = {}
        rows = self._session.link.execute(sql.STATISTICS, (files[0].id, files[-1].id, contents.table.table_id))
        for file_id, column_id, *facts in rows:
            found.setdefault(file_id, {})[column_id] = Statistics(*facts)
        return found

    # --- delete files ---------------------------------------------------------------------------------------------

    def _deletes(self, part: Part, shape: Shape, snapshot: int, merged: set[int]) -> Plan:
        """Delete files as they are, or what of them is of the snapshot, as Iceberg has it. A deletion vector counts
        alone: one with inlined deletes beside it becomes a position delete file."""
        is_past = snapshot < self._table.snapshot
        later = {
            file.id for file, _ in part.deletes if is_past and file.has_later(snapshot, self._next_files[snapshot])
        }
        beside = {file.id for file, _ in part.deletes if file.format == PUFFIN and file.data_file in merged}
        key = ("deletes", id(part), shape.types, *((snapshot, *later) if later else ()), "beside", *beside)
        known = self._plans.get(key)
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
                    path, count, size, vector = sidecars.place_vector(folder, file, data, snapshot)
                elif file.format == PUFFIN or file.id in later or not sidecars.is_as_wanted(file, data):
                    path, count, size = sidecars.copy_deletes(folder, file, data, snapshot)
                if path != file.path:
                    named.append(path.removeprefix(f"{folder.location}/"))
                if count:
                    row = entry._replace(rows=count)
                    rows.append(self.writer.delete_entry(path, data.path, row, size, last, vector))
            return rows, named

        rows = sum(entry.rows for entry in entries)
        known = self._plans[key] = Plan(self.writer.name(DELETES, of, shape), DELETES, shape, entries, rows, make)
        return known

    def _sequence(self, file: Deletes, data: Data, snapshot: int) -> int:
        """Not before the data file's: else it would not count for it."""
        return max(min(file.sequence, snapshot), data.sequence)

    def _look_ahead(self, part: Part, later: set[int]) -> None:
        """Read footers of an object store many at a time."""
        from pgrepl.lake import storage

        paths = [file.path for file, _ in part.deletes if file.id not in later and file.format == PARQUET]
        if len(paths) > 1 and storage.local_path(paths[0]) is None:
            from pgrepl.thread_pool import ThreadPool

            with ThreadPool(_AT_ONCE) as threads:
                list(threads.map(sidecars.footer, paths))

    # --- inlined --------------------------------------------------------------------------------------------------

    def _inlined_deletes(self, inlined: list[tuple[Data, list[tuple[int, int]]]], shape: Shape) -> Plan:
        known = [(data.id, data.path, digest(positions)) for data, positions in inlined]
        entries = [
            Entry(max(data.sequence, *(when for _, when in positions)), len(positions)) for data, positions in inlined
        ]

        def make(last: int) -> tuple[list[bytes], list[str]]:
            folder, rows, named = self.writer.folder, [], []
            for (data, positions), entry in zip(inlined, entries, strict=True):
                name = sidecars.deletes_name(positions, data)
                size = folder.size(name)
                if size is None:
                    size = sidecars.write_positions(folder, name, data, sorted({position for position, _ in positions}))
                named.append(name)
                rows.append(self.writer.delete_entry(folder.path(name), data.path, entry, size, last, None))
            return rows, named

        rows = sum(entry.rows for entry in entries)
        return Plan(self.writer.name(DELETES, known, shape), DELETES, shape, entries, rows, make)

    def _inlined_rows(self, contents: Contents, shape: Shape, snapshot: int, part: InlinedPart) -> Plan:
        key = (id(part), id(shape))
        if key not in self._plans:
            self._plans[key] = self._of_inlined(contents, shape, snapshot, part)
        return self._plans[key]

    def _of_inlined(self, contents: Contents, shape: Shape, snapshot: int, part: InlinedPart) -> Plan:
        known = (contents.table.table_id, part.known, [(field.id, field.name, field.type) for field in shape.fields])
        name = f"data/rows-{digest(known, shape.fields)}.parquet"
        folder = self.writer.folder
        entry = Entry(part.changed, part.rows, 0 if self._with_row_ids else None)  # its rows have their ids

        def make(last: int) -> tuple[list[bytes], list[str]]:
            table = sidecars.table_at(self._session, contents.table, snapshot, self._table.snapshot)
            statistics = sidecars.write_rows(self._session, folder, table, shape, name, snapshot, part)
            size = folder.size(name) or 0
            row = self.writer.data_entry(shape, folder.path(name), entry, size, statistics, last)
            return [row], [name]

        return Plan(self.writer.name(DATA, name, shape), DATA, shape, [entry], part.rows, make)
