"""The JVM ends with the process that started it, and a new one takes the place of one that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.harness.programs import PATIENCE, child_of, eventually

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
import os, sys
from pgrepl.ground.errors import PgError
from pgrepl.engine import spark
from pgrepl.engine.spark_options import read_options
from tests.harness.programs import QUICK_JVM, child_of
conf = ("spark.driver.memory=1g", QUICK_JVM)
spark.configure(read_options({}, master="local[1]", conf=conf))
"""


def play(code: str, folder: Path | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for_end(pid: int) -> None:
    eventually(lambda: not Path(f"/proc/{pid}").exists())


pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes in /proc")


@pytest.mark.slow  # it starts a JVM
def test_the_jvm_ends_when_the_process_is_killed_in_the_middle_of_a_job() -> None:
    process = play(
        "import threading, time\n"
        "session = spark.session()\n"
        "def tell():\n"
        "    while not session.sparkContext.statusTracker().getActiveJobsIds(): time.sleep(0.1)\n"
        "    print(child_of(os.getpid()), flush=True)\n"
        "threading.Thread(target=tell).start()\n"
        "session.range(10**13).filter(\"sha2(string(id), 256) = 'x'\").count()\n"
    )
    assert process.stdout is not None
    jvm = int(process.stdout.readline())
    process.kill()
    process.wait()
    wait_for_end(jvm)


@pytest.mark.slow  # it starts a JVM
def test_a_process_that_ends_before_its_session_is_there_leaves_no_jvm() -> None:
    process = play("spark.start_in_background()\nsys.stdin.readline()\n")
    jvm = child_of(process.pid)
    answer = process.communicate("end\n", timeout=PATIENCE)
    assert (process.returncode, answer) == (0, ("", ""))
    wait_for_end(jvm)


@pytest.mark.slow  # it starts a JVM
def test_the_sockets_of_workers_go_with_the_process() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        process = play(
            "import os, tempfile\n"
            f"tempfile.tempdir = {folder!r}\n"
            "session = spark.session()\n"
            "def sockets(rows): return [(n, os.environ.get('PYTHON_WORKER_FACTORY_SOCK_DIR')) for n in rows]\n"
            "((_, used),) = session.sparkContext.parallelize([1], 1).mapPartitions(sockets).collect()\n"
            "print(os.path.basename(used).partition('-')[2][:7], len(os.listdir(used)))\n"
        )
        answer, complaint = process.communicate(timeout=PATIENCE)
        assert (answer, complaint) == ("sockets 2\n", "")
        assert os.listdir(folder) == [f"pgrepl-{os.getuid()}"]


@pytest.mark.slow
def test_a_killed_jvm_is_an_error_and_then_another_one() -> None:
    process = play(
        "session = spark.session()\n"
        "jvm = child_of(os.getpid())\n"
        "os.killpg(jvm, 9)  # a shell is its parent while it makes the archive of classes\n"
        "try:\n"
        "    with spark.pg_errors(): session.range(5).count()\n"
        "except PgError as error: print(error.sqlstate, error.message)\n"
        "print(spark.session().range(5).count())\n"
        "spark.stop()\n"
        "from pgrepl.ground import interrupts; print(interrupts.started())\n"
    )
    answer, complaint = process.communicate(timeout=PATIENCE)
    assert answer.splitlines() == ["58000 Spark ended unexpectedly while the statement ran", "5", "False"]
    assert complaint == ""


@pytest.mark.slow  # `make compat` starts one
def test_an_unknown_pyspark_is_started_in_the_documented_way(tmp_path: Path) -> None:
    process = play(
        "from pgrepl.internals import pyspark\n"
        "pyspark.version = lambda: '9.9.9'\n"
        "session = spark.session()\n"
        "print('pgrepl.engine.spark_start_plain' in sys.modules, session.range(5).count())\n"
        "import signal, threading, time\n"
        "from pgrepl.ground import interrupts\n"
        "from pgrepl.ground.errors import PgError\n"
        "cancelled = []\n"
        "def handler(*_):\n"
        "    interrupts.note(interrupts.user_request())\n"
        "    cancelled.append(interrupts.cancel())\n"
        "signal.signal(signal.SIGINT, handler)\n"
        "def interrupt():\n"
        "    while not session.sparkContext.statusTracker().getActiveJobsIds(): time.sleep(0.1)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt).start()\n"
        "try:\n"
        "    with spark.pg_errors(): session.range(10**13).filter(\"sha2(string(id), 256) = 'x'\").count()\n"
        "except PgError as error: print(error.sqlstate, error.message, cancelled)\n"
        "print(spark.session().range(5).count(), interrupts.running_tasks())\n"
        "spark.stop()\n"
        "print(spark.session().range(6).count())\n"
        "spark.stop()\n",
        tmp_path,  # where Spark 4.0 makes a folder
    )
    try:
        answer, complaint = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert answer.splitlines() == ["True 5", "57014 canceling statement due to user request [True]", "5 None", "6"], (
        complaint
    )


def test_the_prompt_starts_spark_and_leaves_without_waiting(tmp_path: Path) -> None:
    """SIGTERM while it starts: nothing is printed, nothing left."""
    pexpect = pytest.importorskip("pexpect")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"}
    shell = pexpect.spawn(
        sys.executable, ["-m", "pgrepl", "-X", "-n"], cwd=str(tmp_path), env=environment, timeout=PATIENCE
    )
    shell.expect("postgres=# ")
    jvm = child_of(shell.pid)
    os.kill(shell.pid, signal.SIGTERM)
    shell.expect(pexpect.EOF)
    shell.close()
    assert shell.before.strip() == b""
    wait_for_end(jvm)
