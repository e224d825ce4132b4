"""Whose the files are: folders that were moved or copied, catalogs that were copied alone, folders given twice."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from tests.harness.database import ask, visit
from tests.lake import duck

MANY = "INSERT INTO t SELECT g, 'row ' || g FROM generate_series({}, {}) g"
COUNT = "SELECT count(*) FROM t"


def play(catalog: Path, *statements: str, data_path: str | None = None) -> list[tuple[str | None, ...]]:
    with visit(catalog, data_path=data_path) as session:
        return ask(session, *statements)


def vacuum(catalog: Path) -> None:
    play(catalog, "SET pgrepl.file_grace = 0", "SET pgrepl.keep_snapshots = 0", "VACUUM FULL")


def refused(catalog: Path, *statements: str) -> PgError:
    with pytest.raises(PgError) as caught:
        play(catalog, *statements)
    assert caught.value.sqlstate == "55000"
    return caught.value


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")}


def named_folder(catalog: Path) -> str:
    with closing(sqlite3.connect(catalog)) as link:
        return str(link.execute("SELECT value FROM ducklake_metadata WHERE key = 'data_path'").fetchone()[0])


@pytest.fixture
def a(tmp_path: Path) -> Path:
    """A catalog with files, some of them replaced and so scheduled for deletion."""
    folder = tmp_path / "A"
    folder.mkdir()
    catalog = folder / "catalog.db"
    play(catalog, "CREATE TABLE t (a int PRIMARY KEY, b text)", MANY.format(1, 500), "DELETE FROM t WHERE a <= 60")
    play(catalog, "DELETE FROM t WHERE a <= 120", "CREATE TABLE gone AS SELECT * FROM t", "DROP TABLE gone")
    play(catalog, "SET pgrepl.keep_snapshots = 0", "VACUUM")
    play(catalog, "CREATE SCHEMA x", "CREATE TABLE moved AS SELECT * FROM t", "ALTER TABLE moved SET SCHEMA x")
    return catalog


def test_a_copied_folder_has_its_own_files(a: Path, tmp_path: Path) -> None:
    before = files(a.parent)
    b = Path(shutil.copytree(a.parent, tmp_path / "B"), "catalog.db")
    play(b, "DELETE FROM t WHERE a <= 400", MANY.format(1000, 1500))
    vacuum(b)
    assert files(a.parent) == before
    assert play(b, COUNT) == [("601",)]
    assert play(b, "SELECT count(*) FROM x.moved") == [("380",)]
    assert play(a, COUNT) == [("380",)]
    vacuum(a)
    assert play(b, COUNT) == [("601",)]
    assert named_folder(a) == f"{a}.files/"
    assert named_folder(b) == f"{b}.files/"
    for catalog, count in ((a, "380"), (b, "601")):
        assert duck.duck(catalog, "SELECT count(*) FROM postgres.t") == [(count,)]
        duck.close(catalog)
    with closing(sqlite3.connect(b)) as link:
        for table in ("ducklake_table", "ducklake_files_scheduled_for_deletion"):
            assert not [path for (path,) in link.execute(f"SELECT path FROM {table}") if str(a.parent) in path]


def test_a_copy_that_only_reads_has_its_own_files(a: Path, tmp_path: Path) -> None:
    b = Path(shutil.copytree(a.parent, tmp_path / "B"), "catalog.db")
    shutil.rmtree(f"{a}.files")
    assert play(b, COUNT) == [("380",)]


def test_a_folder_that_is_moved_keeps_its_files(a: Path, tmp_path: Path) -> None:
    b = Path(shutil.move(a.parent, tmp_path / "B"), "catalog.db")
    vacuum(b)
    play(b, MANY.format(1000, 1500))
    assert play(b, COUNT) == [("881",)]
    assert json.loads(Path(f"{b}.files", ".owner").read_bytes())["catalog"] == str(b)


def test_a_catalog_that_is_renamed_keeps_its_folder(a: Path) -> None:
    renamed = Path(shutil.move(a, a.with_name("other.db")))
    play(renamed, MANY.format(1000, 1500))
    vacuum(renamed)
    assert play(renamed, COUNT) == [("881",)]
    assert named_folder(renamed) == f"{a}.files/"
    with pytest.raises(PgError) as caught:
        open_catalog(a)
    assert caught.value.message == f'data folder "{a}.files/" belongs to catalog "{renamed}"'


def test_a_catalog_that_is_copied_alone_reads_and_neither_writes_nor_removes_files(a: Path, tmp_path: Path) -> None:
    before = files(a.parent)
    b = Path(shutil.copy(a, tmp_path / "copy.db"))
    assert play(b, COUNT) == [("380",)]
    play(b, "INSERT INTO t VALUES (7, 'small'); DELETE FROM t WHERE a = 7")  # in the catalog
    for statement in (MANY.format(1000, 1500), "DELETE FROM t WHERE a <= 300", "VACUUM FULL"):
        error = refused(b, "SET pgrepl.file_grace = 0", statement)
        assert error.message == f'data folder "{a}.files/" belongs to catalog "{a}"'
        assert error.report.detail == f'Catalog "{b}" is a copy, or was given the same folder.'
    assert files(a.parent) == before
    assert play(a, MANY.format(1000, 1500), COUNT) == [("881",)]
    shutil.copytree(f"{a}.files", f"{b}.files")
    assert play(b, MANY.format(1000, 1500), COUNT) == [("881",)]
    vacuum(b)
    vacuum(a)
    assert play(a, COUNT) == play(b, COUNT) == [("881",)]


def test_a_copy_whose_original_is_gone_takes_the_folder(a: Path, tmp_path: Path) -> None:
    b = Path(shutil.copy(a, tmp_path / "copy.db"))
    a.unlink()
    assert play(b, MANY.format(1000, 1500), COUNT) == [("881",)]


def test_a_copy_of_a_catalog_without_files_begins_a_folder_of_its_own(tmp_path: Path) -> None:
    one, other = tmp_path / "one.db", tmp_path / "other.db"
    play(one, "CREATE TABLE t (a int, b text)", "INSERT INTO t VALUES (1, 'one')")
    shutil.copy(one, other)
    for catalog in (one, other):
        assert play(catalog, MANY.format(1000, 1500), COUNT) == [("502",)]
        assert len(files(Path(f"{catalog}.files"))) == 1


def test_a_folder_that_is_given_to_two_catalogs_belongs_to_who_writes_first(tmp_path: Path) -> None:
    shared = f"{tmp_path}/shared/"
    one, other, late = (tmp_path / name for name in ("one.db", "other.db", "late.db"))
    for catalog in (one, other):
        play(catalog, "CREATE TABLE t (a int, b text)", data_path=shared)
    play(one, MANY.format(1, 500))
    error = refused(other, MANY.format(1, 500))
    assert error.message == f'data folder "{shared}" belongs to catalog "{one}"'
    with pytest.raises(PgError) as caught:
        open_catalog(late, data_path=shared)
    assert (caught.value.report.severity, caught.value.sqlstate) == ("FATAL", "55000")
    assert not late.exists()
    assert play(one, COUNT) == [("500",)]


def test_a_named_folder_that_is_copied_with_its_catalog(tmp_path: Path) -> None:
    folder = tmp_path / "A"
    folder.mkdir()
    catalog = folder / "catalog.db"
    play(catalog, "CREATE TABLE t (a int, b text)", MANY.format(1, 500), data_path=f"{folder}/data")
    b = Path(shutil.copytree(folder, tmp_path / "B"), "catalog.db")
    play(b, "DELETE FROM t WHERE a <= 300")
    vacuum(b)
    assert (play(catalog, COUNT), play(b, COUNT)) == ([("500",)], [("200",)])
    assert named_folder(b) == f"{tmp_path}/B/data/"


def test_a_copy_is_told_where_its_files_are(tmp_path: Path) -> None:
    catalog, copy = tmp_path / "catalog.db", tmp_path / "copy.db"
    play(catalog, "CREATE TABLE t (a int, b text)", MANY.format(1, 500), data_path=f"{tmp_path}/data")
    shutil.copy(catalog, copy)
    with pytest.raises(PgError, match="has the data of its tables in"):
        open_catalog(copy, data_path=f"{tmp_path}/elsewhere")
    shutil.copytree(tmp_path / "data", tmp_path / "elsewhere")
    play(copy, "DELETE FROM t WHERE a <= 300", data_path=f"{tmp_path}/elsewhere")
    vacuum(copy)
    assert (play(catalog, COUNT), play(copy, COUNT)) == ([("500",)], [("200",)])


def test_a_folder_without_a_mark_is_adopted(a: Path, tmp_path: Path) -> None:
    """As older versions left it."""
    Path(f"{a}.files", ".owner").unlink()
    copy = Path(shutil.copy(a, tmp_path / "copy.db"))
    refused(copy, MANY.format(1000, 1500))
    vacuum(a)
    assert json.loads(Path(f"{a}.files", ".owner").read_bytes())["catalog"] == str(a)
    refused(copy, MANY.format(1000, 1500))


def test_a_link_to_a_catalog_is_the_catalog(a: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(a)
    assert play(link, MANY.format(1000, 1500), COUNT) == [("881",)]
    vacuum(link)
    assert play(a, MANY.format(2000, 2500), COUNT) == [("1382",)]
    assert named_folder(a) == f"{a}.files/"
    assert not os.path.exists(f"{link}.files")
