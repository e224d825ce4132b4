"""The DuckLake in a new catalog is one that DuckDB could have made, and its data are where they are looked for."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.store.connection import Catalog
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run
from tests.lake import duck


def lake_tables(path: Path) -> dict[str, list[tuple[str, str]]]:
    """The columns of each table of DuckLake's, with the types they were declared with."""
    with closing(sqlite3.connect(path)) as link:
        names = link.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'ducklake_%'")
        return {
            name: [(column[1], column[2]) for column in link.execute(f"PRAGMA table_info({name})")]
            for (name,) in sorted(names)
        }


def test_tables_and_columns_are_duckdbs(path: Path, catalog: Catalog, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.db"
    duck.run(
        path,
        f"ATTACH 'ducklake:sqlite:{theirs}' AS theirs (DATA_PATH '{tmp_path}/data')",
        "CREATE SCHEMA theirs.s",
        "DETACH theirs",
    )
    duck.close(path)
    assert lake_tables(path) == lake_tables(theirs)


def test_a_new_lake_is_empty(path: Path, catalog: Catalog) -> None:
    assert duck.duck(path, "SELECT snapshot_id, schema_version, changes FROM lake.snapshots()") == [
        ("0", "0", "{schemas_created=[postgres, main]}")
    ]
    schemas = "SELECT schema_name FROM information_schema.schemata WHERE catalog_name = 'lake' ORDER BY 1"
    assert duck.duck(path, schemas) == [("main",), ("postgres",)]
    with closing(sqlite3.connect(path)) as link:
        stated = dict(link.execute("SELECT key, value FROM ducklake_metadata").fetchall())
    assert stated.pop("created_by").startswith("pgrepl ")
    assert stated == {"version": "1.0", "data_path": f"{path}.files/", "encrypted": "false"}
    duck.close(path)


def data_path(path: Path, **options: str) -> str:
    catalog = open_catalog(path, **options)
    catalog.close()
    return catalog.data_path


def test_data_are_beside_the_catalog_or_where_it_was_told(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data_path(path) == f"{path}.files/"
    assert data_path(tmp_path / "a.db", data_path="s3://bucket/folder") == "s3://bucket/folder/"
    monkeypatch.chdir(tmp_path)
    assert data_path(Path("b.db")) == f"{tmp_path}/b.db.files/"
    assert data_path(Path("c.db"), data_path="elsewhere") == f"{tmp_path}/elsewhere/"
    assert data_path(Path("c.db"), data_path="elsewhere/") == f"{tmp_path}/elsewhere/"
    with pytest.raises(PgError) as caught:
        data_path(Path("c.db"), data_path="nowhere")
    assert caught.value.report.severity == "FATAL"
    assert caught.value.message == f'catalog "c.db" has the data of its tables in "{tmp_path}/elsewhere/"'


def test_a_catalog_moves_with_its_data(path: Path, tmp_path: Path) -> None:
    catalog = open_catalog(path)
    session = open_session(catalog)
    list(run(session, "CREATE TABLE t AS SELECT generate_series(1, 1000) AS a"))
    session.close()
    catalog.close()
    there = tmp_path / "there"
    there.mkdir()
    for name in ("catalog.db", "catalog.db.files"):
        shutil.move(tmp_path / name, there / name)
    catalog = open_catalog(there / "catalog.db")
    session = open_session(catalog)
    assert [r.rows for r in run(session, "SELECT count(*), sum(a) FROM t")] == [[("1000", "500500")]]
    session.close()
    catalog.close()
    assert duck.duck(there / "catalog.db", "SELECT count(*) FROM postgres.t") == [("1000",)]
    duck.close(there / "catalog.db")
