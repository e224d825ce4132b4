"""Ctrl-C while Spark's tasks apply changes: it ends the jobs of the command, and no others; nothing stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.forked import pgrepl
from tests.harness.programs import PATIENCE, environment

PREPARED = """
CREATE DATABASE pub; CREATE DATABASE sub;
\\c pub
CREATE TABLE t (id bigint PRIMARY KEY, s text);
INSERT INTO t SELECT g, 'value ' || g FROM generate_series(1, 100000) g;
CREATE PUBLICATION p FOR TABLE t;
\\c sub
CREATE TABLE t (id bigint PRIMARY KEY, s text);
CREATE SUBSCRIPTION s CONNECTION 'dbname=pub' PUBLICATION p;
\\c pub
UPDATE t SET s = s || '!';
ALTER SYSTEM SET pgrepl.engine = spark;
ALTER SYSTEM SET logical_decoding_work_mem = '1MB';
"""
APPLY = """
import os, signal, sys, threading, time
from pyspark.sql import SparkSession
from pgrepl.cli import run
from pgrepl.engine import spark
from tests.harness.programs import QUICK_JVM

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
given = builder.config(*QUICK_JVM.split("=", 1)).getOrCreate()
spark.use(given)
others = []

def other():
    others.append(given.sparkContext.parallelize([1], 1).map(lambda n: time.sleep(12) or n).collect())

beside = threading.Thread(target=other)
described = spark.described

def noted(text):
    if text.endswith(": apply") and not beside.is_alive():
        beside.start()
        time.sleep(1)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    return described(text)

spark.described = noted
try:
    code = run(["apply", "s", "-d", "sub", "--catalog", sys.argv[1]])
except (KeyboardInterrupt, SystemExit) as problem:
    code = problem
beside.join()
print(repr(code), others)
"""


@pytest.mark.slow
def test_ctrl_c_cancels_the_tasks_of_the_apply_alone(tmp_path: Path) -> None:
    """In a Spark session of the program's, where a thread of its own runs a job, too."""
    catalog = tmp_path / "catalog.db"
    made = pgrepl("-X", "-q", "--catalog", str(catalog), "-f", "-", script=PREPARED, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    done = subprocess.run(
        [sys.executable, "-c", APPLY, str(catalog)],
        env=environment(PYSPARK_PYTHON=sys.executable),
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "SystemExit(130) [[1]]", done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    folder = tmp_path / "catalog.db.files" / "sub"
    assert [path for path in folder.rglob("ducklake-*") if path.is_dir()] == []
    left = pgrepl("-X", "-At", "--catalog", str(catalog), "-d", "sub", "-c", "SELECT count(*) FROM t WHERE s LIKE '%!'")
    assert left.stdout in ("0\n", "100000\n")  # the shell may have applied what it found
