"""`pgrepl apply --follow` keeps its tables in shape while it applies; however it ends, nothing is broken."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.lake import compact
from pgrepl.lake.verify import Verification
from pgrepl.statements.upkeep.background import Autovacuum
from tests.harness.pair import Pair
from tests.harness.programs import PATIENCE, environment, eventually, started

ROWS = 500
KEPT = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'ducklake_%'"
COUNTED = "SELECT autovacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 't'"


@pytest.fixture
def ready(pair: Pair) -> Pair:
    """Subscribed, and at the subscriber with more dead rows than autovacuum bears."""
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b text)")
    pair.sub("ALTER SYSTEM SET autovacuum_naptime = 1", "ALTER SYSTEM SET log_autovacuum_min_duration = 0")
    pair.sub("ALTER SYSTEM SET pgrepl.file_grace = 0")
    pair.pub(f"CREATE PUBLICATION p FOR TABLE t; INSERT INTO t SELECT g, 'x' FROM generate_series(1, {ROWS}) g")
    pair.subscribe()
    pair.pub("DELETE FROM t WHERE a % 2 = 0")
    assert pair.catch_up() == []
    pair.sub.leave()
    return pair


def changes(pair: Pair, first: int) -> None:
    """Few, and again and again."""
    for n in range(first, first + 5):
        pair.pub(f"INSERT INTO t VALUES ({1000 + n}, 'new')")
        pair.pub(f"UPDATE t SET b = 'changed' WHERE a = {2 * n + 1}; DELETE FROM t WHERE a = {2 * n + 301}")


def same(pair: Pair) -> bool:
    rows = "SELECT * FROM t ORDER BY a"
    return pair.pub(rows) == pair.sub(rows)


def follow(pair: Pair, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of ten changes is a second, ten seconds are a naptime: what there is grows no further, and a slot that
    is behind loses nothing."""
    monkeypatch.setattr(compact, "POSITIONS", 20)
    pair.sub("ALTER SYSTEM SET autovacuum_vacuum_insert_threshold = 60", "ALTER SYSTEM SET pgrepl.file_grace = 0")
    for database in (pair.pub, pair.sub):
        database(
            "CREATE TABLE t (a int PRIMARY KEY, b int)", f"INSERT INTO t SELECT g, 0 FROM generate_series(1, {ROWS}) g"
        )
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe(options="WITH (copy_data = false)")
    autovacuum = Autovacuum(pair.sub.session, pair.log)
    path = pair.sub.session.catalog.path
    assert path is not None
    last = ROWS
    for second in range(rounds):
        for _ in range(3):
            last += 1
            pair.pub(f"INSERT INTO t VALUES ({last}, 0); DELETE FROM t WHERE a = {last - ROWS}")
            pair.pub(f"UPDATE t SET b = {second} WHERE a = {last - (second * 37) % ROWS}")
        if second % 7 < 4:  # now and then it is behind
            assert pair.catch_up() == []
        if second % 10 == 9:
            autovacuum.look()
            assert pair.log.errors == []
            data = [name for _, _, names in os.walk(f"{path}.files") for name in names if name.endswith(".parquet")]
            with closing(sqlite3.connect(path)) as link:
                tables = [name for (name,) in link.execute(KEPT)]
                rows = [link.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables]
            assert len(data) < 40
            assert max(rows) < 400, dict(zip(tables, rows, strict=True))
    assert pair.catch_up() == []
    assert same(pair)
    assert list(Verification(pair.sub.session, quick=False).run(lambda done, total: None)) == []


def test_what_there_is_grows_no_further(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(pair, 25, monkeypatch)


@pytest.mark.slow
def test_what_there_is_grows_no_further_for_long(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(pair, 1200, monkeypatch)


@pytest.mark.slow
def test_tables_are_vacuumed_beside_the_worker(ready: Pair, tmp_path: Path) -> None:
    log = tmp_path / "log"
    catalog = str(ready.sub.session.catalog.path)
    with started("apply", "--follow", "--interval", "0.05", "--catalog", catalog, "--log-file", str(log)) as process:
        first = 0

        def vacuumed() -> bool:
            nonlocal first
            changes(ready, first)
            first += 5
            return ready.sub(COUNTED) == [("t",)] and ready.pub(COUNTED) == [("t",)]

        eventually(vacuumed)
        eventually(lambda: same(ready))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    said = log.read_text()
    assert 'automatic vacuum of table "sub.public.t"' in said
    assert 'automatic vacuum of table "pub.public.t"' in said
    assert "ERROR" not in said


@pytest.mark.slow
@pytest.mark.parametrize("step", ["compact.begin", "commit.file", "compact.end"])
def test_killed_while_it_vacuums(ready: Pair, tmp_path: Path, step: str) -> None:
    catalog = str(ready.sub.session.catalog.path)
    killing = environment(PGREPL_KILL_AT=step)
    with started("apply", "--follow", "--catalog", catalog, env=killing) as process:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    changes(ready, 0)
    assert ready.catch_up() == []
    assert same(ready)
    with started("apply", "--follow", "--catalog", catalog, "--log-file", str(tmp_path / "log")):
        eventually(lambda: ready.sub(COUNTED) == [("t",)])
    assert same(ready)
    assert list(Verification(ready.sub.session, quick=False).run(lambda done, total: None)) == []
