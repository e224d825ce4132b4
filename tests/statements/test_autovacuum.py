"""Autovacuum: which tables it vacuums, by settings and storage parameters; what it leaves alone; what it says."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.lake import compact
from pgrepl.lake.read.extent import RowCounts
from pgrepl.statements.upkeep import background
from pgrepl.statements.upkeep.background import Autovacuum, AutovacuumLauncher, Thresholds
from tests.harness.database import Database

STATS = (
    "SELECT n_live_tup, n_dead_tup, n_ins_since_vacuum, autovacuum_count, last_autovacuum IS NOT NULL, vacuum_count"
    " FROM pg_stat_user_tables WHERE relname = 't'"
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "here") as made:
        made("ALTER SYSTEM SET log_autovacuum_min_duration = 0")
        yield made


def look(db: Database) -> list[str]:
    """What one look says in the log."""
    db.log.reports.clear()
    Autovacuum(db.session, db.log).look()
    db("SELECT pg_stat_force_next_flush()")
    assert db.log.errors == []
    return [message.partition(":")[0] for message in db.log.messages("LOG")]


def files(db: Database) -> list[str]:
    return [name for _, _, names in os.walk(db.folder / "catalog.db.files") for name in names if "parquet" in name]


def snapshots(db: Database) -> int:
    with closing(sqlite3.connect(db.folder / "catalog.db")) as link:
        return int(link.execute("SELECT count(*) FROM ducklake_snapshot").fetchone()[0])


MANY_DEAD = "CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 500); DELETE FROM t WHERE a <= 300"
VACUUMED = ['automatic vacuum of table "postgres.public.t"']


def test_dead_rows_by_threshold_and_share(db: Database) -> None:
    db("CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 1000)")
    db("SELECT pg_stat_reset()")
    db("DELETE FROM t WHERE a <= 200")  # 50 + 0.2 * 792 = 208.4
    assert look(db) == []
    db("DELETE FROM t WHERE a <= 208")
    assert look(db) == []
    db("DELETE FROM t WHERE a <= 209")
    assert look(db) == VACUUMED
    assert db(STATS) == [("791", "0", "0", "1", "t", "0")]
    assert look(db) == []
    db("VACUUM t")
    assert db(STATS) == [("791", "0", "0", "1", "t", "1")]


def test_storage_parameters_come_before_settings(db: Database) -> None:
    db("CREATE TABLE t (a int) WITH (autovacuum_vacuum_threshold = 5, autovacuum_vacuum_scale_factor = 0)")
    db("CREATE TABLE u (a int) WITH (autovacuum_enabled = off)")
    db("INSERT INTO t SELECT generate_series(1, 500); INSERT INTO u SELECT generate_series(1, 500)")
    db("DELETE FROM t WHERE a <= 6; DELETE FROM u WHERE a <= 400")
    assert look(db) == VACUUMED
    db("ALTER TABLE t SET (log_autovacuum_min_duration = -1)")
    db("DELETE FROM t WHERE a <= 20; ALTER TABLE u RESET (autovacuum_enabled)")
    assert look(db) == ['automatic vacuum of table "postgres.public.u"']
    assert db(STATS)[0][3] == "2"


def test_rows_inserted(db: Database) -> None:
    """What stands in one file already needs nothing, but it has been looked at."""
    db("ALTER SYSTEM SET autovacuum_vacuum_insert_threshold = 100")
    db("CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 120)")
    assert look(db) == []
    assert db(STATS)[0][2:4] == ("120", "0")
    db("INSERT INTO t SELECT generate_series(1, 150)")
    assert look(db) == VACUUMED
    assert db(STATS)[0][2:4] == ("0", "1")
    assert look(db) == []


def test_rows_in_the_catalog(db: Database) -> None:
    db("ALTER SYSTEM SET autovacuum_vacuum_insert_threshold = 150")
    db("CREATE TABLE t (a int, b int) WITH (autovacuum_vacuum_insert_scale_factor = 90)")
    for n in range(4):
        db(f"INSERT INTO t SELECT g, {n} FROM generate_series(1, 50) g")
    assert files(db) == []
    db("ALTER TABLE t SET (autovacuum_vacuum_insert_threshold = -1)")
    assert look(db) == []
    db("ALTER TABLE t RESET (autovacuum_vacuum_insert_threshold)")
    assert look(db) == VACUUMED
    assert len(files(db)) == 1
    assert db("SELECT count(*), sum(a), sum(b) FROM t") == [("200", "5100", "300")]


def test_small_files_become_one_tier_by_tier(db: Database) -> None:
    db("ALTER SYSTEM SET pgrepl.file_grace = 0")
    db("CREATE TABLE t (a int) WITH (autovacuum_vacuum_insert_threshold = 100000)")
    for n in range(3):
        db(f"INSERT INTO t SELECT {n} FROM generate_series(1, 200) g")
    assert look(db) == []
    db("INSERT INTO t SELECT 3 FROM generate_series(1, 200) g")
    assert look(db) == VACUUMED
    assert len(files(db)) == 1
    assert db("SELECT a, count(*) FROM t GROUP BY a ORDER BY a") == [(str(n), "200") for n in range(4)]


def test_nobody_needs_what_expires(db: Database) -> None:
    db("ALTER SYSTEM SET pgrepl.file_grace = 0")
    db("CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 500)")
    db("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    db("DELETE FROM t WHERE a <= 300")
    assert look(db) == VACUUMED
    assert len(files(db)) >= 2  # the slot needs the old ones
    db("SELECT pg_drop_replication_slot('s')")
    assert look(db) == []
    assert len(files(db)) == 1
    assert snapshots(db) == 1


def test_what_others_are_at_is_left_to_them(db: Database) -> None:
    db(MANY_DEAD)
    with Database(db.folder) as other:
        other("BEGIN; UPDATE t SET a = -1 WHERE a = 400")
        assert look(db) == []
        other("COMMIT")
    assert look(db) == VACUUMED
    assert db("SELECT count(*), min(a) FROM t") == [("200", "-1")]


def test_off_means_off(db: Database) -> None:
    db(MANY_DEAD)
    db("ALTER SYSTEM SET autovacuum = off")
    before = snapshots(db)
    assert look(db) == []
    assert snapshots(db) == before
    db("ALTER SYSTEM RESET autovacuum")
    assert look(db) == VACUUMED


def test_every_database_has_its_turn_and_its_settings(db: Database) -> None:
    with Database(db.folder, "more", new=True) as more:
        for each in (db, more):
            each(MANY_DEAD)
        assert look(db) == ['automatic vacuum of table "more.public.t"', *VACUUMED]


def test_the_launcher_waits_if_no_database_allows_connections(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher, waited = AutovacuumLauncher(db.session, db.log), []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        launcher.over.set()

    monkeypatch.setattr(launcher.over, "wait", wait)
    monkeypatch.setattr(launcher.autovacuum, "databases", list)
    monkeypatch.setattr(launcher.autovacuum, "clean", launcher.over.set)  # the loop ends in any case
    launcher.run()
    assert waited == [60]


def test_an_error_is_logged_and_no_more(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db(MANY_DEAD)
    (name,) = (name for name in files(db) if "delete" not in name)
    (path,) = (Path(folder) / name for folder, _, names in os.walk(db.folder) if name in names)
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"?" + whole[101:])
    Autovacuum(db.session, db.log).look()
    ((message, _, context),) = db.log.errors
    assert message.startswith("could not read file")
    assert context == 'automatic vacuum of table "postgres.public.t"'

    def fails(*_: object) -> None:
        raise RuntimeError("a mistake")

    db.log.reports.clear()
    monkeypatch.setattr(background, "expire", fails)
    path.write_bytes(whole)
    Autovacuum(db.session, db.log).look()
    assert db.log.errors == [("autovacuum failed: RuntimeError('a mistake')", None, None)]
    assert len(db.log.messages("LOG")) == 1


def test_a_standby_is_vacuumed_by_its_primary(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db(MANY_DEAD)
    monkeypatch.setattr(background, "in_recovery", lambda _: True)
    assert look(db) == []


def test_it_says_what_it_did(db: Database) -> None:
    db(MANY_DEAD)
    look(db)
    first, second, third, fourth = db.log.messages("LOG")[0].split("\n")
    assert first == 'automatic vacuum of table "postgres.public.t": index scans: 0'
    assert second == "files: 1 removed, 1 written, 0 delete files written"
    assert third == "tuples: 300 removed, 200 remain, 0 moved from the catalog"
    assert fourth.startswith("system usage: CPU: ")


@pytest.mark.parametrize(
    ("there", "inserted", "small", "whole"),
    [
        (RowCounts(100_000, 20_050), 0, (), None),
        (RowCounts(100_000, 20_051), 0, (), True),
        (RowCounts(100_000, 0), 21_000, (), None),
        (RowCounts(100_000, 0), 21_001, (), True),
        (RowCounts(100_000, 0, 1000), 0, (), None),
        (RowCounts(100_000, 0, 1001), 0, (), False),
        (RowCounts(100_000, 1001, 0, 1000), 0, (), None),
        (RowCounts(100_000, 1001, 0, 1001), 0, (), False),
        (RowCounts(100_000), 0, (9000,) * 3, None),
        (RowCounts(100_000), 0, (9000,) * 4, False),
        (RowCounts(100_000), 0, (compact.SMALL_BYTES,) * 40, None),
    ],
)  # fmt: skip
def test_the_formulas(there: RowCounts, inserted: int, small: tuple[int, ...], whole: bool | None) -> None:
    need = Thresholds(True, 50, 0.2, 1000, 0.2, -1).need(there, inserted, small)
    assert (None if need is None else need.whole) == whole
