"""Whole psql scripts: pgrepl prints the very bytes that PostgreSQL 17 and psql 17 print.

scripts/NAME.out was recorded from a real 17 (record.py). test_scripts16.py plays the scripts on a real 16.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.usual import usual_run
from tests.postgres.play import difference, play_pgrepl

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.sql"))
STATEMENTS = 4281


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_pgrepl_prints_what_postgresql_17_printed(script: Path, tmp_path: Path) -> None:
    printed = play_pgrepl(script.read_text("utf-8"), tmp_path)
    assert difference(script.with_suffix(".out").read_text("utf-8"), printed) == ""


@pytest.mark.parametrize(
    "test",
    [
        "test_scripts.py::test_pgrepl_prints_what_postgresql_17_printed",
        "test_scripts16.py::test_a_real_16_differs_only_where_listed",
    ],
)
def test_at_least_4281_statements_are_compared_in_each_run(test: str) -> None:
    usual = usual_run("tests/postgres/test_scripts.py", "tests/postgres/test_scripts16.py")
    played = [script for script in SCRIPTS if f"tests/postgres/{test}[{script.stem}]" in usual]
    assert sum(script.read_text("utf-8").count(";\n") for script in played) >= STATEMENTS
