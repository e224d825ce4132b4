"""The catalog's rows about a statement's write to one table.

They are written in the session's write transaction, at the statement's own snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session import statistics as counting
from pgrepl.catalog.session.statistics import now
from pgrepl.lake import sql
from pgrepl.lake.define.inlined import inlined_table
from pgrepl.lake.read import inlined
from pgrepl.lake.read.files import entry_sum
from pgrepl.lake.storage import crash_point
from pgrepl.lake.write import statistics
from pgrepl.lake.write.statement import Write

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import NameMapping, NewDeletes, NewFile
    from pgrepl.lake.table import LakeTable
    from pgrepl.lake.write.delete_files import StagedDeletes
    from pgrepl.lake.write.statistics import ColumnStatistics


def record(session: Session, write: Write) -> tuple[int, Sequence[int]]:
    """Record one table's write in the catalog; returns the first new row id, and the ids of the write's files."""
    if write.is_final:
        write.stage()
    commit = _Commit(session, write)
    first = commit.next_row_id
    commit.run()
    counting.count(session, counting.RELATION, write.table.oid, **_counted(write))
    return first, commit.file_ids


def _counted(write: Write) -> dict[str, int]:
    """The counts of pg_stat_all_tables, which do not include TRUNCATE."""
    updated = len(write.updates) + sum(file.record_count for file in write.files if file.has_row_ids)
    inserted = len(write.rows) + sum(file.record_count for file in write.files if not file.has_row_ids)
    gone = len(write.inlined_deletes) + sum(map(len, write.deletes.values()))
    gone += sum(staged.count for staged in write.staged_deletes)
    return {
        "n_tup_ins": inserted,
        "n_tup_upd": updated,
        "n_tup_del": max(gone - updated, 0),
        "n_mod_since_analyze": inserted + max(gone, updated),
        "n_ins_since_vacuum": inserted,
    }


class _Commit:
    """One write's rows in the catalog."""

    rearranges = False  # rows keep their ids, which are in the file: with a row_id_start DuckDB would give new ones

    def __init__(self, session: Session, write: Write) -> None:
        self.session = session
        self.write = write
        self.table: LakeTable = write.table
        self.table_id = write.table.table_id
        self.link = session.link
        self.snapshot = session.snapshot()
        self.numbering = session.transaction.numbering
        statistics_rows = self.link.execute(sql.TABLE_STATISTICS, (self.table_id,))
        self.is_first = not statistics_rows
        self.record_count, self.next_row_id, self.size = statistics_rows[0][:3] if statistics_rows else (0, 0, 0)
        self.bounds = [row[3:] for row in statistics_rows if row[3] is not None]
        self.forms = {leaf.column_id: leaf.form for _, leaf in statistics.leaves(self.table)}
        self.written: dict[int, ColumnStatistics] = {}
        self.file_ids: list[int] = []

    def run(self) -> None:
        write = self.write
        if write.truncates:
            self.truncate()
        for staged in list(write.staged_deletes):
            if self.is_outdated(staged):
                write.stage_deletes_again(staged)
        for staged in write.staged_deletes:
            self.delete(staged)
        self.inline_deletes()
        crash_point("commit.deletes")
        for file in write.files:
            self.add_file(file)
        self.inline_rows()
        crash_point("commit.rows")
        if write.files or write.rows or write.updates:
            statistics.widen(self.session, self.table, self.written, None if self.is_first else self.bounds)
            self.store_table_statistics()
        crash_point("commit.statistics")

    def note(self, what: str) -> None:
        self.numbering.note_change(f"{what}:{self.table_id}")

    # --- deletions -------------------------------------------------------------------------------------------------

    def truncate(self) -> None:
        ended = 0
        for end in sql.END_FILES_OF_TABLE:
            self.link.execute(end, (self.snapshot, self.table_id))
            ended += self.link.changed_rows
        if ended:
            self.note("deleted_from_table")
        if inlined.end_all_rows(self.session, self.table):
            self.note("inlined_delete")

    def is_outdated(self, staged: StagedDeletes) -> bool:
        """Has the data file another delete file now, or the statement another snapshot than when it was staged?"""
        if self.delete_files_of(staged.data_file_id) != staged.replaces:
            return True
        return staged.file is not None and staged.file.snapshot not in (None, self.snapshot)

    def delete_files_of(self, data_file_id: int) -> tuple[int, ...]:
        return tuple(sorted(row[0] for row in self.link.execute(sql.DELETE_FILES_OF, (data_file_id,))))

    def delete(self, staged: StagedDeletes) -> None:
        self.note("deleted_from_table")
        if staged.file is None:
            for end in sql.END_FILE:
                self.link.execute(end, (self.snapshot, staged.data_file_id))
            return
        for old in staged.replaces:
            self.replace(old)
        file = staged.file
        file_id = self.numbering.next_file_id()
        begin = self.snapshot if file.begin_snapshot is None else file.begin_snapshot
        row = (
            file_id, self.table_id, begin, staged.data_file_id, file.name, self.truth(True), file.format,
            file.delete_count, file.file_size_bytes, file.footer_size, file.snapshot,
        )  # fmt: skip
        self.link.execute(sql.INSERT_DELETE_FILE, row)
        entry = entry_sum(
            file_id, self.table_id, begin, staged.data_file_id, file.name, file.delete_count, file.file_size_bytes,
            file.snapshot,
        )  # fmt: skip
        self.remember(file_id, staged.data_file_id, begin, file, entry)

    def replace(self, delete_file_id: int) -> None:
        """Remove the row of an old delete file: the new one has all of its positions."""
        link = self.link
        path, relative = link.execute(sql.PATH_OF_DELETE_FILE, (delete_file_id,))[0]
        link.execute(sql.DELETE_DELETE_FILE, (delete_file_id,))
        link.execute(sql.DELETE_OWN_FILE, (delete_file_id,))
        data_path = self.session.catalog.data_path
        if relative:  # to the table's folder; here paths are relative to the lake's
            path = self.table.location + path
            if path.startswith(data_path):
                path = path[len(data_path) :]
            else:
                relative = self.truth(False)
        link.execute(sql.SCHEDULE_DELETION, (delete_file_id, path, relative, now()))

    def inline_deletes(self) -> None:
        write = self.write
        if write.deletes:
            places = [
                (file_id, position) for file_id, listed in write.deletes.items() for position in sorted(set(listed))
            ]
            inlined.insert_deletes(self.session, self.table, places)
            self.note("inlined_delete")
        if write.inlined_deletes:
            inlined.end_rows(self.session, self.table, list(write.inlined_deletes))
            self.note("inlined_delete")

    def remember(
        self, file_id: int, data_file_id: int | None, begin: int, file: NewFile | NewDeletes, entry: int
    ) -> None:
        """Store the checksums of a new file, and of DuckLake's row about it."""
        self.link.execute(
            sql.INSERT_OWN_FILE,
            (file_id, self.table_id, data_file_id, begin, file.name, entry, file.footer_checksum, file.checksum),
        )

    # --- insertions ------------------------------------------------------------------------------------------------

    def add_file(self, file: NewFile) -> None:
        link = self.link
        row_id_start = None if self.rearranges else self.next_row_id
        file_id = self.numbering.next_file_id()
        self.file_ids.append(file_id)
        mapping = self.add_mapping(file.mapping) if file.mapping else None
        row = (
            file_id, self.table_id, self.snapshot, file.name, self.truth(True), "parquet", file.record_count,
            file.file_size_bytes, file.footer_size, row_id_start, mapping,
        )  # fmt: skip
        link.execute(sql.INSERT_DATA_FILE, row)
        entry = entry_sum(
            file_id, self.table_id, self.snapshot, file.name, file.record_count, file.file_size_bytes, row_id_start,
            mapping, None,
        )  # fmt: skip
        self.remember(file_id, None, self.snapshot, file, entry)
        crash_point("commit.file")
        self.write.note_places_in_file(file, file_id, self.next_row_id)
        statistics.store_of_file(self.session, self.table_id, file_id, file.statistics)
        if not self.rearranges:
            self.next_row_id += file.record_count
            self.record_count += file.record_count
        self.size += file.file_size_bytes
        self.count_in(file.statistics)
        self.note("inserted_into_table")

    def add_mapping(self, mapping: Sequence[NameMapping]) -> int:
        link = self.link
        mapping_id = self.numbering.next_catalog_id()
        link.execute(sql.INSERT_COLUMN_MAPPING, (mapping_id, self.table_id, "map_by_name"))
        rows: list[tuple[Any, ...]] = []

        def add(names: Sequence[NameMapping], parent: int | None) -> None:
            for name in names:
                number = len(rows)
                rows.append((mapping_id, number, name.source_name, name.column_id, parent, self.truth(False)))
                add(name.fields, number)

        add(mapping, None)
        link.execute_many(sql.INSERT_NAME_MAPPING, rows)
        return mapping_id

    def inline_rows(self) -> None:
        write = self.write
        if not write.rows and not write.updates:
            return
        target = inlined_table(self.session, self.table_id)
        assert target is not None, "stage() has asked whether rows can be inlined"
        rows = []
        for row_id, row in write.in_order():
            write.note_inlined_place(self.next_row_id if row_id is None else row_id, new=row_id is None)
            if row_id is None:
                row_id = self.next_row_id
                self.next_row_id += 1
            rows.append((row_id, row))
        inlined.insert(self.session, target, self.table, rows)
        self.numbering.next_file_id()  # a new one has DuckDB read its statistics anew
        self.record_count += len(rows)
        self.count_in(statistics.of_rows(self.table, [row for _, row in rows]))
        self.note("inlined_insert")

    def count_in(self, counted: Mapping[int, ColumnStatistics]) -> None:
        for column_id, new in counted.items():
            known = self.written.get(column_id)
            form = self.forms.get(column_id)
            if known is None or form is None:
                self.written[column_id] = new
            else:
                self.written[column_id] = statistics.together(form, known, new)

    def store_table_statistics(self) -> None:
        store = sql.INSERT_TABLE_STATISTICS if self.is_first else sql.UPDATE_TABLE_STATISTICS
        self.link.execute(store, (self.record_count, self.next_row_id, self.size, self.table_id))

    def truth(self, value: bool) -> Any:
        return int(value) if self.link.is_sqlite else value


class Compaction(_Commit):
    """The commit of a compaction: new files with the rows of old ones and of inlined rows."""

    rearranges = True

    def __init__(self, session: Session, table: LakeTable) -> None:
        super().__init__(session, Write(session, table))

    def run(  # type: ignore[override]
        self, files: Sequence[NewFile], ended: Sequence[int], flushed: Sequence[int]
    ) -> None:
        crash_point("compact.begin")
        for end in sql.END_FILE:
            self.link.execute_many(end, [(self.snapshot, file_id) for file_id in ended])
        inlined.end_rows(self.session, self.table, flushed)
        for file in files:
            self.add_file(file)
        self.store_table_statistics()
        self.numbering.note_change(f"rewrite_delete:{self.table_id}")
        if flushed:
            self.numbering.note_change(f"inline_flush:{self.table_id}")
        crash_point("compact.end")

    def fold(self, deletes: Sequence[StagedDeletes], upto: int) -> None:
        """Commit delete files with the inlined deletes up to a snapshot."""
        crash_point("fold.begin")
        has_inlined = inlined.exists(self.link, inlined.deletes_table(self.table_id))
        for staged in deletes:
            self.delete(staged)
            if has_inlined:
                inlined.remove_deletes(self.session, self.table, staged.data_file_id, upto)
        self.numbering.note_change(f"rewrite_delete:{self.table_id}")
        crash_point("fold.end")

    def delete_new(self, places: Sequence[tuple[int, int]]) -> None:
        """Delete rows of the new files (file, position) that others have deleted while these were written."""
        if places:
            inlined.insert_deletes(self.session, self.table, places)

    def note(self, what: str) -> None:
        """A compaction inserts and deletes no rows."""
