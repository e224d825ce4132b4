"""`pgrepl status --max-lag` is for monitoring: its exit code says whether a subscription is too far behind."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.harness.forked import pgrepl

LAKE = """
CREATE DATABASE pub;
CREATE DATABASE sub;
\\c pub
CREATE TABLE t (a int PRIMARY KEY);
CREATE PUBLICATION p FOR TABLE t;
\\c sub
CREATE TABLE t (a int PRIMARY KEY);
CREATE SUBSCRIPTION s CONNECTION 'dbname=pub' PUBLICATION p;
\\set AUTOAPPLY off
"""
FILES = """
CREATE DATABASE sub;
\\c sub
CREATE TABLE t (a int PRIMARY KEY);
CREATE SUBSCRIPTION s CONNECTION 'files=changes format=debezium' PUBLICATION p WITH (copy_data = off);
\\set AUTOAPPLY off
"""


def made(folder: Path, script: str) -> None:
    done = pgrepl("-q", "-v", "ON_ERROR_STOP=1", cwd=folder, script=script)
    assert done.returncode == 0, done.stderr


def over(folder: Path, limit: float) -> tuple[int, str | None]:
    done = pgrepl("status", "--json", "--max-lag", str(limit), cwd=folder)
    (found,) = json.loads(done.stdout)
    return done.returncode, found["over"]


@pytest.mark.slow
def test_the_seconds_since_the_first_commit_that_is_missing(tmp_path: Path) -> None:
    made(tmp_path, LAKE)
    assert over(tmp_path, 0) == (0, None)
    made(tmp_path, "\\set AUTOAPPLY off\n\\c pub\nINSERT INTO t VALUES (1);")
    time.sleep(0.2)
    code, reason = over(tmp_path, 0.1)
    assert code == 1
    assert reason is not None
    assert reason.endswith(" s behind")
    assert over(tmp_path, 3600) == (0, None)
    shown = pgrepl("status", "--max-lag", "0", cwd=tmp_path)
    assert shown.returncode == 1
    assert 'Subscription "s" in database "sub" is over the limit: it is ' in shown.stdout
    assert pgrepl("apply", cwd=tmp_path).returncode == 0
    assert over(tmp_path, 0) == (0, None)


def test_one_that_has_stopped_is_over_any_limit(tmp_path: Path) -> None:
    made(tmp_path, LAKE + "INSERT INTO t VALUES (1);\n\\c pub\nINSERT INTO t VALUES (1);")
    assert pgrepl("apply", cwd=tmp_path).returncode == 1
    stopped = 'it is stopped by an error: duplicate key value violates unique constraint "t_pkey"'
    assert over(tmp_path, 3600) == (1, stopped)
    made(tmp_path, "\\c sub\nALTER SUBSCRIPTION s DISABLE;")
    assert over(tmp_path, 3600) == (1, "it is disabled")


def test_a_file_that_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "changes").mkdir()
    made(tmp_path, FILES)
    assert over(tmp_path, 0) == (0, None)
    record = {"payload": {"op": "c", "after": {"a": 1}, "source": {"schema": "public", "table": "t"}}}
    file = tmp_path / "changes" / "1.json"
    file.write_text(json.dumps(record) + "\n")
    os.utime(file, (time.time() - 1000, time.time() - 1000))
    assert over(tmp_path, 900)[0] == 1
    assert over(tmp_path, 1100) == (0, None)


def test_what_cannot_be_looked_at(tmp_path: Path) -> None:
    assert pgrepl("status", "--max-lag", "60", cwd=tmp_path).returncode == 2
    assert pgrepl("status", "--max-lag", "60", "--watch", cwd=tmp_path).returncode == 2
