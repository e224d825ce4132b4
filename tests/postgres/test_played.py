"""Whole psql scripts that print the same in PostgreSQL 16 and 17: pgrepl prints what a real 16 prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.dose import dose
from tests.postgres.play import Pair, difference, play_pgrepl

SCRIPTS = sorted((Path(__file__).parent / "played").glob("*.sql"))


@pytest.mark.parametrize("script", dose(SCRIPTS, 4), ids=lambda p: p.stem)
def test_pgrepl_prints_what_a_real_server_prints(script: Path, pair16: Pair, tmp_path: Path) -> None:
    text = script.read_text("utf-8")
    assert difference(pair16.play(text), play_pgrepl(text, tmp_path)) == ""
