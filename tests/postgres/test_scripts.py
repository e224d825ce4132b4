"""Whole psql scripts: pgrepl prints the very bytes that PostgreSQL 17 and psql 17 print.

scripts/NAME.out was recorded from a real 17 (record.py). A real 16 plays some of the scripts here too (`-m slow`:
all), and may differ from the recording only by the lines that NAME.diff16 lists.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.dose import dose
from tests.postgres.play import Pair, difference, play_pgrepl

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.sql"))


@pytest.mark.parametrize("script", dose(SCRIPTS, 4, 1), ids=lambda p: p.stem)
def test_pgrepl_prints_what_postgresql_17_printed(script: Path, tmp_path: Path) -> None:
    printed = play_pgrepl(script.read_text("utf-8"), tmp_path)
    assert difference(script.with_suffix(".out").read_text("utf-8"), printed) == ""


@pytest.mark.parametrize("script", dose(SCRIPTS, 24, 1), ids=lambda p: p.stem)
def test_a_real_16_differs_only_where_listed(script: Path, pair16: Pair) -> None:
    differs = difference(script.with_suffix(".out").read_text("utf-8"), pair16.play(script.read_text("utf-8")))
    listed = script.with_suffix(".diff16")
    assert differs == (listed.read_text("utf-8") if listed.exists() else "")


def test_at_least_600_statements_are_compared() -> None:
    count = sum(script.read_text("utf-8").count(";\n") for script in SCRIPTS)
    assert count >= 600
