"""The tables of DuckLake 1.0 in catalog.db, with the columns that DuckDB's extension gives them, and what 1.1 adds.

Other DuckLake programs read and write these tables, too, so that pgrepl adds nothing but indexes. A row is valid from
`begin_snapshot` up to, but not including, `end_snapshot`.
"""

from __future__ import annotations

from pgrepl.catalog.store.declarative import Int8, Moment, SystemRow, Truth, Uuid, Varchar

LAKE_VERSION = "1.0"  # of a new catalog
VERSIONS = (LAKE_VERSION, "1.1")  # that are read and written
NEW_COLUMNS = {  # of DuckLake 1.1: pgrepl leaves them NULL
    "ducklake_data_file": ("row_group_count BIGINT",),
    "ducklake_delete_file": ("row_group_count BIGINT",),
    "ducklake_file_column_stats": ("min_is_exact BOOLEAN", "max_is_exact BOOLEAN"),
    "ducklake_table_column_stats": ("min_is_exact BOOLEAN", "max_is_exact BOOLEAN"),
    "ducklake_schema": ("parent_schema_id BIGINT",),
}
NEW_TABLE = (
    "CREATE TABLE ducklake_view_column_tag (view_id BIGINT, column_name VARCHAR, begin_snapshot BIGINT,"
    " end_snapshot BIGINT, key VARCHAR, value VARCHAR)"
)


def metadata(created_by: str, data_path: str) -> dict[str, str]:
    """The rows of ducklake_metadata in a new catalog."""
    return {"version": LAKE_VERSION, "created_by": created_by, "data_path": data_path, "encrypted": "false"}


# --- the catalog as a whole ---------------------------------------------------------------------------------------


class ducklake_metadata(SystemRow):
    key: Varchar
    value: Varchar
    scope: Varchar | None
    scope_id: Int8 | None


class ducklake_snapshot(SystemRow, key=("snapshot_id",)):
    snapshot_id: Int8
    snapshot_time: Moment
    schema_version: Int8
    next_catalog_id: Int8
    next_file_id: Int8


class ducklake_snapshot_changes(SystemRow, key=("snapshot_id",)):
    snapshot_id: Int8
    changes_made: Varchar
    author: Varchar | None
    commit_message: Varchar | None
    commit_extra_info: Varchar | None


class ducklake_schema_versions(SystemRow, indexes=(("table_id",),)):
    begin_snapshot: Int8
    schema_version: Int8
    table_id: Int8


# --- schemas, tables, columns, views ------------------------------------------------------------------------------


class ducklake_schema(SystemRow, key=("schema_id",)):
    schema_id: Int8
    schema_uuid: Uuid
    begin_snapshot: Int8
    end_snapshot: Int8 | None
    schema_name: Varchar
    path: Varchar
    path_is_relative: Truth


class ducklake_table(SystemRow, indexes=(("table_id",), ("schema_id", "lower(table_name)"))):
    table_id: Int8
    table_uuid: Uuid
    begin_snapshot: Int8
    end_snapshot: Int8 | None
    schema_id: Int8
    table_name: Varchar
    path: Varchar
    path_is_relative: Truth


class ducklake_column(SystemRow, indexes=(("table_id",),)):
    column_id: Int8
    begin_snapshot: Int8
    end_snapshot: Int8 | None
    table_id: Int8
    column_order: Int8
    column_name: Varchar
    column_type: Varchar
    initial_default: Varchar | None
    default_value: Varchar | None
    nulls_allowed: Truth
    parent_column: Int8 | None
    default_value_type: Varchar | None
    default_value_dialect: Varchar | None


class ducklake_view(SystemRow, indexes=(("view_id",), ("schema_id", "lower(view_name)"))):
    view_id: Int8
    view_uuid: Uuid
    begin_snapshot: Int8
    end_snapshot: Int8 | None
    schema_id: Int8
    view_name: Varchar
    dialect: Varchar
    sql: Varchar
    column_aliases: Varchar | None


class ducklake_tag(SystemRow, indexes=(("object_id",),)):
    object_id: Int8
    begin_snapshot: Int8
    end_snapshot: Int8 | None
    key: Varchar
    value: Varchar


class ducklake_column_tag(SystemRow, indexes=(("table_id",),)):
    table_id: Int8
    column_id: Int8
    begin_snapshot: Int8
    end_snapshot: Int8 | None
    key: Varchar
    value: Varchar


class ducklake_macro(SystemRow):
    schema_id: Int8
    macro_id: Int8
    macro_name: Varchar
    begin_snapshot: Int8
    end_snapshot: Int8 | None


class ducklake_macro_impl(SystemRow):
    macro_id: Int8
    impl_id: Int8
    dialect: Varchar
    sql: Varchar
    type: Varchar


class ducklake_macro_parameters(SystemRow):
    macro_id: Int8
    impl_id: Int8
    column_id: Int8
    parameter_name: Varchar
    parameter_type: Varchar
    default_value: Varchar
    default_value_type: Varchar


# --- files --------------------------------------------------------------------------------------------------------


class ducklake_data_file(SystemRow, key=("data_file_id",), indexes=(("table_id",),)):
    data_file_id: Int8
    table_id: Int8
    begin_snapshot: Int8
    end_snapshot: Int8 | None
    file_order: Int8 | None
    path: Varchar
    path_is_relative: Truth
    file_format: Varchar
    record_count: Int8
    file_size_bytes: Int8
    footer_size: Int8
    row_id_start: Int8
    partition_id: Int8 | None
    encryption_key: Varchar | None
    mapping_id: Int8 | None
    partial_max: Int8 | None


class ducklake_delete_file(SystemRow, key=("delete_file_id",), indexes=(("table_id",), ("data_file_id",))):
    delete_file_id: Int8
    table_id: Int8
    begin_snapshot: Int8
    end_snapshot: Int8 | None
    data_file_id: Int8
    path: Varchar
    path_is_relative: Truth
    format: Varchar
    delete_count: Int8
    file_size_bytes: Int8
    footer_size: Int8 | None
    encryption_key: Varchar | None
    partial_max: Int8 | None


class ducklake_files_scheduled_for_deletion(SystemRow):
    data_file_id: Int8
    path: Varchar
    path_is_relative: Truth
    schedule_start: Moment


class ducklake_inlined_data_tables(SystemRow, indexes=(("table_id",),)):
    table_id: Int8
    table_name: Varchar
    schema_version: Int8


class ducklake_column_mapping(SystemRow, indexes=(("table_id",),)):
    mapping_id: Int8
    table_id: Int8
    type: Varchar


class ducklake_name_mapping(SystemRow, indexes=(("mapping_id",),)):
    mapping_id: Int8
    column_id: Int8
    source_name: Varchar
    target_field_id: Int8
    parent_column: Int8 | None
    is_partition: Truth


# --- statistics ---------------------------------------------------------------------------------------------------


class ducklake_table_stats(SystemRow, indexes=(("table_id",),)):
    table_id: Int8
    record_count: Int8
    next_row_id: Int8
    file_size_bytes: Int8


class ducklake_table_column_stats(SystemRow, indexes=(("table_id",),)):
    table_id: Int8
    column_id: Int8
    contains_null: Truth
    contains_nan: Truth | None
    min_value: Varchar | None
    max_value: Varchar | None
    extra_stats: Varchar | None


class ducklake_file_column_stats(SystemRow, indexes=(("data_file_id",), ("table_id", "column_id"))):
    data_file_id: Int8
    table_id: Int8
    column_id: Int8
    column_size_bytes: Int8
    value_count: Int8
    null_count: Int8
    min_value: Varchar
    max_value: Varchar
    contains_nan: Truth | None
    extra_stats: Varchar | None


class ducklake_file_variant_stats(SystemRow):
    data_file_id: Int8
    table_id: Int8
    column_id: Int8
    variant_path: Varchar
    shredded_type: Varchar
    column_size_bytes: Int8
    value_count: Int8
    null_count: Int8
    min_value: Varchar
    max_value: Varchar
    contains_nan: Truth
    extra_stats: Varchar


# --- DuckLake's own partitions and orders -------------------------------------------------------------------------


class ducklake_partition_info(SystemRow):
    partition_id: Int8
    table_id: Int8
    begin_snapshot: Int8
    end_snapshot: Int8 | None


class ducklake_partition_column(SystemRow):
    partition_id: Int8
    table_id: Int8
    partition_key_index: Int8
    column_id: Int8
    transform: Varchar


class ducklake_file_partition_value(SystemRow, indexes=(("data_file_id",),)):
    data_file_id: Int8
    table_id: Int8
    partition_key_index: Int8
    partition_value: Varchar


class ducklake_sort_info(SystemRow):
    sort_id: Int8
    table_id: Int8
    begin_snapshot: Int8
    end_snapshot: Int8 | None


class ducklake_sort_expression(SystemRow):
    sort_id: Int8
    table_id: Int8
    sort_key_index: Int8
    expression: Varchar
    dialect: Varchar
    sort_direction: Varchar
    null_order: Varchar
