"""DuckLake 1.1: a catalog that is upgraded is as it was, and everything goes on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.transaction import statement
from pgrepl.ground.errors import PgError
from pgrepl.lake.define import options
from pgrepl.lake.define.adopt import upgrade
from pgrepl.statements.run import run
from tests.harness.forked import pgrepl
from tests.lake.conftest import Lake
from tests.lake.duck import DuckError
from tests.lake.test_changes import feed, state
from tests.lake.test_deletion_vectors import formats, problems


def upgraded(lake: Lake) -> bool:
    with statement(lake.session, writes=True):
        return upgrade(lake.session)


@pytest.fixture
def t(lake: Lake) -> Lake:
    """Rows in a file and in the catalog, changed and deleted there."""
    lake.sql("CREATE TABLE t (a int, b text)")
    lake.sql("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")  # keeps all snapshots
    lake.sql("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 2000) g")
    lake.sql("INSERT INTO t SELECT g, 'i' FROM generate_series(3001, 3020) g")
    lake.sql("DELETE FROM t WHERE a IN (1, 2, 3001, 3002)")
    lake.sql("UPDATE t SET b = 'new' WHERE a IN (10, 3010)")
    return lake


def everything(lake: Lake) -> dict[int, Any]:
    return {at: state(lake, at) for at in range(3, lake.last_snapshot() + 1)}


def test_nothing_is_different_after_an_upgrade(t: Lake) -> None:
    before, changes = everything(t), feed(t, 3, t.last_snapshot())
    with closing(open_session(t.catalog)) as other:
        list(run(other, "SELECT count(*) FROM t"))
        assert upgraded(t)
        (found,) = run(other, "SELECT count(*) FROM t WHERE b = 'new'")
        assert [tuple(row) for row in found.rows] == [("2",)]
    assert (everything(t), feed(t, 3, t.last_snapshot())) == (before, changes)
    assert problems(t) == []
    assert not upgraded(t)
    (name,) = t.query("SELECT table_name FROM ducklake_inlined_data_tables")[0]
    names = [row[1] for row in t.query(f"PRAGMA table_info({name})")]
    assert names[:4] == ["_ducklake_row_id", "_ducklake_begin_snapshot", "_ducklake_end_snapshot", "a"]
    with pytest.raises(DuckError, match=r"1\.1"):
        t.duck("SELECT 1")


def test_work_goes_on(t: Lake) -> None:
    upgraded(t)
    known = everything(t)
    for text in (
        "INSERT INTO t VALUES (5000, 'y'), (5001, 'y')",
        "UPDATE t SET b = 'again' WHERE a IN (3010, 5000, 11)",
        "DELETE FROM t WHERE a IN (5001, 3011, 12)",
        "BEGIN; INSERT INTO t VALUES (1, 'x'); DELETE FROM t WHERE b = 'x' AND a = 1; COMMIT",
        "ALTER TABLE t ADD COLUMN c int DEFAULT 7",
        "INSERT INTO t VALUES (6000, 'z', 1)",
        "CREATE TABLE u (row_id int, begin_snapshot text)",
        "INSERT INTO u VALUES (1, 'x')",
        "DELETE FROM t WHERE a < 1500",
        "VACUUM t",
        "INSERT INTO t VALUES (6001, 'z', 1)",
        "VACUUM FULL t",
        "INSERT INTO t VALUES (6002, 'z', 1)",
        "TRUNCATE t",
        "INSERT INTO t VALUES (6003, 'z', 1)",
    ):
        for part in text.split("; "):
            t.sql(part)
    now = everything(t)
    assert {at: [row[:2] for row in rows.values()] for at, rows in known.items()} == {
        at: [row[:2] for row in now[at].values()] for at in known
    }
    assert t.rows("t") == [("6003", "z", "1")]
    assert t.rows("u") == [("1", "x")]
    assert problems(t) == []
    t.sql("SELECT pg_drop_replication_slot('s')")
    t.sql("SET pgrepl.keep_snapshots = 0")
    t.sql("VACUUM")
    assert t.rows("t") == [("6003", "z", "1")]
    assert problems(t) == []


def test_an_open_transaction_goes_on(t: Lake) -> None:
    with closing(open_session(t.catalog)) as other:
        for text in ("BEGIN", "INSERT INTO t VALUES (7000, 'o')", "DELETE FROM t WHERE a IN (3003, 30)"):
            list(run(other, text))
        upgraded(t)
        for text in ("UPDATE t SET b = 'p' WHERE a IN (3004, 7000)", "COMMIT"):
            list(run(other, text))
    assert len(t.rows("t")) == 2000 + 20 - 4 + 1 - 2
    assert sorted(a for a, b in t.rows("t") if b == "p") == ["3004", "7000"]
    assert problems(t) == []


def test_vectors_of_several_snapshots(t: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    upgraded(t)
    with t.statement(writes=True):
        for row in (("write_deletion_vectors", "true"), ("data_inlining_row_limit", "0")):
            t.session.link.execute("INSERT INTO ducklake_metadata (key, value) VALUES (?, ?)", row)
    t.session.forget_all()
    known: dict[int, Any] = {}
    for n in range(3):
        t.sql(f"DELETE FROM t WHERE a % 400 = {n + 20}")
        known[t.last_snapshot()] = state(t, t.last_snapshot())
        assert formats(t) == [("puffin", n > 0, True)]
    assert {at: state(t, at) for at in known} == known
    first, last = min(known), max(known)
    assert {change[1] for change in feed(t, first, last)} == known[first].keys() - known[last].keys()
    assert problems(t) == []
    monkeypatch.setattr(options, "MOST_VECTORS", 3)
    t.session.forget_all()
    t.sql("DELETE FROM t WHERE a % 400 = 30")
    known[t.last_snapshot()] = state(t, t.last_snapshot())
    assert formats(t) == [("parquet", True, True)]  # many vectors would be large
    assert {at: state(t, at) for at in known} == known
    last = max(known)
    t.sql("VACUUM FULL t")
    assert formats(t) == [] and state(t, t.last_snapshot()).keys() == known[last].keys()


def test_schemas_within_schemas_are_left_out(t: Lake) -> None:
    """DuckDB 2.0 can make them; PostgreSQL has none."""
    upgraded(t)
    with t.statement(writes=True):
        for text in (
            "INSERT INTO ducklake_schema (schema_id, schema_uuid, begin_snapshot, schema_name, path, path_is_relative,"
            " parent_schema_id) VALUES (900, 'u', 1, 'europe', 'europe/', 1, 0)",
            "INSERT INTO ducklake_table (table_id, table_uuid, begin_snapshot, schema_id, table_name, path,"
            " path_is_relative) VALUES (901, 'u', 1, 900, 'orders', 'orders/', 1)",
            "UPDATE ducklake_snapshot SET schema_version = schema_version + 1 WHERE snapshot_id ="
            " (SELECT max(snapshot_id) FROM ducklake_snapshot)",
        ):
            t.session.link.execute(text)
    with closing(open_session(t.catalog)) as other:
        (found,) = run(other, "SELECT nspname FROM pg_namespace WHERE nspname LIKE '%europe%'")
        assert list(found.rows) == []


def test_other_versions_are_not_upgraded(t: Lake) -> None:
    with t.statement(writes=True):
        t.session.link.execute("UPDATE ducklake_metadata SET value = '1.1-dev1' WHERE key = 'version'")
    t.session.forget_all()
    with pytest.raises(PgError, match=r"cannot upgrade DuckLake 1\.1-dev1 to 1\.1"):
        upgraded(t)
    with pytest.raises(PgError, match=r"a catalog of DuckLake 1\.1-dev1"):
        t.rows("t")


def test_the_command(tmp_path: Path) -> None:
    made = pgrepl("-c", "CREATE TABLE t (a int); INSERT INTO t VALUES (1); CREATE ROLE r LOGIN", cwd=tmp_path)
    assert made.returncode == 0
    refused = pgrepl("upgrade", "-U", "r", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (
        1, "ERROR:  permission denied to upgrade an instance",
    )  # fmt: skip
    option = "SELECT value FROM ducklake_metadata WHERE key = 'write_deletion_vectors'"
    for switch, said, value in (
        ("--deletion-vectors", "upgraded to", "true"),
        ("--no-deletion-vectors", "the catalog has", "false"),
    ):
        assert pgrepl("upgrade", switch, cwd=tmp_path).stdout == f"{said} DuckLake 1.1\n"
        with closing(sqlite3.connect(tmp_path / "catalog.db")) as link:
            assert link.execute(option).fetchall() == [(value,)]
    assert pgrepl("verify", cwd=tmp_path).returncode == 0
