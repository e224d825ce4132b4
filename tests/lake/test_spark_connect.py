"""The tests of data once more, with Spark behind a Spark Connect server: nothing reaches around it into a JVM."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SMALL_SPARK
from tests.harness.forked import pgrepl

ROOT = Path(__file__).resolve().parents[2]
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
DATA_TESTS = ["tests/lake/test_scan.py", "tests/lake/test_stage.py"]
MORE = ["tests/writing/test_engines.py", "tests/query/test_typical.py", "tests/writing/copy"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("grpc", reason="pgrepl[connect] is not installed")
    import pyspark

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = Path(pyspark.__file__).parent
    settings = (
        *SMALL_SPARK,
        f"spark.connect.grpc.binding.port={port}",
        "spark.ui.enabled=false",
        "spark.log.level=ERROR",
    )
    conf = [part for setting in settings for part in ("--conf", setting)]
    with (tmp_path_factory.mktemp("server") / "log").open("w") as log:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--class", SERVER, *conf],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "SPARK_HOME": str(home)},
            stdout=log,
            stderr=log,
        )
        try:
            _wait_for(port, process)
            yield f"sc://localhost:{port}"
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert process.poll() is None, "the server has ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("no server within two minutes")


def over_connect(server: str, tests: list[str], *options: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, *options],
        cwd=ROOT,
        env={**os.environ, "PGREPL_REMOTE": server},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]


@pytest.mark.slow
def test_tables_are_read_and_changed_over_connect(server: str) -> None:
    """One process for all: a scan, what is staged, joins and a file."""
    data = "values and files or positions"
    statements = "spark and CONFLICT"
    over_connect(server, [*DATA_TESTS, MORE[0], MORE[2]], "-k", f"lake and ({data}) or writing and {statements}")


@pytest.mark.slow
def test_tables_are_scanned_and_written_over_connect(server: str) -> None:
    over_connect(server, DATA_TESTS)


@pytest.mark.slow
def test_copies_and_changes_by_tasks_over_connect(server: str) -> None:
    tests = ["tests/replication/test_copy_columns.py", "tests/lake/kernels", "tests/replication/test_parts.py"]
    over_connect(server, tests, "-k", "kernels and tasks or changes_by_spark")


@pytest.mark.slow
def test_the_tool_works_over_connect(server: str, tmp_path: Path) -> None:
    script = (
        "SET pgrepl.engine = spark; CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 200);"
        " DELETE FROM t WHERE a > 100; SELECT sum(a), count(*) FROM t"
    )
    done = pgrepl("-X", "-A", "-t", "--remote", server, "-c", script, cwd=tmp_path, PGREPL_CONF="")
    assert (done.stdout + done.stderr).splitlines() == [
        "SET", "CREATE TABLE", "INSERT 0 200", "DELETE 100", "5050|100",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("tests", MORE)
def test_statements_over_connect(server: str, tests: str) -> None:
    over_connect(server, [tests], "-k", "spark or Spark")
