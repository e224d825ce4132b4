"""What readers of Iceberg get wrong, silently or not, unless the metadata sees to it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.iceberg.conftest import Shop
from tests.iceberg.readers import READERS, duck
from tests.lake import duck as ducklake

FORMER = {2147483646: "file_path", 2147483645: "pos"}  # DuckDB's field ids of a delete file's columns


def entries(shop: Shop, name: str = "t") -> list[dict[str, Any]]:
    """The entries of all manifests of now."""
    import fastavro

    with open(current(shop, name)["manifest-list"], "rb") as file:
        manifests = list(fastavro.reader(file))
    found = []
    for manifest in manifests:
        with open(manifest["manifest_path"], "rb") as file:
            found += list(fastavro.reader(file))
    return found


def current(shop: Shop, name: str = "t") -> dict[str, Any]:
    snapshot: dict[str, Any] = json.loads(shop.metadata(name).json)["snapshots"][-1]
    return snapshot


def sidecars(shop: Shop) -> list[str]:
    return [path for entry in entries(shop) if ".iceberg/" in (path := entry["data_file"]["file_path"])]


def test_delete_files_of_duckdb_are_read_by_all(shop: Shop) -> None:
    """Spark misses the column `file_path` in a file with the field ids of DuckDB 1.5.5, Polars the bound's."""
    import pyarrow.parquet as pq

    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 300)")
    shop.link.close()
    path = Path(shop.catalog.name)
    ducklake.run(path, "DELETE FROM shop.t WHERE a % 3 = 0")
    ducklake.close(path)
    shop.link = shop.connect()
    deletes = [each["data_file"] for each in entries(shop) if each["data_file"]["content"] == 1]
    assert len(deletes) == 1
    schema = pq.read_schema(deletes[0]["file_path"])
    assert {int(field.metadata[b"PARQUET:field_id"]) for field in schema} == {2147483546, 2147483545}
    assert [each["key"] for each in deletes[0]["lower_bounds"]] == [2147483546]
    wanted = shop.rows("SELECT a FROM t")
    assert len(wanted) == 200
    for reader in READERS:
        assert shop.read(reader) == wanted, reader


def test_our_own_delete_files_are_taken_in_place(shop: Shop) -> None:
    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 1000)", "DELETE FROM t WHERE a <= 500")
    assert sidecars(shop) == []
    assert [each["data_file"]["record_count"] for each in entries(shop)] == [1000, 500]


@pytest.mark.parametrize("reader", ["pyiceberg", "duckdb", "polars"])
def test_files_that_are_older_than_a_column_have_its_default(shop: Shop, reader: str) -> None:
    """Format version 2 has no initial defaults: readers would give NULL, and say nothing."""
    shop.sql(
        "CREATE TABLE t (a int)",
        "INSERT INTO t SELECT generate_series(1, 200)",
        "ALTER TABLE t ADD b int DEFAULT 42, ADD c text DEFAULT 'it''s', ADD e numeric(8,2) DEFAULT 1.5,"
        " ADD d timestamptz DEFAULT '2020-01-01 02:00+02', ADD f bytea DEFAULT '\\x01ff', ADD i float8 DEFAULT 0.1,"
        " ADD h boolean DEFAULT true, ADD j uuid DEFAULT 'ABCDEF00-0000-0000-0000-000000000001',"
        " ADD g date DEFAULT '2000-02-29',"
        " ADD k timestamp DEFAULT '2020-01-01 00:00:00.5'",
        "INSERT INTO t VALUES (1000)",
        "UPDATE t SET b = 1 WHERE a = 7",
    )
    assert json.loads(shop.metadata().json)["format-version"] == 3
    assert shop.read(reader) == shop.rows("SELECT * FROM t")
    shop.sql("VACUUM FULL t")
    assert json.loads(shop.metadata().json)["format-version"] == 2
    assert shop.read(reader) == shop.rows("SELECT * FROM t")


def test_a_default_that_version_2_lacks_costs_its_column_only(shop: Shop) -> None:
    shop.sql(
        "CREATE TABLE t (a int) WITH (iceberg.version = 2)",
        "INSERT INTO t SELECT generate_series(1, 200)",
        "ALTER TABLE t ADD b int DEFAULT 42",
    )
    made = json.loads(shop.metadata().json)
    assert made["properties"]["pgrepl.left-out"].startswith("b: files from before it was added need its default")
    assert shop.read("pyiceberg") == shop.rows("SELECT a FROM t")


def test_a_default_that_json_lacks_costs_its_column_only(shop: Shop) -> None:
    shop.sql(
        "CREATE TABLE t (a int)",
        "INSERT INTO t SELECT generate_series(1, 200)",
        "ALTER TABLE t ADD b float8 DEFAULT 'NaN', ADD c date DEFAULT 'infinity',"
        " ADD d timestamp DEFAULT '0044-03-15 BC'",
    )
    made = json.loads(shop.metadata().json)
    assert [each.partition(":")[0] for each in made["properties"]["pgrepl.left-out"].split("; ")] == ["b", "c", "d"]
    assert shop.read("duckdb") == shop.rows("SELECT a FROM t")


def test_time_can_be_left_out(shop: Shop) -> None:
    """Spark refuses a table with a column of this type."""
    shop.sql("CREATE TABLE t (a int, b time, c time[])", "INSERT INTO t VALUES (1, '10:00', '{11:00}')")
    assert len(shop.read("pyiceberg")[0]) == 3
    shop.sql("ALTER TABLE t SET (iceberg.time = 'omit')")
    assert shop.read("pyiceberg") == [(1,)]
    left_out = json.loads(shop.metadata().json)["properties"]["pgrepl.left-out"]
    assert left_out == "b: left out by the table's option iceberg.time; c: left out by the table's option iceberg.time"


@pytest.mark.parametrize("rows", [2, 200])
def test_a_column_with_nan_has_no_bounds(shop: Shop, rows: int) -> None:
    """DuckDB takes NaN for the greatest value, and skips a file whose upper bound, which leaves it out, is less."""
    shop.sql(
        "CREATE TABLE t (a int, d float8, r real)",
        f"INSERT INTO t SELECT g, CASE WHEN g = 1 THEN 'NaN'::float8 ELSE g END, g FROM generate_series(1, {rows}) g",
    )
    (entry,) = [each["data_file"] for each in entries(shop)]
    assert {each["key"] for each in entry["upper_bounds"]} == {1, 3}
    assert {each["key"] for each in entry["nan_value_counts"]} == {3}
    found = duck().sql(f"SELECT a FROM iceberg_scan('{shop.metadata().location}') WHERE d > 5000").fetchall()
    assert found == [(1,)]


@pytest.mark.parametrize("reader", READERS)
def test_deleted_rows_of_a_moved_lake_do_not_come_back(tmp_path: Path, reader: str) -> None:
    """DuckLake does not look at the path that a delete file names; readers of Iceberg do, and would find no deletes."""
    (tmp_path / "a").mkdir()
    shop = Shop(tmp_path / "a" / "catalog.db")
    shop.sql(
        "CREATE TABLE t (a int)",
        "INSERT INTO t SELECT generate_series(1, 1000)",
        "DELETE FROM t WHERE a <= 500",
        "DELETE FROM t WHERE a = 600",
        "INSERT INTO t VALUES (5000)",
    )
    wanted = shop.rows("SELECT a FROM t")
    assert shop.read(reader) == wanted
    shop.close()
    shutil.move(tmp_path / "a", tmp_path / "longer name")
    os.makedirs(tmp_path / "a")
    shop = Shop(tmp_path / "longer name" / "catalog.db", is_new=False)
    try:
        assert shop.read(reader) == wanted
        assert str(tmp_path / "a/") not in shop.metadata().json
        assert len(sidecars(shop)) == 3
    finally:
        shop.close()


@pytest.mark.parametrize("reader", READERS)
def test_what_vacuum_makes_anew_has_another_name(shop: Shop, reader: str) -> None:
    """VACUUM rewrites the past without a snapshot for it: a name made from a snapshot's number would be that of what
    was there before."""
    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 200)")
    shop.sql("INSERT INTO t SELECT generate_series(1001, 1200)")
    assert len(shop.read(reader)) == 400
    shop.sql("DELETE FROM t WHERE a <= 200")
    shop.sql("VACUUM t")
    assert shop.read(reader) == shop.rows("SELECT a FROM t")
    shop.sql("VACUUM FULL t")
    assert shop.read(reader) == shop.rows("SELECT a FROM t")


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_duckdb_has_written_anew_without_an_added_column(shop: Shop, reader: str) -> None:
    shop.sql(
        "CREATE TABLE t (k int)",
        "INSERT INTO t SELECT generate_series(1, 200)",
        "ALTER TABLE t ADD c int DEFAULT 7 NOT NULL",
        "DELETE FROM t WHERE k % 2 = 0",
    )
    ducklake.run(shop.catalog.path, "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)")
    ducklake.close(shop.catalog.path)
    assert shop.read(reader) == [(k, 7) for k in sorted(range(1, 200, 2), key=lambda k: repr((k, 7)))]
