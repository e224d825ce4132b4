"""One statement's changes of one table: collected, then staged as files, then committed.

    write = Write(session, table, snapshot)
    write.insert([(1, 'a'), (2, 'b')])
    write.delete([place])
    write.stage()                   # writes files, which the catalog does not have yet
    commit.record_writes(session, [write])  # in the write transaction

Few rows, and few deletes, need no file: they are inlined in the catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.ground.lazy import np
from pgrepl.lake import storage
from pgrepl.lake.define.inlined import can_inline
from pgrepl.lake.define.options import inlining_limit
from pgrepl.lake.read import inlined
from pgrepl.lake.read.data_file import PROVISIONAL, NewFile, PositionSet, RowPlace
from pgrepl.lake.read.files import data_file, files_by_id, last_snapshot

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.table import LakeTable
    from pgrepl.lake.write.delete_files import StagedDeletes
    from pgrepl.lake.write.file_writer import DataFileWriter

_PORTION = 65_536  # rows in memory before they are written into a file


class Write:
    """One statement's changes of one table. `snapshot` is the one at which places were read (None: the statement holds
    the write lock, so that no other session changes the table)."""

    def __init__(self, session: Session, table: LakeTable, snapshot: int | None = None) -> None:
        self.session = session
        self.table = table
        self.snapshot = snapshot
        self.truncates = False
        self.rows: list[Sequence[Any]] = []  # new rows that are in no file
        self.updates: dict[int, Sequence[Any]] = {}  # new versions by row id that are in no file
        self.order: dict[int, int] = {}  # the number of `rows` before each update
        self.files: list[NewFile] = []
        self.deletes: dict[int, Any] = {}  # positions by data file that are in no delete file
        self.inlined_deletes: dict[int, None] = {}  # row ids of inlined rows, in order
        self.staged_deletes: list[StagedDeletes] = []
        self.changed_row_ids: list[int] = []  # of rows that are updated or deleted by their places
        self.is_staged = False
        self.keeps_places = False  # fill `inserted` and `moved`
        self.inserted: list[RowPlace] = []  # the places of new rows, in order, once they are committed
        self.moved: dict[int, RowPlace] = {}  # the places of new versions, by row id
        self._row_ids_in_file: list[int] = []  # of new versions
        self.has_free_keys = False  # no other transaction holds a unique key of its rows: that was checked
        self.is_final = False  # it is written into the catalog now; else it may be pending until the commit
        self._positions: dict[int, PositionSet] = {}  # by data file, given as columns
        self._writer: DataFileWriter | None = None
        self._made: list[str] = []  # paths

    # --- changes --------------------------------------------------------------------------------------------------

    def insert(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add new rows: Python values in the order of table.columns."""
        self.is_staged = False
        for row in rows:
            self.rows.append(row)
            if len(self.rows) >= _PORTION:
                self._spill()

    def insert_files(self, files: Iterable[NewFile]) -> None:
        """Add files with new rows, or, with has_row_ids, with new versions of rows that are deleted by their places."""
        for file in files:
            self.files.append(file)
            self._remember(self.table.location + file.name)

    def delete(self, places: Iterable[RowPlace]) -> None:
        self.is_staged = False
        for place in places:
            self.changed_row_ids.append(place.row)
            if place.file is None:
                self.inlined_deletes[place.row] = None
            else:
                assert place.pos is not None
                self.deletes.setdefault(place.file, []).append(place.pos)

    def delete_positions(self, file_id: int, positions: npt.NDArray[np.int64]) -> None:
        self.is_staged = False
        if len(positions):
            self._positions.setdefault(file_id, PositionSet()).add(positions)

    def delete_inlined(self, row_ids: Iterable[int]) -> None:
        self.is_staged = False
        self.inlined_deletes.update(dict.fromkeys(int(row_id) for row_id in row_ids))

    def all_deletes(self) -> dict[int, Sequence[int]]:
        """All deleted positions by data file."""
        by_file: dict[int, Sequence[int]] = {file_id: list(positions) for file_id, positions in self.deletes.items()}
        for file_id, given in self._positions.items():
            by_file[file_id] = [*by_file.get(file_id, ()), *given.positions.tolist()]
        return by_file

    @property
    def has_positions(self) -> bool:
        """Does it delete rows by position, whose ids are not known?"""
        return bool(self._positions or self.staged_deletes)

    def update(self, place: RowPlace, row: Sequence[Any]) -> None:
        """Replace a row, which keeps its row id."""
        self.delete([place])
        self.updates[place.row] = row
        self.order[place.row] = len(self.rows)

    def in_order(self) -> Iterator[tuple[int | None, Sequence[Any]]]:
        """The rows that are in no file, in their order: updates with their row ids, new rows with None."""
        done = 0
        for row_id, row in self.updates.items():
            upto = max(done, self.order[row_id])
            yield from ((None, new) for new in self.rows[done:upto])
            done = upto
            yield row_id, row
        yield from ((None, new) for new in self.rows[done:])

    def truncate(self) -> None:
        """Delete all rows (TRUNCATE)."""
        self.truncates = True

    def note_inlined_place(self, row_id: int, *, new: bool) -> None:
        """Note the place of a row that was inlined in the catalog."""
        if self.keeps_places:
            place = RowPlace(None, None, row_id)
            if new:
                self.inserted.append(place)
            else:
                self.moved[row_id] = place

    def note_places_in_file(self, file: NewFile, file_id: int, first_row_id: int) -> None:
        """Note the places of a file's rows that were recorded in the catalog."""
        if not self.keeps_places:
            return
        if file.has_row_ids:
            self.moved.update((row, RowPlace(file_id, at, row)) for at, row in enumerate(self._row_ids_in_file))
        else:
            self.inserted += [RowPlace(file_id, n, first_row_id + n) for n in range(file.record_count)]

    # --- files ----------------------------------------------------------------------------------------------------

    def stage(self) -> None:
        """Write files, with or without the write lock. Small changes need none."""
        if self.is_staged:
            return
        limit = inlining_limit(self.session, self.table.table_id)
        if self._writer is not None or len(self.rows) + len(self.updates) > self._limit_of_rows(limit):
            self._stage_rows()
        if self._positions or sum(map(len, self.deletes.values())) > limit:
            self._stage_deletes(limit)
        self.is_staged = True

    def stage_pending(self) -> None:
        """Write files of pending changes, for new rows alone: versions of rows that the transaction has made itself get
        their row ids at the commit, and deletes are few or depend on those of others."""
        limit = self._limit_of_rows(inlining_limit(self.session, self.table.table_id))
        if self._writer is not None or len(self.rows) > limit:
            self._stage_new_rows()
        if len(self.updates) > limit and max(self.updates) < PROVISIONAL:
            self._stage_updates()

    def discard(self) -> None:
        """Remove the files of a statement that begins anew. (A rollback of the transaction removes them, too; a killed
        process leaves files to VACUUM.)"""
        if self._writer is not None:
            self._writer.discard()
        for path in self._made:
            storage.remove(path)

    def _limit_of_rows(self, limit: int) -> int:
        return limit if can_inline(self.session, self.table) else 0

    def _remember(self, path: str) -> None:
        self._made.append(path)
        self.session.transaction.undo.append(lambda: storage.remove(path))

    def _spill(self) -> None:
        from pgrepl.lake.write.file_writer import DataFileWriter

        if self._writer is None:
            self._writer = DataFileWriter(self.table)
            self._remember(self._writer.path)
        self._writer.write(self.rows)
        self.rows = []

    def _stage_rows(self) -> None:
        self._stage_new_rows()
        if self.updates:
            self._stage_updates()

    def _stage_new_rows(self) -> None:
        if self.rows:
            self._spill()
        if self._writer is not None:
            writer, self._writer = self._writer, None
            self.files.append(writer.close())

    def _stage_updates(self) -> None:
        from pgrepl.lake.write.file_writer import DataFileWriter

        writer = DataFileWriter(self.table, row_ids=True)
        self._remember(writer.path)
        row_ids, rows = list(self.updates), list(self.updates.values())
        for start in range(0, len(rows), _PORTION):
            writer.write(rows[start : start + _PORTION], row_ids[start : start + _PORTION])
        self.files.append(writer.close())
        self._row_ids_in_file = row_ids
        self.updates = {}

    def _stage_deletes(self, limit: int) -> None:
        for file_id, listed in self.deletes.items():
            self._positions.setdefault(file_id, PositionSet()).add(np.array(listed, np.int64))
        given, self._positions, self.deletes = self._positions, {}, {}
        if sum(map(len, given.values())) <= limit:
            self.deletes = {file_id: listed.positions.tolist() for file_id, listed in given.items()}
            return
        self._stage_deletes_of({file_id: (listed.positions, len(listed)) for file_id, listed in given.items()})

    def _stage_deletes_of(self, given: dict[int, tuple[npt.NDArray[np.int64], int]]) -> None:
        """Write the one delete file of each of these data files: new positions, of which so many count, and those of an
        old delete file with their snapshots. Threads do it, since each file waits for the disk."""
        from pgrepl.ground.threads import run_parts
        from pgrepl.lake.write.delete_files import stage_deletes

        session, table = self.session, self.table
        at, likely = last_snapshot(session) if self.snapshot is None else self.snapshot, self.likely_snapshot()
        files = files_by_id(session, table, given, self.snapshot)
        own = inlined.deletes(session, table, at, next(iter(given)) if len(given) == 1 else None)
        staged_files: dict[int, StagedDeletes] = {}

        def stage_one(file_id: int, _: object = None) -> None:
            positions, count = given[file_id]
            staged = stage_deletes(table, files[file_id], own.get(file_id, ()), positions, at, likely)
            staged_files[file_id] = replace(staged, count=count)

        try:
            if len(given) == 1:
                stage_one(next(iter(given)))
            else:
                run_parts(list(given), stage_one, count_rows=session.rows_written)
        finally:
            self.insert_deletes(staged_files[file_id] for file_id in given if file_id in staged_files)

    def insert_deletes(self, staged: Iterable[StagedDeletes]) -> None:
        """Add delete files that have been written; `delete` is not called for their data files."""
        for deletes in staged:
            if deletes.file is not None:
                self._remember(self.table.location + deletes.file.name)
            self.staged_deletes.append(deletes)

    def likely_snapshot(self) -> int:
        """The snapshot of this statement; without the write lock the most likely one."""
        if self.session.transaction.is_writing:
            return self.session.snapshot()
        return last_snapshot(self.session) + 1

    def stage_deletes_again(self, staged: StagedDeletes) -> None:
        """Stage deletes anew under the write lock: another snapshot, or a delete of this statement, came between."""
        from pgrepl.lake.write.delete_files import read_positions

        self.staged_deletes.remove(staged)
        self.snapshot = None
        file = data_file(self.session, self.table, staged.data_file_id)
        assert file is not None, "a place is in a file of the table"
        positions = np.arange(file.record_count)
        if staged.file is not None:
            positions = read_positions(self.table.location + staged.file.name)
            storage.remove(self.table.location + staged.file.name)
        self._stage_deletes_of({staged.data_file_id: (positions, staged.count)})
