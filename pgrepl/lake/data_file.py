"""Data files and delete files: rows of the catalog, and new files that it does not have yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.lake.statistics import ColumnStatistics


PARQUET, PUFFIN = "parquet", "puffin"  # the format of a delete file: positions, or deletion vectors


@frozen
class SourceNames:
    """The names of a file's columns that are found by name, by column id. Values of `partitions` are in the file's
    path, as `name=value`."""

    names: dict[int, str]
    partitions: dict[int, str]

    @property
    def all(self) -> dict[int, str]:
        return {**self.names, **self.partitions}

    def partition_text(self, path: str, column_id: int) -> str | None:
        """The value of a partition column in a path, with %-escapes decoded."""
        from urllib.parse import unquote

        for part in path.split("/")[:-1]:
            name, equals, value = part.partition("=")
            if equals and unquote(name) == self.partitions[column_id]:
                return None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
        return None


@frozen
class DeleteFile:
    """A row of ducklake_delete_file."""

    delete_file_id: int
    data_file_id: int
    begin_snapshot: int
    path: str  # absolute, or a URI
    delete_count: int
    file_size_bytes: int
    partial_max: int | None  # not NULL: the file has the snapshot of each deletion
    footer_checksum: int | None = None  # of a file that pgrepl has written; of a deletion vector's whole file
    checksum: int | None = None  # of the whole file
    format: str = PARQUET

    holds_deletes = True

    @property
    def rows(self) -> int:
        return self.delete_count


@frozen
class DataFile:
    """A row of ducklake_data_file with its delete file at a snapshot."""

    data_file_id: int
    begin_snapshot: int
    end_snapshot: int | None
    path: str  # absolute, or a URI
    record_count: int
    file_size_bytes: int
    row_id_start: int | None
    mapping_id: int | None  # not NULL: columns are found by name, not by field id
    partial_max: int | None  # not NULL: the file has the snapshot of each insertion
    delete_files: tuple[DeleteFile, ...]  # one, unless DuckDB has flushed inlined deletes from before another
    names: SourceNames | None = None  # with mapping_id
    footer_checksum: int | None = None  # of a file that pgrepl has written
    checksum: int | None = None  # of the whole file

    holds_deletes = False

    @property
    def rows(self) -> int:
        return self.record_count


@frozen
class NewFile:
    """A data file that has been written into the table's folder, and that the catalog does not have yet."""

    name: str  # in the table's folder
    record_count: int
    file_size_bytes: int
    footer_size: int | None
    statistics: dict[int, ColumnStatistics]  # by column id
    has_row_ids: bool = False  # it has _ducklake_internal_row_id: its rows replace others
    mapping: tuple[NameMapping, ...] = ()  # columns without field ids are found by name (map_by_name)
    footer_checksum: int | None = None
    checksum: int | None = None  # of the whole file; None: not known, as the file is in an object store


@frozen
class NameMapping:
    """The name in a file of a column, or of a field nested in it."""

    source_name: str
    column_id: int
    fields: tuple[NameMapping, ...] = ()


@frozen
class NewDeletes:
    """A delete file that has been written, with all deleted positions of a data file, old and new."""

    name: str
    begin_snapshot: int | None  # of the delete file that it replaces
    snapshot: int | None  # of the new positions, if the file has snapshots
    delete_count: int
    file_size_bytes: int
    footer_size: int
    footer_checksum: int
    checksum: int
    format: str = PARQUET
