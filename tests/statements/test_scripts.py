"""Scripts beside the printed answers of a real PostgreSQL 17 and psql 17: pgrepl prints the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres.play import difference, play_pgrepl

SCRIPTS = sorted(Path(__file__).with_name("scripts").glob("*.sql"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_prints_what_17_printed(script: Path, tmp_path: Path) -> None:
    printed = play_pgrepl(script.read_text("utf-8"), tmp_path)
    assert difference(script.with_suffix(".out").read_text("utf-8"), printed) == ""
