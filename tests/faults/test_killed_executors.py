"""Processes that do Spark's tasks are killed while they write: a task is done again, and no row is there twice."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.harness.forked import pgrepl
from tests.harness.programs import environment
from tests.lake.duck import close, duck

ROWS, PATIENCE = 2_000_000, 1800  # seconds
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
SCRIPT = f"""
SET pgrepl.engine = spark;
CREATE TABLE t (id bigint PRIMARY KEY, s text);
INSERT INTO t SELECT g, 'value ' || g FROM generate_series(1, {ROWS}) g;
UPDATE t SET s = s || '!' WHERE id % 4 < 3;
SELECT count(*), count(DISTINCT id), sum(id), count(*) FILTER (WHERE s LIKE '%!') FROM t;
"""
COPIED = f"""
CREATE DATABASE pub; CREATE DATABASE sub;
\\c pub
SET pgrepl.engine = spark;
CREATE TABLE t (id bigint PRIMARY KEY, s text);
INSERT INTO t SELECT g, 'value ' || g FROM generate_series(1, {ROWS}) g;
CREATE PUBLICATION p FOR TABLE t WHERE (id % 2 = 0);
\\c sub
\\set AUTOAPPLY off
CREATE TABLE t (id bigint PRIMARY KEY, s text);
CREATE SUBSCRIPTION s CONNECTION 'dbname=pub' PUBLICATION p;
"""


def executors(driver: int) -> list[int]:
    """The processes below the driver that do tasks."""
    parents, tasks = {}, []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                tasks.append(int(entry.name))
        except OSError:  # it has ended meanwhile
            continue
    return [each for each in tasks if driver in _above(each, parents)]


def _above(process: int, parents: dict[int, int]) -> list[int]:
    found = []
    while process in parents:
        process = parents[process]
        found.append(process)
    return found


def kill_executors(worker: subprocess.Popen[str], table: Path, after: float, times: int) -> list[int]:
    """All of them, in so many of the jobs that write into this folder: some time after a job's first file has come."""
    killed: list[int] = []
    seen: set[str] = set()
    while worker.poll() is None and len(seen) < times:
        writing: set[str] = set()
        with suppress(OSError):  # the job's folder is gone meanwhile
            writing |= {path.relative_to(table).parts[0] for path in table.glob("ducklake-*/**/*.parquet")}
        if writing - seen:
            seen |= writing
            time.sleep(after)
            for each in executors(worker.pid):
                os.kill(each, signal.SIGKILL)
                killed.append(each)
        time.sleep(0.02)
    return killed


def answer(worker: subprocess.Popen[str], text: str | None = None) -> tuple[str, str]:
    try:
        return worker.communicate(text, timeout=PATIENCE)
    finally:
        worker.kill()  # if it has not ended


def files_of(catalog: Path, database: str) -> set[str]:
    close(catalog)
    query = f"SELECT data_file, delete_file FROM ducklake_list_files('lake', 't', schema => '{database}')"
    listed = {str(file) for row in duck(catalog, query) for file in row}
    close(catalog)
    return listed


@pytest.mark.slow
@ON_LINUX
@pytest.mark.parametrize("after", [0.1, 0.5, 1.0])
def test_a_task_that_is_killed_is_done_again_and_no_row_is_there_twice(tmp_path: Path, after: float) -> None:
    catalog = tmp_path / "catalog.db"
    arguments = ["--catalog", str(catalog), "--master", "local-cluster[2,1,1024]", "-At", "-f", "-"]
    worker = subprocess.Popen(
        [sys.executable, "-m", "pgrepl", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    killed: list[int] = []
    table = tmp_path / "catalog.db.files" / "postgres" / "t"
    watch = lambda: killed.extend(kill_executors(worker, table, after, 2))  # noqa: E731
    watcher = threading.Thread(target=watch)
    watcher.start()
    out, err = answer(worker, SCRIPT)
    watcher.join()
    assert killed
    counted = f"{ROWS}|{ROWS}|{ROWS * (ROWS + 1) // 2}|{ROWS * 3 // 4}"
    assert out.splitlines() == ["SET", "CREATE TABLE", f"INSERT 0 {ROWS}", f"UPDATE {ROWS * 3 // 4}", counted], err
    assert duck(catalog, "SELECT count(*), sum(id) FROM postgres.t") == [(str(ROWS), str(ROWS * (ROWS + 1) // 2))]
    assert {str(path) for path in tmp_path.rglob("*.parquet")} <= files_of(catalog, "postgres")


@pytest.mark.slow
@ON_LINUX
@pytest.mark.parametrize("after", [0.0, 0.2])
def test_a_copy_whose_tasks_are_killed_has_every_row_once_and_no_file_too_many(tmp_path: Path, after: float) -> None:
    catalog = tmp_path / "catalog.db"
    prepared = pgrepl("-X", "-q", "--catalog", str(catalog), "-f", "-", script=COPIED, cwd=tmp_path)
    assert prepared.returncode == 0, prepared.stderr
    worker = subprocess.Popen(
        [sys.executable, "-m", "pgrepl", "sync", "--catalog", str(catalog)],
        env=environment(PGREPL_MASTER="local-cluster[2,1,1024]"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    killed: list[int] = []
    table = tmp_path / "catalog.db.files" / "sub" / "t"
    watch = lambda: killed.extend(kill_executors(worker, table, after, 1))  # noqa: E731
    watcher = threading.Thread(target=watch)
    watcher.start()
    out, err = answer(worker)
    watcher.join()
    assert worker.returncode == 0, err
    assert killed, out
    assert duck(catalog, "SELECT count(*), sum(id) FROM sub.t") == [(str(ROWS // 2), str(ROWS // 2 * (ROWS // 2 + 1)))]
    ways = pgrepl("-X", "-At", "--catalog", str(catalog), "-d", "sub", "-c", "SELECT * FROM pgrepl_stat_engine")
    assert "initial copy|spark||1" in ways.stdout
    listed = files_of(catalog, "sub")
    written = [path for path in (tmp_path / "catalog.db.files" / "sub").rglob("*") if path.name != ".owner"]
    assert {str(path) for path in written if path.is_file()} == listed - {"None"}


ROUNDS = """
import sys
from pathlib import Path
from pgrepl.engine import spark
from pgrepl.engine.spark_options import read_options
from tests.harness.pair import Pair
from tests.harness.programs import QUICK_EXECUTORS, QUICK_JVM

rows = int(sys.argv[2])
spark.configure(read_options({}, master="local-cluster[2,1,1024]", conf=(QUICK_JVM, QUICK_EXECUTORS)))
pair = Pair(Path(sys.argv[1]))
for setting in ("pgrepl.engine = spark", "logical_decoding_work_mem = '1MB'"):
    pair.pub(f"ALTER SYSTEM SET {setting}")
pair.pub("SET pgrepl.engine = local")
pair.both("CREATE TABLE t (id bigint PRIMARY KEY, s text)")
pair.pub(f"INSERT INTO t SELECT g, 'value ' || g FROM generate_series(1, {rows}) g", "CREATE PUBLICATION p FOR TABLE t")
spark.session().sparkContext.parallelize(range(4), 4).count()

def round(name, work):
    print(name, flush=True)
    work()
    query = "SELECT count(*), sum(id), sum(length(s)), count(DISTINCT id) FROM t"
    found, wanted = pair.sub("SET pgrepl.engine = local", query), pair.pub(query)
    pair.sub("RESET pgrepl.engine")
    print("same" if found == wanted else f"{found} {wanted}", flush=True)

def subscribe():
    pair.sub.subscribe("p", "host=localhost dbname=pub")
    assert pair.catch_up() == []

followed = False
for line in sys.stdin:
    if line == "copy\\n":
        round("copying", subscribe)
        pair.sub("DROP SUBSCRIPTION s", "TRUNCATE t")
        continue
    if not followed:
        subscribe()
        followed = True
    pair.pub("UPDATE t SET s = s || '!' WHERE id % 3 = 0", "DELETE FROM t WHERE id % 1000 = 0")
    there_and_back = "CASE WHEN id > 100000000 THEN id - 100000000 ELSE id + 100000000 END"
    pair.pub(f"UPDATE t SET id = {there_and_back} WHERE id % 7 = 0 OR id > 100000000")
    pair.pub("INSERT INTO t SELECT g * 1000 FROM generate_series(1, 100) g")
    round("applying", lambda: print(*pair.catch_up(), end=""))
ways = pair.sub.ways()
print(ways["copy"], ways["apply"], {key: n for key, n in ways.items() if "row by row" in key})
pair.close()
"""


def killed_rounds(folder: Path, kind: str, kills: int, rows: int) -> None:
    """Rounds of copies or batches, in each of which an executor is killed at some moment, until so many have been."""
    chance = random.Random(kills)
    complaints = folder / "stderr"
    with complaints.open("w") as errors:
        worker = subprocess.Popen(
            [sys.executable, "-c", ROUNDS, str(folder), str(rows)],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert worker.stdin is not None and worker.stdout is not None
    killed: list[int] = []
    lasts = 0.5  # seconds of a round: at first a guess
    for played in range(3 * kills):
        worker.stdin.write(f"{kind}\n")
        worker.stdin.flush()
        assert worker.stdout.readline(), complaints.read_text()
        began = time.monotonic()
        timer = threading.Timer(chance.random() * lasts, lambda: killed.extend(kill_one(worker.pid, chance)))
        timer.start()
        said = worker.stdout.readline()
        timer.cancel()
        timer.join()
        assert said == "same\n", said + complaints.read_text()
        took = time.monotonic() - began
        lasts = min(lasts, took) if played else took
        if len(killed) == kills:
            break
    out, _ = answer(worker)
    assert len(killed) == kills
    assert out.split()[2:] == ["{}"], out + complaints.read_text()
    assert "Traceback" not in complaints.read_text()
    check_files(folder / "catalog.db")


def check_files(catalog: Path) -> None:
    """No job's folder stays, nor a file that the catalog does not know."""
    there = list((catalog.with_name(f"{catalog.name}.files") / "sub").rglob("ducklake-*"))
    tables = "ducklake_data_file", "ducklake_delete_file", "ducklake_files_scheduled_for_deletion"
    with closing(sqlite3.connect(catalog)) as db:
        known = {row[0].rpartition("/")[2] for table in tables for row in db.execute(f"SELECT path FROM {table}")}
    assert len(there) > 1
    assert {path.name for path in there} - known == set()


def kill_one(driver: int, chance: random.Random) -> list[int]:
    """The one that was killed; none, if none is there at the moment."""
    there = executors(driver)
    if not there:
        return []
    one = chance.choice(there)
    os.kill(one, signal.SIGKILL)
    return [one]


@pytest.mark.slow
@ON_LINUX
def test_an_executor_is_killed_while_changes_are_applied(tmp_path: Path) -> None:
    killed_rounds(tmp_path, "apply", 1, 20_000)


@ON_LINUX
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["copy", "apply"])
def test_executors_are_killed_twenty_times(tmp_path: Path, kind: str) -> None:
    killed_rounds(tmp_path, kind, 20, 60_000)
