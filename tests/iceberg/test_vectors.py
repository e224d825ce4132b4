"""Deletion vectors: DuckLake's are Iceberg's of version 3, but for what a file tells of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pgrepl.catalog.session.transaction import statement
from pgrepl.lake.define.adopt import upgrade
from pgrepl.lake.define.options import set_option
from tests.iceberg.conftest import Shop
from tests.iceberg.readers import READERS
from tests.iceberg.test_traps import entries
from tests.lake import duck

VECTORS = ("CALL lake.set_option('write_deletion_vectors', true)", "CALL lake.set_option('data_inlining_row_limit', 0)")
BY_DUCKDB = "DELETE FROM lake.shop.t WHERE a % 5 = 0"
CHANGES = ("DELETE FROM t WHERE a < 150", "DELETE FROM t WHERE a BETWEEN 200 AND 250", BY_DUCKDB)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("version", ["auto", "2"])
def test_vectors_are_read_now_and_then(shop: Shop, tmp_path: Path, version: str, reader: str) -> None:
    path = tmp_path / "catalog.db"
    duck.run(path, *VECTORS)
    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 500)")
    shop.sql(f"ALTER TABLE t SET (iceberg.version = {version})")
    known = {shop.snapshot(): shop.rows("SELECT a FROM t")}
    for change in CHANGES:
        if change == BY_DUCKDB:
            duck.run(path, change)
        else:
            shop.sql(change)
        known[shop.snapshot()] = shop.rows("SELECT a FROM t")
    duck.close(path)
    made = json.loads(shop.metadata().json)
    assert made["format-version"] == (2 if version == "2" else 3)
    kinds = {each["data_file"]["file_format"] for each in entries(shop) if each["data_file"]["content"] == 1}
    assert kinds == {"PARQUET" if version == "2" else "PUFFIN"}
    assert shop.read(reader) == shop.rows("SELECT a FROM t")
    for snapshot in {each["snapshot-id"] for each in made["snapshots"]} & known.keys():
        assert shop.read(reader, snapshot=snapshot) == known[snapshot], snapshot


@pytest.mark.parametrize("reader", READERS)
def test_inlined_deletes_beside_a_vector_count(shop: Shop, tmp_path: Path, reader: str) -> None:
    """Where there is a vector, readers look at no other deletes of the file."""
    path = tmp_path / "catalog.db"
    duck.run(path, VECTORS[0])
    duck.close(path)
    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 1000)", "DELETE FROM t WHERE a < 500")
    kinds = {each["data_file"]["file_format"] for each in entries(shop)}
    assert kinds == {"PARQUET", "PUFFIN"}
    shop.sql("DELETE FROM t WHERE a = 700")
    assert shop.read(reader) == shop.rows("SELECT a FROM t")


@pytest.mark.parametrize("reader", READERS)
def test_a_lake_of_1_1_whose_files_have_vectors_of_several_snapshots(shop: Shop, reader: str) -> None:
    with statement(shop.session, writes=True):
        assert upgrade(shop.session)
        set_option(shop.session, "write_deletion_vectors", "true")
    shop.sql("CREATE TABLE t (a int, b text)", "INSERT INTO t SELECT g, 'x' FROM generate_series(1, 1000) g")
    known = {}
    for change in (
        "INSERT INTO t VALUES (2000, 'inlined'), (2001, NULL)", "DELETE FROM t WHERE a < 400",
        "DELETE FROM t WHERE a BETWEEN 500 AND 700", "UPDATE t SET b = 'y' WHERE a > 1999",
        "DELETE FROM t WHERE a = 450",
        "DELETE FROM t WHERE a = 2000", "DELETE FROM t WHERE a > 990",
    ):  # fmt: skip
        shop.sql(change)
        known[shop.snapshot()] = shop.rows("SELECT * FROM t")
        assert shop.read(reader) == known[shop.snapshot()], change
    told = {each["snapshot-id"] for each in json.loads(shop.metadata().json)["snapshots"]}
    assert len(told & known.keys()) == len(known)
    for snapshot, rows in known.items():
        assert shop.read(reader, snapshot=snapshot) == rows, snapshot


@pytest.mark.parametrize("reader", READERS)
def test_vectors_of_a_moved_lake_count(tmp_path: Path, reader: str) -> None:
    """pyiceberg finds a vector by the data file's path in it."""
    (tmp_path / "a").mkdir()
    shop = Shop(tmp_path / "a" / "catalog.db")
    with statement(shop.session, writes=True):
        assert upgrade(shop.session)
        set_option(shop.session, "write_deletion_vectors", "true")
    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 1000)", "DELETE FROM t WHERE a < 400")
    wanted = shop.rows("SELECT a FROM t")
    shop.close()
    shutil.move(tmp_path / "a", tmp_path / "b")
    shop = Shop(tmp_path / "b" / "catalog.db", is_new=False)
    try:
        assert shop.read(reader) == wanted
    finally:
        shop.close()
