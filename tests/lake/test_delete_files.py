"""Delete files as Iceberg's readers want them; those of DuckDB and of older releases are read, and written anew."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pgrepl.backend import open_session
from pgrepl.lake.read import footers
from pgrepl.replication.log import ServerLog
from pgrepl.statements.upkeep.background import Autovacuum
from tests.lake.conftest import Lake
from tests.lake.test_changes import feed, state

PATH, POSITION = (2147483546, b"file_path", False), (2147483545, b"pos", False)
SNAPSHOT = (footers.SNAPSHOT_ID, b"_ducklake_internal_snapshot_id", True)
FORMER = [(2147483646, b"file_path", True), (2147483645, b"pos", True)]


@pytest.fixture
def t(lake: Lake) -> Lake:
    """One file, of whose rows so few are deleted that no VACUUM rewrites it."""
    lake.sql("CREATE TABLE t (a int, b text)")
    lake.sql("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 60000) g")
    lake.sql("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")  # keeps all snapshots
    return lake


def delete_files(lake: Lake) -> list[Path]:
    found = lake.query(
        "SELECT s.path || t.path || d.path FROM ducklake_delete_file d JOIN ducklake_table t USING (table_id)"
        " JOIN ducklake_schema s USING (schema_id) WHERE d.end_snapshot IS NULL"
    )
    return [lake.path.parent / "catalog.db.files" / path for (path,) in found]


def columns(lake: Lake) -> list[tuple[int, bytes, bool]]:
    """Field id, name and whether it may have NULLs, of the only delete file's columns."""
    (path,) = delete_files(lake)
    schema = pq.read_schema(path)
    return [(int(f.metadata[b"PARQUET:field_id"]), f.name.encode(), f.nullable) for f in schema]


def then(lake: Lake, snapshot: int) -> list[tuple[Any, ...]]:
    found = lake.duck(f"SELECT count(*), sum(a) FROM postgres.t AT (VERSION => {snapshot})")
    return [tuple(int(value) for value in found[0])]


def assert_history(lake: Lake, first: int) -> dict[int, Any]:
    """DuckDB finds the same rows at every snapshot; returns them."""
    found = {at: state(lake, at) for at in range(first, lake.last_snapshot() + 1)}
    for at, rows in found.items():
        assert then(lake, at) == [(len(rows), sum(a for a, _ in rows.values()))]
    return found


def old_deletes(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete rows, as a release before this one did."""
    with monkeypatch.context() as old:
        old.setattr(footers, "FILE_PATH", FORMER[0][0])
        old.setattr(footers, "POSITION", FORMER[1][0])
        old.setattr(footers, "FORMER", {})
        lake.sql("DELETE FROM t WHERE a % 500 = 7")


def test_icebergs_field_ids_and_no_nulls(t: Lake) -> None:
    first = t.last_snapshot()
    t.sql("DELETE FROM t WHERE a % 500 = 7")
    assert columns(t) == [PATH, POSITION]
    t.sql("DELETE FROM t WHERE a % 500 = 8")
    assert columns(t) == [PATH, POSITION, SNAPSHOT]
    assert_history(t, first)


@pytest.mark.parametrize("automatic", [False, True])
def test_files_of_older_releases_are_written_anew(t: Lake, automatic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    first = t.last_snapshot()
    old_deletes(t, monkeypatch)
    assert [each[:2] for each in columns(t)] == [each[:2] for each in FORMER]
    before = assert_history(t, first)
    t.sql("DELETE FROM t WHERE a IN (1, 2)")  # inlined, at another snapshot
    before |= assert_history(t, first)
    if automatic:
        t.sql("ALTER SYSTEM SET autovacuum_vacuum_scale_factor = 0")
        with closing(open_session(t.catalog)) as session:
            Autovacuum(session, ServerLog(t.path.parent / "log")).look()
    else:
        t.sql("VACUUM t")
    assert columns(t) == [PATH, POSITION, SNAPSHOT]
    assert t.query("SELECT count(*) FROM ducklake_data_file WHERE end_snapshot IS NULL") == [(1,)]
    after = assert_history(t, first)
    assert {at: after[at] for at in before} == before
    assert feed(t, max(before), t.last_snapshot()) == []
    assert t.sql("VACUUM t") is None and columns(t) == [PATH, POSITION, SNAPSHOT]


def test_files_of_duckdb_are_written_anew(t: Lake) -> None:
    first = t.last_snapshot()
    t.duck_runs("CALL lake.set_option('data_inlining_row_limit', 0)", "DELETE FROM postgres.t WHERE a % 500 = 7")
    assert columns(t) == FORMER
    before = assert_history(t, first)
    t.sql("VACUUM t")
    assert columns(t) == [PATH, POSITION]
    assert {at: rows for at, rows in assert_history(t, first).items() if at in before} == before
    (path,) = delete_files(t)
    t.sql("VACUUM t")
    assert delete_files(t) == [path]


def test_files_that_name_the_data_file_by_an_old_path(t: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from pgrepl.lake.write import delete_files as delete_file

    real = delete_file.write_deletes

    def moved(table: Any, file: Any, *given: Any, **extra: Any) -> Any:
        from dataclasses import replace

        return real(table, replace(file, path="/elsewhere/" + Path(file.path).name), *given, **extra)

    with monkeypatch.context() as old:
        old.setattr("pgrepl.lake.write.delete_files.write_deletes", moved)
        t.sql("DELETE FROM t WHERE a % 500 = 7")
    (path,) = delete_files(t)
    assert pq.read_table(path)["file_path"].unique().to_pylist()[0].startswith("/elsewhere/")
    t.sql("VACUUM t")
    (path,) = delete_files(t)
    (named,) = pq.read_table(path)["file_path"].unique().to_pylist()
    assert Path(named).is_file()
