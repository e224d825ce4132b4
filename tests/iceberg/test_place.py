"""Where metadata is, what of it goes and when, and that VACUUM keeps what somebody was told of."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError
from pgrepl.iceberg import manifests, metadata, tables
from pgrepl.iceberg.export import export_tables
from pgrepl.iceberg.manifests import facts_of
from pgrepl.iceberg.place import TableFolder, place_of
from tests.iceberg.conftest import Shop
from tests.iceberg.readers import READERS, duckdb_rows, pyiceberg_rows

HOURS = 3600.0


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def age(folder: Path, seconds: float) -> None:
    """Let all files there be older, and be looked at."""
    manifests.swept.clear()
    for path in folder.rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - seconds
            os.utime(path, (then, then))


def test_nothing_is_written_in_the_data_folder_but_a_promise(shop: Shop, tmp_path: Path) -> None:
    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 300)", "INSERT INTO t VALUES (1)")
    before = files(tmp_path / "catalog.db.files")
    shop.metadata()
    new = files(tmp_path / "catalog.db.files") - before
    assert [name.partition("-")[0] for name in new] == [".readers/until"]
    assert files(tmp_path / "catalog.db.iceberg/shop/t") >= {"metadata/" + Path(shop.metadata().location).name}
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "catalog.db.iceberg").rglob("*")}
    assert modes == {0o600, 0o700}


def test_what_has_not_changed_is_not_written_again(shop: Shop, tmp_path: Path) -> None:
    shop.sql("CREATE TABLE t (a int)", *["INSERT INTO t SELECT generate_series(1, 200)"] * 3)
    first = shop.metadata()
    there = files(tmp_path / "catalog.db.iceberg")
    assert shop.metadata() == first
    assert files(tmp_path / "catalog.db.iceberg") == there
    shop.sql("INSERT INTO t VALUES (1)")
    shop.metadata()
    new = files(tmp_path / "catalog.db.iceberg") - there
    kinds = sorted(Path(name).name.partition("-")[0][:4] for name in new if not name.endswith(".json"))
    assert kinds == ["data", "rows", "snap"]


def test_metadata_goes_on_after_commits_and_begins_anew_when_the_past_is_gone(shop: Shop, tmp_path: Path) -> None:
    """What it says then test_histories compares."""
    where = str(tmp_path / "catalog.db.iceberg/shop/t")
    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 300)")
    shop.metadata()
    first = metadata._makings[where]
    for change in (
        "INSERT INTO t VALUES (1)",
        "INSERT INTO t SELECT generate_series(1, 200)",
        "DELETE FROM t WHERE a < 9",
    ):
        shop.sql(change)
        assert len(shop.read("pyiceberg")) == len(shop.rows("SELECT * FROM t"))
        assert metadata._makings[where] is first, change
    shop.sql("VACUUM FULL t")
    for change in ("VACUUM", "ALTER TABLE t ADD b int"):
        shop.forget_promises()
        shop.sql(change, "INSERT INTO t VALUES (2)")
        assert shop.read("pyiceberg") == shop.rows("SELECT * FROM t")
        assert metadata._makings[where] is not first, change
        first = metadata._makings[where]


def test_metadata_that_was_followed_goes_with_what_only_it_names(shop: Shop, tmp_path: Path) -> None:
    folder = tmp_path / "catalog.db.iceberg"
    shop.session.close()
    shop.session = shop.open(**{"pgrepl.iceberg_snapshots": "0"})
    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 200)", "INSERT INTO t VALUES (1)")
    old = shop.metadata()
    age(folder, 2 * HOURS)
    (folder / "shop/t/data/mine.parquet").touch()
    (folder / "shop/t/data/rows-0123456789abcdef01234567.parquet.12-34.tmp").touch()
    age(folder / "shop/t/data", HOURS)
    shop.sql("UPDATE t SET a = 2 WHERE a = 1")
    shop.metadata()
    assert Path(old.location).exists(), "it was the current one until now"
    assert len(pyiceberg_rows(old.location)) == 201
    age(folder, 2 * HOURS)
    shop.sql("DELETE FROM t")
    shop.metadata()
    assert not Path(old.location).exists()
    left = files(folder / "shop/t")
    assert "data/mine.parquet" in left, "what is not ours stays"
    named = {name for name in left if name.endswith(".json")}
    for name in [name for name in left if name.endswith(".json")]:
        lists = [each["manifest-list"] for each in json.loads((folder / "shop/t" / name).read_text())["snapshots"]]
        waiting = [str(Path(each).relative_to(folder / "shop/t")) for each in lists]
        while waiting:
            each = waiting.pop()
            named.add(each)
            if each.endswith(".avro"):
                waiting += json.loads(facts_of((folder / "shop/t" / each).read_bytes())["pgrepl.files"])
    assert left - named == {"data/mine.parquet"}


def test_metadata_of_a_dropped_table_goes(shop: Shop, tmp_path: Path) -> None:
    shop.sql("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    shop.metadata("t"), shop.metadata("u")
    shop.sql("DROP TABLE t", "VACUUM")
    assert (tmp_path / "catalog.db.iceberg/shop/t").exists()
    age(tmp_path / "catalog.db.iceberg", 2 * HOURS)
    shop.sql("VACUUM")
    there = files(tmp_path / "catalog.db.iceberg")
    assert {name.split("/")[1] for name in there} == {"u"}


def test_vacuum_keeps_what_somebody_was_told_of(shop: Shop) -> None:
    """The setting pgrepl.iceberg_grace says for how long."""
    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 300)", "DELETE FROM t WHERE a < 150")
    told = shop.metadata().location
    rows = [(a,) for a in range(150, 301)]
    shop.sql("VACUUM FULL t", "UPDATE t SET a = -a", "VACUUM FULL t", "VACUUM")
    assert sorted(pyiceberg_rows(told)) == sorted(duckdb_rows(told)) == rows
    shop.forget_promises()
    shop.sql("VACUUM")
    with pytest.raises(FileNotFoundError):
        pyiceberg_rows(told)


def test_a_promise_ends(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 300)")
    shop.metadata()
    shop.sql("VACUUM FULL t", "TRUNCATE t", "VACUUM")
    assert len(list(Path(shop.catalog.data_path).rglob("ducklake-*.parquet"))) == 1
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 2 * HOURS)
    shop.sql("INSERT INTO t VALUES (1)", "VACUUM")
    assert list(Path(shop.catalog.data_path).rglob("ducklake-*.parquet")) == []


def test_a_place_in_the_data_folder_is_refused(shop: Shop, tmp_path: Path) -> None:
    with reading(shop.session):
        assert place_of(shop.session).location == str(tmp_path / "catalog.db.iceberg")
        assert place_of(shop.session, "s3://bucket/x/").location == "s3://bucket/x"
        with pytest.raises(PgError, match="is in the data folder"):
            place_of(shop.session, f"{tmp_path}/catalog.db.files/iceberg")


# --- elsewhere ------------------------------------------------------------------------------------------------------

CHANGES = (
    "CREATE TABLE t (a int, b text, d float8 DEFAULT 0.5)",
    "INSERT INTO t SELECT g, 'x' || g FROM generate_series(1, 300) g",
    "INSERT INTO t VALUES (1000, 'inlined', 'NaN'), (1001, NULL, NULL)",
    "DELETE FROM t WHERE a < 200",
    "DELETE FROM t WHERE a = 250",
    "UPDATE t SET b = 'changed' WHERE a = 260",
    "ALTER TABLE t ADD c int DEFAULT 42",
)


@pytest.fixture
def in_bucket(tmp_path: Path, bucket: Any) -> Any:
    made = Shop(tmp_path / "catalog.db", f"s3://{bucket.name}/lake")
    yield made
    made.close()


def test_in_an_object_store(in_bucket: Shop, bucket: Any, s3: str) -> None:
    from pyiceberg.table import StaticTable

    in_bucket.sql(*CHANGES)
    found = in_bucket.metadata()
    assert found.location.startswith(f"s3://{bucket.name}/lake.iceberg/shop/t/metadata/")
    there = bucket.all_keys()
    assert in_bucket.metadata() == found
    assert bucket.all_keys() == there
    properties = {"s3.endpoint": s3, "s3.access-key-id": "key", "s3.secret-access-key": "secret",
                  "s3.region": "us-east-1"}  # fmt: skip
    rows = StaticTable.from_metadata(found.location, properties).scan().to_arrow()
    assert sorted(rows["a"].to_pylist()) == sorted(a for (a,) in in_bucket.sql("SELECT a FROM t"))
    in_bucket.sql("DELETE FROM t WHERE a = 270")
    in_bucket.metadata()
    assert there < bucket.all_keys()


def test_a_whole_bucket_has_no_place_beside_it(tmp_path: Path, bucket: Any) -> None:
    shop = Shop(tmp_path / "catalog.db", f"s3://{bucket.name}/")
    try:
        with reading(shop.session), pytest.raises(PgError, match="is a whole bucket"):
            place_of(shop.session)
    finally:
        shop.close()


@pytest.mark.parametrize("reader", READERS)
def test_with_a_catalog_on_a_server(tmp_path: Path, catalog_url: str, reader: str) -> None:
    shop = Shop(catalog_url, str(tmp_path / "files"))
    try:
        shop.sql(*CHANGES)
        assert shop.read(reader) == shop.rows("SELECT * FROM t")
        assert shop.metadata().location.startswith(f"{tmp_path}/files.iceberg/shop/t/metadata/")
        shop.sql("INSERT INTO t VALUES (2000, 'more', -0.0, 1)")
        assert shop.read(reader) == shop.rows("SELECT * FROM t")
        shop.sql("VACUUM FULL t")
        assert shop.read(reader) == shop.rows("SELECT * FROM t")
    finally:
        shop.close()


def test_a_database_with_a_dot_in_its_name_has_a_folder_of_its_own(shop: Shop) -> None:
    shop.sql('CREATE DATABASE "shop.sales"', "CREATE SCHEMA sales", "CREATE TABLE sales.t (a int)")
    with shop.connect("shop.sales") as there:
        there.cursor().execute("CREATE TABLE t (b text)")
    locations = set()
    with reading(shop.session):
        for namespace in (("shop", "sales"), ("shop.sales",)):
            found = tables.find(shop.session, namespace, "t")
            assert found is not None
            locations.add(place_of(shop.session).of(found).location)
    assert len(locations) == 2


@pytest.mark.parametrize("part", ["version-hint.text", ".metadata.json"])
def test_a_file_that_cannot_be_read_now_is_not_taken_for_one_that_is_not_there(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """An export would begin with version 1 anew, and a sweep would remove what a living metadata.json names."""
    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    export_tables(shop.session, (), None, lambda *_: None)
    shop.sql("INSERT INTO t VALUES (2)")
    export_tables(shop.session, (), None, lambda *_: None)
    folder = tmp_path / "catalog.db.iceberg" / "shop" / "t"
    before, whole = files(folder), TableFolder.bytes_of

    def fails(self: TableFolder, name: str) -> bytes:
        if name.endswith(part):
            raise PgError("XX001", "it does not answer")
        return whole(self, name)

    with monkeypatch.context() as patched:
        patched.setattr(TableFolder, "bytes_of", fails)
        with pytest.raises(PgError, match="it does not answer"):
            export_tables(shop.session, (), None, lambda *_: None)
    assert (folder / "metadata" / "version-hint.text").read_text() == "2"
    assert files(folder) >= before


@pytest.mark.parametrize("left", [b"", bytes(2000)])
def test_what_a_power_cut_left_unfinished_is_made_again(shop: Shop, tmp_path: Path, left: bytes) -> None:
    shop.sql("CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 200)", "INSERT INTO t VALUES (1)")
    shop.sql("DELETE FROM t WHERE a = 7")
    shop.metadata()
    for path in (tmp_path / "catalog.db.iceberg/shop/t").rglob("*.*"):
        path.write_bytes(left)
    assert shop.read("pyiceberg") == shop.rows("SELECT * FROM t")
