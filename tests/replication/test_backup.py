"""Backups: consistent while others write, incremental, whole after a kill; what is restored is what was backed up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.replication.backup import back_up, restore
from tests.harness.database import Database, ask, visit
from tests.harness.forked import pgrepl
from tests.lake.duck import duck

LARGE = "INSERT INTO t SELECT g, 'row ' || g FROM generate_series({}, {}) g"
ROWS = "SELECT count(*), sum(a) FROM t"
CLEAN = ("SET pgrepl.keep_snapshots = 0", "SET pgrepl.file_grace = 0", "VACUUM FULL t", "VACUUM t")


def parquet(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.parquet")}


@pytest.fixture
def here(tmp_path: Path) -> Database:
    made = Database(tmp_path / "here")
    made("CREATE TABLE t (a int PRIMARY KEY, b text)", LARGE.format(1, 400), "INSERT INTO t VALUES (0, 'inlined')")
    return made


def restored(folder: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    restore(folder, place / "catalog.db")
    return place / "catalog.db"


def rows(catalog: Path) -> list[tuple[str | None, ...]]:
    with visit(catalog) as session:
        return ask(session, ROWS)


def test_a_second_backup_copies_only_what_is_new(here: Database, tmp_path: Path) -> None:
    folder, place = tmp_path / "backup", tmp_path / "place"
    first = back_up(here.session, folder)
    assert (first.copied, first.removed) == (1, 0)
    before = here(ROWS)
    here(LARGE.format(1000, 1500), "DELETE FROM t WHERE a BETWEEN 5 AND 200")
    assert rows(restored(folder, place)) == before
    second = back_up(here.session, folder)
    assert second.copied >= 1 and second.copied < second.manifest.files
    assert rows(restored(folder, place)) == here(ROWS)
    assert back_up(here.session, folder).copied == 0
    here(*CLEAN)
    third = back_up(here.session, folder)
    assert third.removed >= 2
    assert parquet(folder) == parquet(restored(folder, place).parent)
    assert rows(place / "catalog.db") == here(ROWS)


def test_the_backup_may_be_moved_and_what_is_restored_is_its_own(here: Database, tmp_path: Path) -> None:
    back_up(here.session, tmp_path / "backup")
    os.rename(tmp_path / "backup", tmp_path / "moved")
    before = here(ROWS)
    catalog = restored(tmp_path / "moved", tmp_path / "place")
    with visit(catalog) as session:
        ask(session, "DELETE FROM t WHERE a < 300", *CLEAN)
    assert here(ROWS) == before
    assert pgrepl("verify", "--catalog", str(catalog), cwd=tmp_path).returncode == 0
    assert pgrepl("verify", cwd=here.folder).returncode == 0


def test_duckdb_reads_what_is_restored(here: Database, tmp_path: Path) -> None:
    back_up(here.session, tmp_path / "backup")
    catalog = restored(tmp_path / "backup", tmp_path / "place")
    here.close()
    shutil.rmtree(here.folder)
    assert duck(catalog, "SELECT count(*), sum(a) FROM lake.postgres.t") == [("401", "80200")]


@pytest.mark.slow
def test_while_others_write_and_vacuum(here: Database, tmp_path: Path) -> None:
    """Each transaction moves 1 from a row to another: every backup has the same sum."""
    here("CREATE TABLE acc (id int PRIMARY KEY, n int)", "INSERT INTO acc SELECT g, 100 FROM generate_series(1, 300) g")
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            with Database(here.folder) as writer:
                writer("SET pgrepl.keep_snapshots = 0", "SET pgrepl.file_grace = 0")
                for number in range(10_000):
                    if stop.is_set():
                        return
                    one, other = number % 300 + 1, number * 7 % 300 + 1
                    writer(
                        f"BEGIN; UPDATE acc SET n = n - 1 WHERE id = {one};"
                        f" UPDATE acc SET n = n + 1 WHERE id = {other}; COMMIT"
                    )
                    if number % 5 == 0:
                        writer("VACUUM FULL acc")
        except BaseException as problem:
            failures.append(problem)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        with Database(here.folder) as reader:
            for _ in range(6):
                back_up(reader.session, tmp_path / "backup")
                with visit(restored(tmp_path / "backup", tmp_path / "place")) as session:
                    assert ask(session, "SELECT sum(n), count(*) FROM acc") == [("30000", "300")]
    finally:
        stop.set()
        thread.join()
    assert failures == []


@pytest.mark.slow
def test_killed_at_each_step_the_last_good_backup_is_there(here: Database, tmp_path: Path) -> None:
    folder, place = tmp_path / "backup", tmp_path / "place"
    back_up(here.session, folder)
    before = here(ROWS)
    here(LARGE.format(1000, 1500), *CLEAN)
    for name in ("standby.fetched", "backup.fetched", "backup.catalog", "backup.published", "backup.removed"):
        killed = pgrepl("backup", str(folder), cwd=here.folder, PGREPL_KILL_AT=name)
        assert killed.returncode == -signal.SIGKILL, (name, killed.stderr)
        is_new = name in ("backup.published", "backup.removed")
        assert rows(restored(folder, place)) == (here(ROWS) if is_new else before), name
        if name == "backup.published":
            here("DELETE FROM t WHERE a > 1400", *CLEAN)
            before = here(ROWS)
    back_up(here.session, folder)
    assert sorted(os.listdir(folder))[0] == "backup.json" and len(os.listdir(folder)) == 3
    shutil.rmtree(place)
    for name in ("restore.files", "restore.drafted"):
        killed = pgrepl("restore", str(folder), "--to", str(place), cwd=tmp_path, PGREPL_KILL_AT=name)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert not (place / "catalog.db").exists()
    done = pgrepl("restore", str(folder), "--to", str(place), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert rows(place / "catalog.db") == here(ROWS)
    assert [name for name in os.listdir(place) if name.startswith(".")] == []


def test_a_damaged_backup_is_not_restored_and_the_next_one_repairs_it(here: Database, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    back_up(here.session, folder)
    (file,) = folder.rglob("*.parquet")
    for size in (0, 100):
        os.truncate(file, size) if size else file.unlink()
        with pytest.raises(PgError, match=r"is damaged: file .* (is missing|has 100 bytes instead of)"):
            restore(folder, tmp_path / "place" / "catalog.db")
        assert not (tmp_path / "place").exists()
        assert back_up(here.session, folder).copied == 1
    assert rows(restored(folder, tmp_path / "place")) == here(ROWS)


def test_what_is_refused(here: Database, tmp_path: Path) -> None:
    back_up(here.session, tmp_path / "backup")
    with pytest.raises(PgError, match="is a folder of the catalog itself"):
        back_up(here.session, here.folder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises(PgError, match="is not empty"):
        back_up(here.session, tmp_path / "full")
    assert os.listdir(tmp_path / "full") == ["letter.txt"]
    with Database(tmp_path / "other") as other, pytest.raises(PgError, match="has a backup of another instance"):
        back_up(other.session, tmp_path / "backup")
    with pytest.raises(PgError, match="already exists"):
        restore(tmp_path / "backup", here.folder / "catalog.db")
    with pytest.raises(PgError, match="there is no backup"):
        restore(tmp_path / "full", tmp_path / "place" / "catalog.db")
    (found,) = (tmp_path / "backup").glob("catalog-*.db")
    found.write_bytes(found.read_bytes()[:-100] + b"x" * 100)
    with pytest.raises(PgError, match="is not as it was written"):
        restore(tmp_path / "backup", tmp_path / "place" / "catalog.db")
    assert not (tmp_path / "place").exists()


def test_as_a_person_runs_it(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    assert pgrepl("backup", "../backup", cwd=tmp_path / "here").returncode == 2
    assert os.listdir(tmp_path) == ["here"] and os.listdir(tmp_path / "here") == []
    pgrepl("-q", "-c", "CREATE TABLE t (a int)", "-c", "INSERT INTO t VALUES (1)", cwd=tmp_path / "here")
    done = pgrepl("backup", "../backup", cwd=tmp_path / "here")
    assert done.stdout.startswith("backed up to ../backup at 0/") and done.stdout.endswith(": 0 files, 0 of them new\n")
    told = json.loads(pgrepl("backup", "--json", "../backup", cwd=tmp_path / "here").stdout)
    assert (told["files"], told["copied"]) == (0, 0)
    again = pgrepl("restore", "../backup", cwd=tmp_path / "here")
    assert again.returncode == 1 and "already exists" in again.stderr
    (tmp_path / "there").mkdir()
    done = pgrepl("restore", "../backup", cwd=tmp_path / "there")
    assert done.stdout.startswith("restored catalog.db as of 0/") and done.returncode == 0
    assert pgrepl("-tAc", "TABLE t", cwd=tmp_path / "there").stdout == "1\n"
