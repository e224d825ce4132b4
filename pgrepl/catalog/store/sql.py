"""The catalog's SQL statements beyond rows found by equality of columns, by name. `?` is a parameter, on a server
too.
"""

from __future__ import annotations


def delete_every(table: str) -> str:
    """DELETE of all rows."""
    return f"DELETE FROM {table}"


# Definitions of other programs that do not raise schema_version. In PostgreSQL every commit counts as a change.
_OPTIONS = (
    "(SELECT group_concat(key || '=' || value || '@' || coalesce(scope || scope_id, ''), ' ') FROM ducklake_metadata)"
)
_INLINED = (
    "(SELECT count(*) || ' ' || total(table_id) || ' ' || total(schema_version) FROM ducklake_inlined_data_tables)"
)
_STATE = (
    "SELECT i.change_count, i.next_oid, {options}, {inlined}, i.lake_schema_version, s.snapshot_id, s.next_catalog_id,"
    " s.next_file_id, s.schema_version, (SELECT count(*) FROM pgrepl_setting WHERE name = ?)"
    " FROM pgrepl_instance i LEFT JOIN ducklake_snapshot s"
    " ON s.snapshot_id = (SELECT max(snapshot_id) FROM ducklake_snapshot)"
)
STATE_IN_SQLITE = _STATE.format(options=_OPTIONS, inlined=_INLINED)
STATE_ON_SERVER = _STATE.format(options="NULL", inlined="NULL")
VERSION_ON_SERVER = "SELECT change_count + (SELECT max(snapshot_id) FROM ducklake_snapshot) FROM pgrepl_instance"
# In which other processes work: for the subscription, and at all; the last parameter is the slot's.
OTHERS_AT_WORK = """SELECT (SELECT count(*) FROM pgrepl_worker WHERE subid = ?)
    + (SELECT count(*) FROM pgrepl_meeting WHERE subid = ?),
    (SELECT count(*) FROM pgrepl_worker WHERE relid = 0),
    (SELECT count(*) FROM pgrepl_walsender WHERE slot_name = ?), (SELECT count(*) FROM pgrepl_walsender),
    (SELECT count(*) FROM pgrepl_subscription_error WHERE subid = ?)"""

ADD_TO_SUM = (
    "INSERT INTO pgrepl_sum (table_name, row_count, checksum) VALUES (?, ?, ?) ON CONFLICT (table_name) DO UPDATE"
    " SET row_count = row_count + excluded.row_count, checksum = checksum + excluded.checksum"
)


# --- snapshots -------------------------------------------------------------------------------------------------------

SNAPSHOT_AT = "SELECT max(snapshot_id) FROM ducklake_snapshot WHERE snapshot_time <= ?"
INSERT_SNAPSHOT = (
    "INSERT INTO ducklake_snapshot (snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id)"
    " SELECT ?, ?, schema_version + ?, coalesce(?, next_catalog_id), coalesce(?, next_file_id)"
    " FROM ducklake_snapshot WHERE snapshot_id = ?"
)
INSERT_CHANGES = "INSERT INTO ducklake_snapshot_changes (snapshot_id, changes_made, commit_extra_info) VALUES (?, ?, ?)"
INSERT_SCHEMA_VERSION = (
    "INSERT INTO ducklake_schema_versions (begin_snapshot, schema_version, table_id) VALUES (?, ?, ?)"
)
EXTRA_INFO = "SELECT commit_extra_info FROM ducklake_snapshot_changes WHERE snapshot_id = ?"
SET_EXTRA_INFO = "UPDATE ducklake_snapshot_changes SET commit_extra_info = ? WHERE snapshot_id = ?"
ADOPT_SCHEMA_VERSION = (
    "UPDATE pgrepl_instance SET lake_schema_version ="
    " (SELECT schema_version FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1)"
)
NEXT_FILE_ID = "SELECT next_file_id FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1"
NEXT_CATALOG_ID = "SELECT next_catalog_id FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1"
_LIKE = "changes_made LIKE ?"
IS_CHANGED_AFTER = (
    f"SELECT 1 FROM ducklake_snapshot_changes WHERE snapshot_id > ? AND ({_LIKE} OR {_LIKE} OR {_LIKE}) LIMIT 1"
)
EVERY_CHANGE = (
    "SELECT s.snapshot_id, s.snapshot_time, c.changes_made, c.commit_extra_info FROM ducklake_snapshot s"
    " LEFT JOIN ducklake_snapshot_changes c ON c.snapshot_id = s.snapshot_id"
)
NUMBERS_OF_SNAPSHOTS = "SELECT max(snapshot_id), count(*), count(DISTINCT snapshot_id) FROM ducklake_snapshot"
CHANGES_WITHOUT_SNAPSHOT = (
    "SELECT c.snapshot_id FROM ducklake_snapshot_changes c WHERE NOT EXISTS"
    " (SELECT 1 FROM ducklake_snapshot s WHERE s.snapshot_id = c.snapshot_id) LIMIT ?"
)


def number_of_snapshot(column: str) -> str:
    """A counter as of a snapshot."""
    return f"SELECT {column} FROM ducklake_snapshot WHERE snapshot_id = ?"


def ended_files(table: str, key: str) -> str:
    """The files that ended, and what the snapshots did at which they ended."""
    return (
        f"SELECT f.{key}, f.table_id, f.end_snapshot, c.changes_made FROM {table} f"
        " JOIN ducklake_snapshot_changes c ON c.snapshot_id = f.end_snapshot"
    )


# --- where the files are ---------------------------------------------------------------------------------------------

DATA_PATH = "SELECT value FROM ducklake_metadata WHERE key = 'data_path' AND scope IS NULL"
SET_DATA_PATH = "UPDATE ducklake_metadata SET value = ? WHERE key = 'data_path' AND scope IS NULL"
FORMAT_OF_CATALOG = "SELECT format_version FROM pgrepl_instance"
OPTIONS_OF_LAKE = "SELECT key, value FROM ducklake_metadata WHERE scope IS NULL"
INSERT_OPTION = "INSERT INTO ducklake_metadata (key, value) VALUES (?, ?)"
INSERT_MAIN_SCHEMA = (
    "INSERT INTO ducklake_schema (schema_id, schema_uuid, begin_snapshot, schema_name, path, path_is_relative)"
    " VALUES (0, ?, 0, 'main', 'main/', ?)"
)
WITH_PATHS = ("ducklake_schema", "ducklake_table", "ducklake_data_file", "ducklake_delete_file")


def newest_files(table: str) -> str:
    """The paths of some current files, and those of their tables and schemas."""
    return (
        f"SELECT s.path, s.path_is_relative, t.path, t.path_is_relative, f.path FROM {table} f"
        " JOIN ducklake_table t ON t.table_id = f.table_id JOIN ducklake_schema s ON s.schema_id = t.schema_id"
        " WHERE f.path_is_relative AND f.end_snapshot IS NULL AND t.end_snapshot IS NULL"
        " AND s.end_snapshot IS NULL ORDER BY f.data_file_id DESC LIMIT ?"
    )


def absolute_paths(table: str) -> str:
    return f"SELECT DISTINCT path FROM {table} WHERE NOT path_is_relative"


def change_path(table: str) -> str:
    """UPDATE of an absolute path."""
    return f"UPDATE {table} SET path = ? WHERE path = ? AND NOT path_is_relative"


def change_folder(table: str) -> str:
    """UPDATE of how absolute paths begin: the new beginning, where the rest begins, the old one's length, the old."""
    return f"UPDATE {table} SET path = ? || substr(path, ?) WHERE NOT path_is_relative AND substr(path, 1, ?) = ?"


LAST_CONFLICT = "SELECT coalesce(max(id), 0) FROM pgrepl_conflict"
PRUNE_CONFLICTS = "DELETE FROM pgrepl_conflict WHERE subid = ? AND id <= ? AND state NOT IN (?, ?, ?, ?)"


OF_PROCESSES = ("pgrepl_copy", "pgrepl_meeting", "pgrepl_walsender", "pgrepl_worker")
NO_ACTIVE_SLOTS = "UPDATE pg_replication_slot SET active_pid = NULL"
DELETE_UNSYNCED_SLOTS = "DELETE FROM pg_replication_slot WHERE NOT failover OR temporary OR slot_type <> 'logical'"
SYNC_SLOTS = "UPDATE pg_replication_slot SET synced = 1, active_pid = NULL, inactive_since = ?"
SYNCED_SLOTS = (
    "SELECT slot_name FROM pg_replication_slot WHERE synced AND invalidation_reason IS NULL ORDER BY slot_name"
)
SETTINGS = "SELECT name, value FROM pgrepl_setting"
INSERT_SETTING = "INSERT INTO pgrepl_setting (name, value) VALUES (?, ?)"
