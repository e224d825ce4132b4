"""The SQL statements of Iceberg's view of the lake, by name. `?` is a parameter, on a server too."""

from __future__ import annotations

from pgrepl.lake.definition_names import quoted
from pgrepl.lake.sql import of_inlined

TABLE_UUID = "SELECT table_uuid FROM ducklake_table WHERE table_id = ? AND end_snapshot IS NULL"
VIEW_UUID = "SELECT view_uuid FROM ducklake_view WHERE view_id = ? AND end_snapshot IS NULL"
COLUMNS = (
    "SELECT column_id, column_name, column_type, parent_column, initial_default, begin_snapshot, end_snapshot"
    " FROM ducklake_column WHERE table_id = ? ORDER BY column_order, begin_snapshot"
)
NEXT_ROW_ID = "SELECT next_row_id FROM ducklake_table_stats WHERE table_id = ?"
# what tells whether a table's rows or columns have changed; paths are unique in all times of a catalog
_ROWS_STATE = "SELECT count(*), sum({0}), max(begin_snapshot), max(end_snapshot), {1} FROM {2}"
STATES = tuple(
    _ROWS_STATE.format(key, column, f"{table} WHERE table_id = ?")
    for key, column, table in (
        ("data_file_id", "max(path)", "ducklake_data_file"),
        ("delete_file_id", "max(path)", "ducklake_delete_file"),
        ("column_id", "count(end_snapshot)", "ducklake_column"),
    )
)
_OF_TABLE = "FROM {0} WHERE table_id = ?"
_CHANGED = " UNION ".join(
    f"SELECT {column} AS at {_OF_TABLE.format(table)} AND {column} IS NOT NULL"
    for table, columns in (
        ("ducklake_data_file", ("begin_snapshot", "end_snapshot", "partial_max")),
        ("ducklake_delete_file", ("begin_snapshot", "end_snapshot", "partial_max")),
        ("ducklake_column", ("begin_snapshot", "end_snapshot")),
    )
    for column in columns
)
CHANGES = f"SELECT at FROM ({_CHANGED}) AS changes ORDER BY at DESC LIMIT ?"
CHANGES_PARAMETERS = 8  # of them are the table
DATA_FILES = (
    "SELECT data_file_id, begin_snapshot, end_snapshot, path, path_is_relative, record_count, file_size_bytes,"
    " row_id_start, mapping_id, partial_max, file_format, encryption_key FROM ducklake_data_file"
    " WHERE table_id = ? AND (end_snapshot IS NULL OR end_snapshot > ?) ORDER BY data_file_id"
)
DELETE_FILES = (
    "SELECT delete_file_id, data_file_id, begin_snapshot, end_snapshot, path, path_is_relative, delete_count,"
    " file_size_bytes, format, partial_max, encryption_key FROM ducklake_delete_file"
    " WHERE table_id = ? AND (end_snapshot IS NULL OR end_snapshot > ?) ORDER BY delete_file_id"
)
FILES_WITHOUT = (
    "SELECT data_file_id FROM ducklake_data_file f"
    " WHERE table_id = ? AND (end_snapshot IS NULL OR end_snapshot > ?) AND NOT EXISTS (SELECT 1"
    " FROM ducklake_file_column_stats s WHERE s.data_file_id = f.data_file_id AND s.column_id = ?)"
)
STATISTICS = (  # by the index of files, which are few; that of tables would find those of all files
    "SELECT data_file_id, column_id, column_size_bytes, null_count, min_value, max_value, contains_nan"
    " FROM ducklake_file_column_stats WHERE data_file_id BETWEEN ? AND ? AND table_id + 0 = ?"
)
NAMES = (
    "SELECT mapping_id, source_name, target_field_id, parent_column, column_id, is_partition"
    " FROM ducklake_name_mapping WHERE mapping_id = ?"
)


def snapshots(count: int) -> str:
    """Those of so many snapshots that are there: their times, which files were to come, and commit_extra_info."""
    places = ", ".join("?" * count)
    return (
        "SELECT s.snapshot_id, s.snapshot_time, s.next_file_id, c.commit_extra_info FROM ducklake_snapshot s"
        " LEFT JOIN ducklake_snapshot_changes c ON c.snapshot_id = s.snapshot_id"
        f" WHERE s.snapshot_id IN ({places}) ORDER BY s.snapshot_id"
    )


def inlined_state(name: str, prefix: str) -> str:
    return of_inlined(_ROWS_STATE.format("row_id", "count(end_snapshot)", quoted(name)), prefix)


def inlined_deletes_state(name: str) -> str:
    return f"SELECT count(*), sum(row_id), max(begin_snapshot) FROM {quoted(name)}"


SNAPSHOT_TIME = "SELECT snapshot_time FROM ducklake_snapshot WHERE snapshot_id = ?"


def inlined_changes(name: str, prefix: str) -> str:
    """The last snapshots that changed inlined rows."""
    table = quoted(name)
    return of_inlined(
        f"SELECT at FROM (SELECT begin_snapshot AS at FROM {table} UNION"
        f" SELECT end_snapshot AS at FROM {table} WHERE end_snapshot IS NOT NULL) AS changes ORDER BY at DESC LIMIT ?",
        prefix,
    )


def inlined_delete_changes(name: str) -> str:
    return f"SELECT DISTINCT begin_snapshot FROM {quoted(name)} ORDER BY 1 DESC LIMIT ?"


def inlined_rows(name: str, prefix: str) -> str:
    return of_inlined(f"SELECT * FROM {quoted(name)} WHERE end_snapshot IS NULL OR end_snapshot > ?", prefix)


def inlined_deletes(name: str) -> str:
    return f"SELECT file_id, row_id, begin_snapshot FROM {quoted(name)}"
