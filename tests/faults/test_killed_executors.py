"""Processes that do Spark's tasks are killed while they write: a task is done again, and no row is there twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.harness.forked import pgrepl
from tests.harness.programs import environment
from tests.lake.duck import close, duck

ROWS = 2_000_000
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


def kill_executors(worker: subprocess.Popen[str], folder: Path, pattern: str, after: float, times: int) -> list[int]:
    """So often while a write is under way: in a folder of its own, a file that is not whole yet is there."""
    killed: list[int] = []
    seen: set[Path] = set()
    while worker.poll() is None and len(seen) < times:
        half = {path.parents[3 if "_temporary" in pattern else 0] for path in folder.rglob(pattern)} - seen
        if half:
            seen |= half
            time.sleep(after)
            for each in executors(worker.pid):
                os.kill(each, signal.SIGKILL)
                killed.append(each)
        time.sleep(0.02)
    return killed


def files_of(catalog: Path, database: str) -> set[str]:
    close(catalog)
    query = f"SELECT data_file, delete_file FROM ducklake_list_files('lake', 't', schema => '{database}')"
    listed = {str(file) for row in duck(catalog, query) for file in row}
    close(catalog)
    return listed


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
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
    watch = lambda: killed.extend(kill_executors(worker, tmp_path, "_temporary/**/*.parquet", after, 2))  # noqa: E731
    watcher = threading.Thread(target=watch)
    watcher.start()
    out, err = worker.communicate(SCRIPT, timeout=300)
    watcher.join()
    assert killed
    answer = f"{ROWS}|{ROWS}|{ROWS * (ROWS + 1) // 2}|{ROWS * 3 // 4}"
    assert out.splitlines() == ["SET", "CREATE TABLE", f"INSERT 0 {ROWS}", f"UPDATE {ROWS * 3 // 4}", answer], err
    assert duck(catalog, "SELECT count(*), sum(id) FROM postgres.t") == [(str(ROWS), str(ROWS * (ROWS + 1) // 2))]
    assert {str(path) for path in tmp_path.rglob("*.parquet")} <= files_of(catalog, "postgres")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
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
    watch = lambda: killed.extend(kill_executors(worker, tmp_path, "sub/t/ducklake-*/*.parquet", after, 1))  # noqa: E731
    watcher = threading.Thread(target=watch)
    watcher.start()
    out, err = worker.communicate(timeout=300)
    watcher.join()
    assert worker.returncode == 0, err
    assert killed, out
    assert duck(catalog, "SELECT count(*), sum(id) FROM sub.t") == [(str(ROWS // 2), str(ROWS // 2 * (ROWS // 2 + 1)))]
    ways = pgrepl("-X", "-At", "--catalog", str(catalog), "-d", "sub", "-c", "SELECT * FROM pgrepl_stat_engine")
    assert "initial copy|spark||1" in ways.stdout
    listed = files_of(catalog, "sub")
    written = [path for path in (tmp_path / "catalog.db.files" / "sub").rglob("*") if path.name != ".owner"]
    assert {str(path) for path in written if path.is_file()} == listed - {"None"}
