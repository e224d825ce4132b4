"""pgrepl and DuckDB define and write at the same time: who comes too late is told, and both sides agree at the end."""

from __future__ import annotations

import threading

import pytest

from pgrepl.backend import open_session
from pgrepl.statements.run import run
from tests.lake import duck
from tests.lake.conftest import Lake

ROUNDS = 4


def play_duckdb(lake: Lake, refused: list[str]) -> None:
    """Each statement until it gets through."""
    for number in range(ROUNDS):
        for statement in (
            f"CREATE TABLE postgres.theirs{number} (a INT)",
            f"INSERT INTO postgres.theirs{number} VALUES ({number})",
            f"ALTER TABLE postgres.theirs{number} ADD COLUMN b INT DEFAULT 1",
            f"INSERT INTO postgres.shared VALUES ({number})",
        ):
            while True:
                try:
                    lake.duck_runs(statement)
                    break
                except duck.DuckError as problem:
                    assert "locked" in str(problem) or "conflict" in str(problem).lower(), problem
                    refused.append(str(problem))


def play_pgrepl(lake: Lake) -> None:
    session = open_session(lake.catalog, settings={"pgrepl.engine": "local"})
    for number in range(ROUNDS):
        for statement in (
            f"CREATE TABLE ours{number} (a int)",
            f"INSERT INTO ours{number} VALUES ({number})",
            f"BEGIN; ALTER TABLE ours{number} ADD b int DEFAULT 1; INSERT INTO shared VALUES ({number}); COMMIT",
        ):
            list(run(session, statement))
    session.close()


@pytest.mark.slow
def test_both_sides_at_once(lake: Lake) -> None:
    lake.sql("CREATE TABLE shared (a int)")
    refused: list[str] = []
    failed: list[BaseException] = []

    def theirs() -> None:
        try:
            play_duckdb(lake, refused)
        except BaseException as problem:
            failed.append(problem)

    other = threading.Thread(target=theirs)
    other.start()
    play_pgrepl(lake)
    other.join()
    assert failed == []
    both = sorted(2 * [(str(n),) for n in range(ROUNDS)])
    assert sorted(lake.rows("shared")) == both
    assert sorted(lake.duck("SELECT * FROM postgres.shared")) == both
    for number in range(ROUNDS):
        for table in (f"ours{number}", f"theirs{number}"):
            assert lake.rows(table) == lake.duck(f"SELECT * FROM postgres.{table}") == [(str(number), "1")]
    snapshots = lake.query("SELECT snapshot_id, schema_version FROM ducklake_snapshot ORDER BY snapshot_id")
    assert [number for number, _version in snapshots] == list(range(len(snapshots)))
    versions = [version for _number, version in snapshots]
    assert versions == sorted(versions)
