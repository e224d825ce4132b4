"""The tables of DuckLake 1.0 in catalog.db, with the columns that DuckDB's extension gives them.

Any DuckLake reader and writer works with them beside us, so that nothing is added but indexes. A row lives from
`begin_snapshot` up to, but not including, `end_snapshot`.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, String

from pgrepl.catalog.later import Moment, Truth, Uuid
from pgrepl.catalog.later import later_table as _table

LAKE_VERSION = "1.0"


def metadata(created_by: str, data_path: str) -> dict[str, str]:
    """What ducklake_metadata says of a new catalog."""
    return {"version": LAKE_VERSION, "created_by": created_by, "data_path": data_path, "encrypted": "false"}


# --- the catalog as a whole ---------------------------------------------------------------------------------------
ducklake_metadata = _table(
    "ducklake_metadata", (),
    ("key", String), ("value", String), ("scope", String), ("scope_id", BigInteger),
)  # fmt: skip
ducklake_snapshot = _table(
    "ducklake_snapshot", ("snapshot_id",),
    ("snapshot_id", BigInteger), ("snapshot_time", Moment), ("schema_version", BigInteger),
    ("next_catalog_id", BigInteger), ("next_file_id", BigInteger),
)  # fmt: skip
ducklake_snapshot_changes = _table(
    "ducklake_snapshot_changes", ("snapshot_id",),
    ("snapshot_id", BigInteger), ("changes_made", String), ("author", String), ("commit_message", String),
    ("commit_extra_info", String),
)  # fmt: skip
ducklake_schema_versions = _table(
    "ducklake_schema_versions", (),
    ("begin_snapshot", BigInteger), ("schema_version", BigInteger), ("table_id", BigInteger),
    indexes=(("table_id",),),
)  # fmt: skip

# --- schemas, tables, columns, views ------------------------------------------------------------------------------
ducklake_schema = _table(
    "ducklake_schema", ("schema_id",),
    ("schema_id", BigInteger), ("schema_uuid", Uuid), ("begin_snapshot", BigInteger), ("end_snapshot", BigInteger),
    ("schema_name", String), ("path", String), ("path_is_relative", Truth),
)  # fmt: skip
ducklake_table = _table(
    "ducklake_table", (),
    ("table_id", BigInteger), ("table_uuid", Uuid), ("begin_snapshot", BigInteger), ("end_snapshot", BigInteger),
    ("schema_id", BigInteger), ("table_name", String), ("path", String), ("path_is_relative", Truth),
    indexes=(("table_id",), ("schema_id", "lower(table_name)")),
)  # fmt: skip
ducklake_column = _table(
    "ducklake_column", (),
    ("column_id", BigInteger), ("begin_snapshot", BigInteger), ("end_snapshot", BigInteger), ("table_id", BigInteger),
    ("column_order", BigInteger), ("column_name", String), ("column_type", String), ("initial_default", String),
    ("default_value", String), ("nulls_allowed", Truth), ("parent_column", BigInteger),
    ("default_value_type", String), ("default_value_dialect", String),
    indexes=(("table_id",),),
)  # fmt: skip
ducklake_view = _table(
    "ducklake_view", (),
    ("view_id", BigInteger), ("view_uuid", Uuid), ("begin_snapshot", BigInteger), ("end_snapshot", BigInteger),
    ("schema_id", BigInteger), ("view_name", String), ("dialect", String), ("sql", String),
    ("column_aliases", String),
    indexes=(("view_id",), ("schema_id", "lower(view_name)")),
)  # fmt: skip
ducklake_tag = _table(
    "ducklake_tag", (),
    ("object_id", BigInteger), ("begin_snapshot", BigInteger), ("end_snapshot", BigInteger), ("key", String),
    ("value", String),
    indexes=(("object_id",),),
)  # fmt: skip
ducklake_column_tag = _table(
    "ducklake_column_tag", (),
    ("table_id", BigInteger), ("column_id", BigInteger), ("begin_snapshot", BigInteger),
    ("end_snapshot", BigInteger), ("key", String), ("value", String),
    indexes=(("table_id",),),
)  # fmt: skip
ducklake_macro = _table(
    "ducklake_macro", (),
    ("schema_id", BigInteger), ("macro_id", BigInteger), ("macro_name", String), ("begin_snapshot", BigInteger),
    ("end_snapshot", BigInteger),
)  # fmt: skip
ducklake_macro_impl = _table(
    "ducklake_macro_impl", (),
    ("macro_id", BigInteger), ("impl_id", BigInteger), ("dialect", String), ("sql", String), ("type", String),
)  # fmt: skip
ducklake_macro_parameters = _table(
    "ducklake_macro_parameters", (),
    ("macro_id", BigInteger), ("impl_id", BigInteger), ("column_id", BigInteger), ("parameter_name", String),
    ("parameter_type", String), ("default_value", String), ("default_value_type", String),
)  # fmt: skip

# --- files --------------------------------------------------------------------------------------------------------
ducklake_data_file = _table(
    "ducklake_data_file", ("data_file_id",),
    ("data_file_id", BigInteger), ("table_id", BigInteger), ("begin_snapshot", BigInteger),
    ("end_snapshot", BigInteger), ("file_order", BigInteger), ("path", String), ("path_is_relative", Truth),
    ("file_format", String), ("record_count", BigInteger), ("file_size_bytes", BigInteger),
    ("footer_size", BigInteger), ("row_id_start", BigInteger), ("partition_id", BigInteger),
    ("encryption_key", String), ("mapping_id", BigInteger), ("partial_max", BigInteger),
    indexes=(("table_id",),),
)  # fmt: skip
ducklake_delete_file = _table(
    "ducklake_delete_file", ("delete_file_id",),
    ("delete_file_id", BigInteger), ("table_id", BigInteger), ("begin_snapshot", BigInteger),
    ("end_snapshot", BigInteger), ("data_file_id", BigInteger), ("path", String), ("path_is_relative", Truth),
    ("format", String), ("delete_count", BigInteger), ("file_size_bytes", BigInteger), ("footer_size", BigInteger),
    ("encryption_key", String), ("partial_max", BigInteger),
    indexes=(("table_id",), ("data_file_id",)),
)  # fmt: skip
ducklake_files_scheduled_for_deletion = _table(
    "ducklake_files_scheduled_for_deletion", (),
    ("data_file_id", BigInteger), ("path", String), ("path_is_relative", Truth), ("schedule_start", Moment),
)  # fmt: skip
ducklake_inlined_data_tables = _table(
    "ducklake_inlined_data_tables", (),
    ("table_id", BigInteger), ("table_name", String), ("schema_version", BigInteger),
    indexes=(("table_id",),),
)  # fmt: skip
ducklake_column_mapping = _table(
    "ducklake_column_mapping", (),
    ("mapping_id", BigInteger), ("table_id", BigInteger), ("type", String),
    indexes=(("table_id",),),
)  # fmt: skip
ducklake_name_mapping = _table(
    "ducklake_name_mapping", (),
    ("mapping_id", BigInteger), ("column_id", BigInteger), ("source_name", String), ("target_field_id", BigInteger),
    ("parent_column", BigInteger), ("is_partition", Truth),
    indexes=(("mapping_id",),),
)  # fmt: skip

# --- statistics ---------------------------------------------------------------------------------------------------
ducklake_table_stats = _table(
    "ducklake_table_stats", (),
    ("table_id", BigInteger), ("record_count", BigInteger), ("next_row_id", BigInteger),
    ("file_size_bytes", BigInteger),
    indexes=(("table_id",),),
)  # fmt: skip
ducklake_table_column_stats = _table(
    "ducklake_table_column_stats", (),
    ("table_id", BigInteger), ("column_id", BigInteger), ("contains_null", Truth), ("contains_nan", Truth),
    ("min_value", String), ("max_value", String), ("extra_stats", String),
    indexes=(("table_id",),),
)  # fmt: skip
ducklake_file_column_stats = _table(
    "ducklake_file_column_stats", (),
    ("data_file_id", BigInteger), ("table_id", BigInteger), ("column_id", BigInteger),
    ("column_size_bytes", BigInteger), ("value_count", BigInteger), ("null_count", BigInteger),
    ("min_value", String), ("max_value", String), ("contains_nan", Truth), ("extra_stats", String),
    indexes=(("data_file_id",), ("table_id", "column_id")),
)  # fmt: skip
ducklake_file_variant_stats = _table(
    "ducklake_file_variant_stats", (),
    ("data_file_id", BigInteger), ("table_id", BigInteger), ("column_id", BigInteger), ("variant_path", String),
    ("shredded_type", String), ("column_size_bytes", BigInteger), ("value_count", BigInteger),
    ("null_count", BigInteger), ("min_value", String), ("max_value", String), ("contains_nan", Truth),
    ("extra_stats", String),
)  # fmt: skip

# --- DuckLake's own partitions and orders -------------------------------------------------------------------------
ducklake_partition_info = _table(
    "ducklake_partition_info", (),
    ("partition_id", BigInteger), ("table_id", BigInteger), ("begin_snapshot", BigInteger),
    ("end_snapshot", BigInteger),
)  # fmt: skip
ducklake_partition_column = _table(
    "ducklake_partition_column", (),
    ("partition_id", BigInteger), ("table_id", BigInteger), ("partition_key_index", BigInteger),
    ("column_id", BigInteger), ("transform", String),
)  # fmt: skip
ducklake_file_partition_value = _table(
    "ducklake_file_partition_value", (),
    ("data_file_id", BigInteger), ("table_id", BigInteger), ("partition_key_index", BigInteger),
    ("partition_value", String),
    indexes=(("data_file_id",),),
)  # fmt: skip
ducklake_sort_info = _table(
    "ducklake_sort_info", (),
    ("sort_id", BigInteger), ("table_id", BigInteger), ("begin_snapshot", BigInteger), ("end_snapshot", BigInteger),
)  # fmt: skip
ducklake_sort_expression = _table(
    "ducklake_sort_expression", (),
    ("sort_id", BigInteger), ("table_id", BigInteger), ("sort_key_index", BigInteger), ("expression", String),
    ("dialect", String), ("sort_direction", String), ("null_order", String),
)  # fmt: skip
