"""The lake's SQL statements beyond rows found by equality of columns, by name.

`?` is a parameter, on a server too. NOW: current rows; THEN: rows at a snapshot, which is given twice.
"""

from __future__ import annotations

import re

from pgrepl.lake.define.types import quoted

NOW = "end_snapshot IS NULL"
THEN = "begin_snapshot <= ? AND (end_snapshot IS NULL OR end_snapshot > ?)"
THEN_OF = "{0}.begin_snapshot <= ? AND ({0}.end_snapshot IS NULL OR {0}.end_snapshot > ?)"


def _insert(table: str, columns: str) -> str:
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(columns.split(',')))})"


def delete(table: str, column: str) -> str:
    """DELETE of rows with a value in a column."""
    return f"DELETE FROM {table} WHERE {column} = ?"


def delete_ended(table: str) -> str:
    """DELETE of rows that ended by a snapshot."""
    return f"DELETE FROM {table} WHERE end_snapshot <= ?"


CHANGES_AFTER = "SELECT changes_made FROM ducklake_snapshot_changes WHERE snapshot_id > ?"
HISTORY = (
    "SELECT s.snapshot_id, s.snapshot_time, c.changes_made, c.commit_extra_info FROM ducklake_snapshot s"
    " LEFT JOIN ducklake_snapshot_changes c ON c.snapshot_id = s.snapshot_id WHERE s.snapshot_id > ?"
    " AND s.snapshot_id <= ? ORDER BY s.snapshot_id"
)
CHANGES_BETWEEN = (
    "SELECT snapshot_id, changes_made, commit_extra_info FROM ducklake_snapshot_changes WHERE snapshot_id > ?"
    " AND snapshot_id <= ?"
)
FIRST_SNAPSHOT = "SELECT coalesce(min(snapshot_id), 0) FROM ducklake_snapshot"
COUNT_SNAPSHOTS_BEFORE = "SELECT count(*) FROM ducklake_snapshot WHERE snapshot_id < ?"
# changes of definitions that are in the system tables only
REDEFINED = """SELECT count(*) FROM pg_class c WHERE c.table_id = ? AND c.end_snapshot IS NULL AND (
    c.begin_snapshot > ? AND c.begin_snapshot < ?
    OR EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.end_snapshot IS NULL
               AND i.begin_snapshot > ? AND i.begin_snapshot < ?)
    OR EXISTS (SELECT 1 FROM pg_constraint k WHERE (k.conrelid = c.oid OR k.confrelid = c.oid)
               AND k.end_snapshot IS NULL AND k.begin_snapshot > ? AND k.begin_snapshot < ?))"""
COUNT_SNAPSHOTS = "SELECT count(*) FROM ducklake_snapshot"
SNAPSHOT_TIME_FROM = "SELECT min(snapshot_time) FROM ducklake_snapshot WHERE snapshot_id >= ?"
PUBLICATION_VERSIONS = (
    "SELECT begin_snapshot, end_snapshot FROM pg_publication WHERE datid = ? AND pubname = ?"
    " ORDER BY begin_snapshot DESC"
)
COUNT_SNAPSHOTS_FROM = "SELECT count(*) FROM ducklake_snapshot WHERE snapshot_id >= ?"
IS_SNAPSHOT = "SELECT 1 FROM ducklake_snapshot WHERE snapshot_id = ?"
LAST_SNAPSHOT = "SELECT max(snapshot_id) FROM ducklake_snapshot"
EXTRA_INFO_FROM = "SELECT commit_extra_info FROM ducklake_snapshot_changes WHERE snapshot_id >= ?"
COMMITS_OF_PREPARED_AFTER = (
    "SELECT snapshot_id, commit_extra_info FROM ducklake_snapshot_changes WHERE snapshot_id > ?"
    """ AND commit_extra_info LIKE '%"two_phase": ["commit"%'"""
)
PREPARES = (
    "SELECT commit_extra_info FROM ducklake_snapshot_changes"
    """ WHERE commit_extra_info LIKE '%"two_phase": ["prepare"%'"""
)
DELETE_SNAPSHOTS_BEFORE = (
    "DELETE FROM ducklake_snapshot WHERE snapshot_id < ?",
    "DELETE FROM ducklake_snapshot_changes WHERE snapshot_id < ?",
)


# --- definitions -----------------------------------------------------------------------------------------------------

IN_OTHER_SCHEMAS = "SELECT schema_id FROM ducklake_schema WHERE parent_schema_id IS NOT NULL"  # of DuckLake 1.1
SCHEMAS = "SELECT schema_id, schema_name, begin_snapshot FROM ducklake_schema WHERE end_snapshot IS NULL"
TABLES = "SELECT table_id, table_name, schema_id, begin_snapshot FROM ducklake_table WHERE end_snapshot IS NULL"
COLUMNS = (
    "SELECT table_id, column_id, column_name, column_type, nulls_allowed, default_value, default_value_type,"
    " initial_default, parent_column, begin_snapshot FROM ducklake_column WHERE end_snapshot IS NULL"
    " ORDER BY table_id, column_order"
)
TABLE_BEGUN = "SELECT min(begin_snapshot) FROM ducklake_table WHERE table_id = ?"
HIGHEST_COLUMN_ID = "SELECT max(column_id) FROM ducklake_column WHERE table_id = ?"
COLUMN_NAMES = "SELECT DISTINCT column_name, column_id FROM ducklake_column WHERE table_id = ?"
COLUMNS_OF_INLINED = (
    "SELECT column_id, column_name, column_type, parent_column FROM ducklake_column WHERE table_id = ?"
    " AND begin_snapshot <= ? AND (end_snapshot IS NULL OR end_snapshot > ?) ORDER BY column_order"
)
FOLDER = (
    "SELECT t.path, t.path_is_relative, s.path, s.path_is_relative FROM ducklake_table t"
    " JOIN ducklake_schema s ON s.schema_id = t.schema_id WHERE t.table_id = ?"
    " ORDER BY t.begin_snapshot DESC, s.begin_snapshot DESC LIMIT 1"
)
DROPPED_TABLES = (
    "SELECT DISTINCT table_id FROM ducklake_table WHERE end_snapshot <= ? AND table_id NOT IN (SELECT table_id"
    " FROM ducklake_table WHERE end_snapshot IS NULL OR end_snapshot > ?)"
)
OPTION = (
    "SELECT m.value FROM ducklake_metadata m WHERE m.key = ? AND (m.scope IS NULL OR (m.scope = 'table'"
    " AND m.scope_id = ?) OR (m.scope = 'schema' AND m.scope_id = (SELECT t.schema_id FROM ducklake_table t"
    " WHERE t.table_id = ? AND t.end_snapshot IS NULL))) ORDER BY"
    " CASE m.scope WHEN 'table' THEN 1 WHEN 'schema' THEN 2 ELSE 3 END"
)
SET_OPTION_OF_LAKE = (
    "DELETE FROM ducklake_metadata WHERE key = ? AND scope IS NULL",
    "INSERT INTO ducklake_metadata (key, value) VALUES (?, ?)",
)
MOVE_OPTIONS = "UPDATE ducklake_metadata SET scope_id = ? WHERE scope = 'schema' AND scope_id = ?"
RELATION_OF_TABLE = "SELECT oid FROM pg_class WHERE table_id = ? LIMIT 1"
IS_ADOPTED = "SELECT 1 FROM pgrepl_adopted"
_TABLE = (
    "SELECT t.table_name, t.path, t.path_is_relative, s.path, s.path_is_relative FROM ducklake_table t"
    " JOIN ducklake_schema s ON s.schema_id = t.schema_id WHERE t.table_id = ? AND "
)
TABLE_NOW = f"{_TABLE} t.end_snapshot IS NULL"
TABLE_THEN = _TABLE + THEN_OF.format("t")
SCHEMA_VERSION_NOW = "SELECT max(schema_version) FROM ducklake_schema_versions WHERE table_id = ?"
SCHEMA_VERSION_THEN = f"{SCHEMA_VERSION_NOW} AND begin_snapshot <= ?"
_COLUMNS_OF_TABLE = (
    "SELECT column_id, column_name, column_type, parent_column, initial_default FROM ducklake_column WHERE table_id = ?"
)
COLUMNS_NOW = f"{_COLUMNS_OF_TABLE} AND {NOW} ORDER BY column_order"
COLUMNS_THEN = f"{_COLUMNS_OF_TABLE} AND {THEN} ORDER BY column_order"


def ended(table: str, *key: str) -> str:
    """The last end of rows with these values."""
    return f"SELECT max(end_snapshot) FROM {table} WHERE {' AND '.join(f'{column} = ?' for column in key)}"


def names_like(table: str, number: str, column: str) -> str:
    """The names, in lower case and within a range, of a schema's tables or views, except one."""
    return (
        f"SELECT lower({column}) FROM {table} WHERE schema_id = ? AND {NOW} AND {number} <> ?"
        f" AND lower({column}) >= ? AND lower({column}) < ?"
    )


DELETE_FILES_OF = "SELECT delete_file_id FROM ducklake_delete_file WHERE data_file_id = ? AND end_snapshot IS NULL"
INSERT_DATA_FILE = _insert(
    "ducklake_data_file",
    "data_file_id, table_id, begin_snapshot, path, path_is_relative, file_format, record_count, file_size_bytes, "
    "footer_size, row_id_start, mapping_id",
)
INSERT_DELETE_FILE = _insert(
    "ducklake_delete_file",
    "delete_file_id, table_id, begin_snapshot, data_file_id, path, path_is_relative, format, delete_count, "
    "file_size_bytes, footer_size, partial_max",
)
DELETE_DELETE_FILE = delete("ducklake_delete_file", "delete_file_id")
INSERT_COLUMN_MAPPING = _insert("ducklake_column_mapping", "mapping_id, table_id, type")
INSERT_NAME_MAPPING = _insert(
    "ducklake_name_mapping", "mapping_id, column_id, source_name, target_field_id, parent_column, is_partition"
)
SOURCE_NAMES = (
    "SELECT target_field_id, source_name, is_partition FROM ducklake_name_mapping WHERE mapping_id = ?"
    " AND parent_column IS NULL"
)
_DATA_COLUMNS = (
    "f.data_file_id, f.begin_snapshot, f.end_snapshot, f.path, f.path_is_relative, f.record_count, f.file_size_bytes,"
    " f.row_id_start, f.mapping_id, f.partial_max, f.file_format, f.encryption_key, p.row_checksum,"
    " p.footer_checksum, p.checksum"
)
_DELETE_COLUMNS = (
    "d.delete_file_id, d.begin_snapshot, d.path, d.path_is_relative, d.format, d.delete_count, d.file_size_bytes,"
    " d.partial_max, d.encryption_key, q.row_checksum, q.footer_checksum, q.checksum"
)
_OWN_DATA = "LEFT JOIN pgrepl_file p ON p.file_id = f.data_file_id"
_OWN_DELETE = "LEFT JOIN pgrepl_file q ON q.file_id = d.delete_file_id"
_IN_ORDER = " ORDER BY f.begin_snapshot, f.data_file_id"
_FILES_THEN = (
    f"SELECT {_DATA_COLUMNS}, {_DELETE_COLUMNS} FROM ducklake_data_file f {_OWN_DATA} LEFT JOIN ducklake_delete_file d"
    f" ON d.data_file_id = f.data_file_id AND {THEN_OF.format('d')} {_OWN_DELETE}"
    f" WHERE f.table_id = ? AND {THEN_OF.format('f')}"
)
FILES_THEN = _FILES_THEN + _IN_ORDER
FILE_THEN = f"{_FILES_THEN} AND f.data_file_id = ?{_IN_ORDER}"
FILE_IDS_THEN = f"SELECT data_file_id FROM ducklake_data_file f WHERE table_id = ? AND {THEN_OF.format('f')}{_IN_ORDER}"
FILES_EXTENT_THEN = (
    "SELECT count(*), coalesce(sum(record_count), 0), coalesce(sum(file_size_bytes), 0) FROM ducklake_data_file f"
    f" WHERE table_id = ? AND {THEN_OF.format('f')}"
)
FILES_BETWEEN = (
    f"SELECT {_DATA_COLUMNS} FROM ducklake_data_file f {_OWN_DATA} WHERE f.table_id = ? AND {THEN_OF.format('f')}"
    f"{_IN_ORDER}"
)
DELETE_FILES_UNTIL = (
    f"SELECT d.data_file_id, {_DELETE_COLUMNS} FROM ducklake_delete_file d {_OWN_DELETE}"
    " WHERE d.table_id = ? AND d.begin_snapshot <= ? ORDER BY d.begin_snapshot, d.delete_file_id"
)
END_FILES_OF_TABLE = (
    f"UPDATE ducklake_data_file SET end_snapshot = ? WHERE table_id = ? AND {NOW}",
    f"UPDATE ducklake_delete_file SET end_snapshot = ? WHERE table_id = ? AND {NOW}",
)
END_FILE = (
    f"UPDATE ducklake_data_file SET end_snapshot = ? WHERE data_file_id = ? AND {NOW}",
    f"UPDATE ducklake_delete_file SET end_snapshot = ? WHERE data_file_id = ? AND {NOW}",
)
PATH_OF_DELETE_FILE = "SELECT path, path_is_relative FROM ducklake_delete_file WHERE delete_file_id = ?"
PATHS_AND_SIZES = (
    "SELECT table_id, path, path_is_relative, file_size_bytes FROM ducklake_data_file",
    "SELECT table_id, path, path_is_relative, file_size_bytes FROM ducklake_delete_file",
)
_DATA_PLACES = "SELECT data_file_id, table_id, path, path_is_relative FROM ducklake_data_file WHERE"
_DELETE_PLACES = "SELECT delete_file_id, table_id, path, path_is_relative, data_file_id FROM ducklake_delete_file WHERE"
_NOT_ENDED = "(end_snapshot IS NULL OR end_snapshot > ?)"
ENDED_DATA_FILES = f"{_DATA_PLACES} end_snapshot <= ?"
ENDED_DELETE_FILES = f"{_DELETE_PLACES} end_snapshot <= ?"
OTHER_DATA_FILES_OF_TABLE = f"{_DATA_PLACES} table_id = ? AND {_NOT_ENDED}"
OTHER_DELETE_FILES_OF_FILE = f"{_DELETE_PLACES} data_file_id = ? AND {_NOT_ENDED}"
DELETE_DATA_FILE = tuple(
    delete(table, "data_file_id")
    for table in ("ducklake_data_file", "ducklake_file_column_stats", "ducklake_file_partition_value")
)


_CHANGED = (  # a delete file that took over the rows of earlier ones counts whole, at its last snapshot
    ("record_count", "ducklake_data_file", "begin_snapshot"),
    ("delete_count", "ducklake_delete_file", "coalesce(partial_max, begin_snapshot)"),
)
_BETWEEN = "SELECT coalesce(sum({0}), 0) FROM {1} WHERE {2} >= ? AND {2} < ?"
_CHANGED_BETWEEN = tuple([_BETWEEN.format(*names) for names in _CHANGED])
ROWS_CHANGED_BETWEEN = " UNION ALL ".join(_CHANGED_BETWEEN)
ROWS_CHANGED_BY_SNAPSHOT = " UNION ALL ".join(
    ["SELECT {2}, sum({0}) FROM {1} WHERE {2} >= ? AND {2} < ? GROUP BY 1".format(*names) for names in _CHANGED]
)
ROWS_OF_TABLE_CHANGED_BETWEEN = tuple([f"{query} AND table_id = ?" for query in _CHANGED_BETWEEN])
LIVING_ROWS_BY_TABLE = f"SELECT table_id, sum(record_count) FROM ducklake_data_file WHERE {NOW} GROUP BY table_id"
DEAD_ROWS_BY_TABLE = f"SELECT table_id, sum(delete_count) FROM ducklake_delete_file WHERE {NOW} GROUP BY table_id"

PRESENT_FILES = tuple(
    f"SELECT count(*), coalesce(sum(file_size_bytes), 0) FROM {table} WHERE {NOW}"
    for table in ("ducklake_data_file", "ducklake_delete_file")
)
BYTES_ENDED_SINCE = tuple(
    f"SELECT coalesce(sum(file_size_bytes), 0) FROM {table} WHERE end_snapshot >= ?"
    for table in ("ducklake_data_file", "ducklake_delete_file")
)
SMALL_FILES = f"SELECT table_id, file_size_bytes FROM ducklake_data_file WHERE {NOW} AND file_size_bytes < ?"


def volumes(table: str, count: str, *, of_one: bool) -> str:
    """The bytes, the rows and the number of the files of each table, or of one."""
    only = " AND table_id = ?" if of_one else ""
    sums = f"sum(file_size_bytes), sum({count}), count(*)"
    return f"SELECT table_id, {sums} FROM {table} WHERE {NOW}{only} GROUP BY table_id"


# --- files that pgrepl has written, and files to be removed ----------------------------------------------------------

INSERT_OWN_FILE = _insert(
    "pgrepl_file", "file_id, table_id, data_file_id, begin_snapshot, path, row_checksum, footer_checksum, checksum"
)
DELETE_OWN_FILE = delete("pgrepl_file", "file_id")
OWN_PATHS = "SELECT path FROM pgrepl_file"
OWN_FILES = "SELECT table_id, path FROM pgrepl_file WHERE table_id IN (SELECT table_id FROM ducklake_table)"
UNNAMED_OWN_FILES = (
    "SELECT o.file_id, o.table_id, o.path, s.data_file_id FROM pgrepl_file o"
    " JOIN ducklake_table t ON t.table_id = o.table_id"
    " LEFT JOIN ducklake_files_scheduled_for_deletion s ON s.data_file_id = o.file_id"
    " WHERE o.file_id NOT IN (SELECT data_file_id FROM ducklake_data_file)"
    " AND o.file_id NOT IN (SELECT delete_file_id FROM ducklake_delete_file)"
)
DELETE_SCHEDULED = "DELETE FROM ducklake_files_scheduled_for_deletion"
SCHEDULE_DELETION = _insert(
    "ducklake_files_scheduled_for_deletion", "data_file_id, path, path_is_relative, schedule_start"
)
DUE_FOR_DELETION = (
    "SELECT data_file_id, path, path_is_relative FROM ducklake_files_scheduled_for_deletion WHERE schedule_start <= ?"
)
SCHEDULED_FOR_DELETION = "SELECT path, path_is_relative FROM ducklake_files_scheduled_for_deletion"
# 0, with which they come before the rows of files; then as columns of those: the file, its owner now, its path
_FORGOTTEN = """SELECT 0, o.data_file_id, CASE WHEN o.data_file_id IS NULL THEN f.table_id ELSE d.table_id END,
    NULL, o.path{0}
FROM pgrepl_file o LEFT JOIN ducklake_data_file f ON f.data_file_id = o.file_id
LEFT JOIN ducklake_delete_file d ON d.delete_file_id = o.file_id
WHERE o.table_id = ? AND CASE WHEN o.data_file_id IS NULL
    THEN f.table_id IS NULL OR f.table_id <> o.table_id OR f.begin_snapshot <> o.begin_snapshot
        OR f.end_snapshot < f.begin_snapshot
    ELSE d.table_id IS NULL OR d.table_id <> o.table_id OR d.begin_snapshot <> o.begin_snapshot
        OR d.data_file_id <> o.data_file_id OR d.end_snapshot < d.begin_snapshot END
AND NOT EXISTS (SELECT 1 FROM ducklake_files_scheduled_for_deletion s WHERE s.data_file_id = o.file_id)"""
FORGOTTEN_OWN_FILES = _FORGOTTEN.format("")


def _with_forgotten(files: str, columns: str) -> str:
    """The rows of FORGOTTEN_OWN_FILES, then those of `files`, with 1 before them."""
    nothing = ", NULL" * (columns.count(",") - 3)
    ordered = files.removesuffix(_IN_ORDER).replace("SELECT ", "SELECT 1, ", 1)
    return f"{_FORGOTTEN.format(nothing)} UNION ALL {ordered} ORDER BY 1, 3, 2"


CHECKED_FILES_THEN = _with_forgotten(FILES_THEN, f"{_DATA_COLUMNS}, {_DELETE_COLUMNS}")
CHECKED_FILE_THEN = _with_forgotten(FILE_THEN, f"{_DATA_COLUMNS}, {_DELETE_COLUMNS}")
CHECKED_FILES_BETWEEN = _with_forgotten(FILES_BETWEEN, _DATA_COLUMNS)
DELETE_REMOVED_FILE = (
    delete("ducklake_files_scheduled_for_deletion", "data_file_id"),
    delete("pgrepl_file", "file_id"),
)


def is_file_of_others(table: str, key: str) -> str:
    """A query: has a table a file that another program has written?"""
    return f"SELECT 1 FROM {table} WHERE table_id = ? AND {key} NOT IN (SELECT file_id FROM pgrepl_file) LIMIT 1"


TABLE_STATISTICS = (  # and those of the columns
    "SELECT t.record_count, t.next_row_id, t.file_size_bytes, c.column_id, c.contains_null, c.contains_nan,"
    " c.min_value, c.max_value FROM ducklake_table_stats t"
    " LEFT JOIN ducklake_table_column_stats c ON c.table_id = t.table_id WHERE t.table_id = ?"
)
NEXT_ROW_ID = "SELECT next_row_id FROM ducklake_table_stats WHERE table_id = ?"
INSERT_TABLE_STATISTICS = _insert("ducklake_table_stats", "record_count, next_row_id, file_size_bytes, table_id")
UPDATE_TABLE_STATISTICS = (
    "UPDATE ducklake_table_stats SET record_count = ?, next_row_id = ?, file_size_bytes = ? WHERE table_id = ?"
)
INSERT_COLUMN_STATISTICS = _insert(
    "ducklake_table_column_stats", "table_id, column_id, contains_null, contains_nan, min_value, max_value"
)
UPDATE_COLUMN_STATISTICS = (
    "UPDATE ducklake_table_column_stats SET contains_null = ?, contains_nan = ?, min_value = ?, max_value = ?"
    " WHERE table_id = ? AND column_id = ?"
)
DELETE_COLUMN_STATISTICS = "DELETE FROM ducklake_table_column_stats WHERE table_id = ? AND column_id = ?"
INSERT_FILE_STATISTICS = _insert(
    "ducklake_file_column_stats",
    "data_file_id, table_id, column_id, column_size_bytes, value_count, null_count, min_value, max_value, contains_nan",
)
FILE_STATISTICS = (
    "SELECT data_file_id, column_id, value_count, null_count, min_value, max_value, contains_nan"
    " FROM ducklake_file_column_stats WHERE table_id = ?"
)
FILE_BOUNDS = (  # whether all values are NULL is asked only where one is
    "SELECT s.data_file_id, s.min_value, s.max_value, s.contains_nan, s.null_count, CASE WHEN s.null_count > 0"
    " THEN (SELECT f.record_count FROM ducklake_data_file f WHERE f.data_file_id = s.data_file_id) END"
    " FROM ducklake_file_column_stats s WHERE s.table_id = ? AND s.column_id = ?"
)
BOUNDS_OF_TABLE_AND_FILES = (
    "SELECT t.column_id, t.min_value, t.max_value, f.min_value, f.max_value FROM ducklake_table_column_stats t"
    " LEFT JOIN ducklake_file_column_stats f ON f.table_id = t.table_id AND f.column_id = t.column_id"
    " WHERE t.table_id = ?"
)


# --- inlined rows ----------------------------------------------------------------------------------------------------

INLINED_TABLES = (
    "SELECT table_name, schema_version, (SELECT max(begin_snapshot) FROM ducklake_schema_versions v"
    " WHERE v.table_id = i.table_id AND v.schema_version <= i.schema_version) FROM ducklake_inlined_data_tables i"
    " WHERE table_id = ? ORDER BY schema_version"
)
NAMES_OF_INLINED_TABLES = "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?"
INLINED_TABLE_AT = "SELECT 1 FROM ducklake_inlined_data_tables LIMIT 1 OFFSET ?"
EVERY_INLINED_TABLE = "SELECT table_name, table_id FROM ducklake_inlined_data_tables"
TABLES_WITH_INLINED_ROWS = "SELECT DISTINCT table_id FROM ducklake_inlined_data_tables"
NO_ROWS_IN_TABLES = "UPDATE ducklake_table_stats SET record_count = 0, file_size_bytes = 0"
DELETE_INLINED_TABLE = delete("ducklake_inlined_data_tables", "table_name")
IS_TABLE_IN_SQLITE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
IS_TABLE_ON_SERVER = "SELECT to_regclass(%s)"
HAS_INLINED_SUM = "SELECT 1 FROM pgrepl_inlined WHERE table_name = ? AND begin_snapshot = ?"
INLINED_SUMS = "SELECT begin_snapshot, row_count, checksum FROM pgrepl_inlined WHERE table_name = ?"
ADD_TO_INLINED_SUM = (
    "INSERT INTO pgrepl_inlined (table_name, begin_snapshot, row_count, checksum) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (table_name, begin_snapshot) DO UPDATE SET row_count = row_count + excluded.row_count,"
    " checksum = checksum + excluded.checksum"
)
DELETE_EMPTY_INLINED_SUMS = "DELETE FROM pgrepl_inlined WHERE table_name = ? AND row_count <= 0"
DELETE_INLINED_SUMS = delete("pgrepl_inlined", "table_name")


OWN_COLUMNS = ("row_id", "begin_snapshot", "end_snapshot")  # the first ones of a table of inlined rows
PREFIX = "_ducklake_"  # of their names, in a catalog of DuckLake 1.1


def of_inlined(condition: str, prefix: str) -> str:
    """A condition on these columns, by their names in the table."""
    return re.sub(rf"\b({'|'.join(OWN_COLUMNS)})\b", rf"{prefix}\1", condition) if prefix else condition


def create_inlined_table(name: str, columns: list[str], prefix: str) -> str:
    own = [f"{prefix}{column} BIGINT" for column in OWN_COLUMNS]
    every = ", ".join([*own, *columns])
    return f"CREATE TABLE IF NOT EXISTS {name} ({every})"


def rename_inlined_column(name: str, column: str) -> str:
    return f"ALTER TABLE {quoted(name)} RENAME COLUMN {column} TO {PREFIX}{column}"


def inlined_rows(name: str, columns: list[str], conditions: list[str], order: str, prefix: str) -> str:
    row_id, begin, end = (prefix + column for column in OWN_COLUMNS)
    picked = ", ".join([row_id, begin, *columns, end])
    return f"SELECT {picked} FROM {quoted(name)} WHERE {' AND '.join(conditions)} ORDER BY {begin}, {order}"


def count_inlined_rows(name: str, prefix: str) -> str:
    return f"SELECT count(*) FROM {quoted(name)} WHERE {of_inlined(THEN, prefix)}"


def count_living_inlined_rows(name: str, prefix: str) -> str:
    return f"SELECT count(*) FROM {quoted(name)} WHERE {prefix}{NOW}"


def count_inlined_deletes(name: str) -> str:
    """The number of inlined deletes of current files."""
    return f"SELECT count(*) FROM {name} WHERE file_id IN (SELECT data_file_id FROM ducklake_data_file WHERE {NOW})"


def files_with_inlined_deletes(name: str) -> str:
    """The files with more inlined deletes than the parameter."""
    living = f"SELECT data_file_id FROM ducklake_data_file WHERE {NOW}"
    return f"SELECT file_id FROM {name} WHERE file_id IN ({living}) GROUP BY file_id HAVING count(*) > ?"


def size_of_inlined_rows(name: str, overhead: int, columns: list[str], prefix: str) -> str:
    """The bytes of the columns as text, and `overhead` more for each row."""
    lengths = [f"coalesce(length(CAST({quoted(column)} AS text)), 0)" for column in columns]
    return f"SELECT sum({' + '.join([str(overhead), *lengths])}) FROM {quoted(name)} WHERE {prefix}{NOW}"


def living_inlined_rows(name: str, count: int, prefix: str) -> str:
    """The current ones of `count` row ids."""
    some = f"{prefix}row_id IN ({', '.join('?' * count)})"
    return f"SELECT {prefix}row_id FROM {quoted(name)} WHERE {prefix}{NOW} AND {some}"


def inlined_rows_begun_after(name: str, prefix: str) -> str:
    return f"SELECT {prefix}row_id FROM {quoted(name)} WHERE {prefix}{NOW} AND {prefix}begin_snapshot > ?"


BEGIN_OF_FILE = "SELECT begin_snapshot FROM ducklake_data_file WHERE data_file_id = ?"


def begins_of_inlined_row(name: str, prefix: str) -> str:
    return f"SELECT {prefix}begin_snapshot FROM {quoted(name)} WHERE {prefix}row_id = ?"


def is_inlined_row_begun_after(name: str, prefix: str) -> str:
    return f"SELECT 1 FROM {quoted(name)} WHERE {prefix}row_id = ? AND {prefix}begin_snapshot > ?"


def insert_inlined_row(name: str, columns: int) -> str:
    return f"INSERT INTO {quoted(name)} VALUES ({', '.join('?' * (3 + columns))})"


def end_inlined_row(name: str, prefix: str) -> str:
    return f"{end_inlined_rows(name, prefix)} AND {prefix}row_id = ?"


def end_inlined_rows(name: str, prefix: str) -> str:
    return f"UPDATE {quoted(name)} SET {prefix}end_snapshot = ? WHERE {prefix}{NOW}"


def create_inlined_deletes(name: str) -> str:
    return f"CREATE TABLE {name} (file_id BIGINT, row_id BIGINT, begin_snapshot BIGINT)"


def insert_inlined_delete(name: str) -> str:
    return _insert(name, "file_id, row_id, begin_snapshot")


def inlined_deletes(name: str, *, of_one_file: bool) -> str:
    only = " AND file_id = ?" if of_one_file else ""
    return f"SELECT file_id, row_id, begin_snapshot FROM {name} WHERE begin_snapshot <= ?{only}"


def newest_inlined_rows(name: str) -> str:
    """The condition for the rows that were written last, whose number is the parameter."""
    return f"rowid > (SELECT max(rowid) FROM {quoted(name)}) - ?"


def every_column_of_inlined_rows(name: str, condition: str) -> str:
    return f"SELECT * FROM {quoted(name)} WHERE {condition}"


def delete_inlined_rows(name: str, condition: str) -> str:
    return f"DELETE FROM {quoted(name)} WHERE {condition}"


def drop_inlined_table(name: str) -> str:
    return f"DROP TABLE {quoted(name)}"


def _of_moved(name: str, begin: str) -> str:
    """The sums of snapshots that have no rows in the table, which begin by its column `begin`."""
    gone = f"begin_snapshot NOT IN (SELECT {begin} FROM {quoted(name)})"
    return f"FROM pgrepl_inlined WHERE table_name = ? AND {gone}"


def has_moved_inlined_sums(name: str, begin: str) -> str:
    return f"SELECT 1 {_of_moved(name, begin)} LIMIT 1"


def delete_moved_inlined_sums(name: str, begin: str) -> str:
    return f"DELETE {_of_moved(name, begin)}"


# which tables and enums of a database have other definitions from snapshots on: (snapshot, OID, is it an enum?)
REDEFINED_BETWEEN = " UNION ".join(
    f"SELECT {place}, {oid}, {is_enum} FROM {table} WHERE {place} >= ? AND {place} < ?"
    for table, oid, is_enum in (
        ("pg_class", "oid", 0), ("pg_attribute", "attrelid", 0), ("pg_attrdef", "adrelid", 0),
        ("pg_constraint", "conrelid", 0), ("pg_index", "indrelid", 0), ("pg_enum", "enumtypid", 1),
    )
    for place in ("begin_snapshot", "end_snapshot")
)  # fmt: skip
ATTRIBUTE_VERSIONS = (
    "SELECT begin_snapshot FROM pg_attribute WHERE attrelid = ? AND attnum = ? AND begin_snapshot <= ?"
    " ORDER BY begin_snapshot"
)
