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

from tests.lake.duck import close, duck

ROWS = 2_000_000
SCRIPT = f"""
SET pgrepl.engine = spark;
CREATE TABLE t (id bigint PRIMARY KEY, s text);
INSERT INTO t SELECT g, 'value ' || g FROM generate_series(1, {ROWS}) g;
UPDATE t SET s = s || '!' WHERE id % 4 < 3;
SELECT count(*), count(DISTINCT id), sum(id), count(*) FILTER (WHERE s LIKE '%!') FROM t;
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

    def kill() -> None:
        """Once while the INSERT writes, once while the UPDATE does: a file that is not whole yet is there."""
        seen: set[Path] = set()
        while worker.poll() is None and len(seen) < 2:
            half = {path.parents[3] for path in tmp_path.rglob("_temporary/**/*.parquet")} - seen
            if half:
                seen |= half
                time.sleep(after)
                for each in executors(worker.pid):
                    os.kill(each, signal.SIGKILL)
                    killed.append(each)
            time.sleep(0.02)

    watcher = threading.Thread(target=kill)
    watcher.start()
    out, err = worker.communicate(SCRIPT, timeout=300)
    watcher.join()
    assert killed
    answer = f"{ROWS}|{ROWS}|{ROWS * (ROWS + 1) // 2}|{ROWS * 3 // 4}"
    assert out.splitlines() == ["SET", "CREATE TABLE", f"INSERT 0 {ROWS}", f"UPDATE {ROWS * 3 // 4}", answer], err
    assert duck(catalog, "SELECT count(*), sum(id) FROM postgres.t") == [(str(ROWS), str(ROWS * (ROWS + 1) // 2))]
    close(catalog)
    listed = duck(catalog, "SELECT data_file, delete_file FROM ducklake_list_files('lake', 't', schema => 'postgres')")
    close(catalog)
    assert {str(path) for path in tmp_path.rglob("*.parquet")} <= {str(file) for row in listed for file in row}
