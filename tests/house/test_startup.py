"""Definitions and descriptions start fast: nothing of the lake and nothing heavy is imported for them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.forked import pgrepl
from tests.harness.programs import environment

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"pyspark", "pyarrow", "sqlglot", "pandas", "numpy", "lark", "prompt_toolkit", "rich", "psycopg", "sqlalchemy"}

PROBE = """
import atexit, json, sys
atexit.register(lambda: open("modules.json", "w").write(json.dumps(sorted(sys.modules))))
from pgrepl.cli import main
main(sys.argv[1:])
"""

SCRIPT = "CREATE TABLE t (a int PRIMARY KEY);\nCREATE PUBLICATION p FOR TABLE t WHERE (a > 1);\n"


@pytest.mark.parametrize("command", [r"\dRp+", r"\d t", r"\dRs+", "SELECT 1", "SELECT pubname FROM pg_publication"])
def test_nothing_heavy_is_imported(command: str, tmp_path: Path) -> None:
    pgrepl("-X", "-q", cwd=tmp_path, script=SCRIPT)
    probe = [sys.executable, "-c", PROBE, "-X", "-c", command]
    subprocess.run(probe, cwd=tmp_path, env=environment(), check=True, capture_output=True)
    imported = set(json.loads((tmp_path / "modules.json").read_text()))
    assert imported & HEAVY == set()
    assert not any(name.startswith("pgrepl.lake") for name in imported)
    if "FROM" not in command and not command.startswith("\\d "):  # no values that are dates or in files
        assert imported & {"pgrepl.types.times.datetime", "pgrepl.types.lake.scalars", "secrets", "_hashlib"} == set()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (2); UPDATE t SET a = 3 WHERE a = 2; DELETE FROM t WHERE a = 3",
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM t; COMMIT",
        "COPY t TO STDOUT",
        "SELECT count(*), sum(a) FROM t GROUP BY a % 2 ORDER BY 1",
    ],
)
def test_nothing_heavy_is_imported_for_few_rows(statement: str, tmp_path: Path) -> None:
    pgrepl("-X", "-q", cwd=tmp_path, script=f"{SCRIPT}INSERT INTO t VALUES (1);")
    probe = [sys.executable, "-c", PROBE, "-X", "-c", statement]
    subprocess.run(probe, cwd=tmp_path, env=environment(), check=True, capture_output=True)
    imported = set(json.loads((tmp_path / "modules.json").read_text()))
    assert imported & HEAVY == set()


@pytest.mark.parametrize(
    "arguments", [["standby", "--help"], ["standby", "sync", "--help"], ["apply", "--help"], ["status"]]
)
def test_nothing_heavy_is_imported_for_help_and_status(arguments: list[str], tmp_path: Path) -> None:
    if arguments == ["status"]:
        pgrepl("-X", "-q", "-c", "SELECT 1", cwd=tmp_path)
    probe = [sys.executable, "-c", PROBE, *arguments]
    subprocess.run(probe, cwd=tmp_path, env=environment(), check=True, capture_output=True)
    imported = set(json.loads((tmp_path / "modules.json").read_text()))
    assert imported & HEAVY == set()
    assert not any(name.startswith("pgrepl.lake") for name in imported)
