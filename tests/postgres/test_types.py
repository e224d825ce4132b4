"""Enums, domains and composite types: a PostgreSQL 16 and pgrepl print the same for each script in `types/`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.dose import dose
from tests.postgres.play import Pair, difference, play_pgrepl

SCRIPTS = sorted((Path(__file__).parent / "types").glob("*.sql"))


@pytest.mark.parametrize("script", dose(SCRIPTS, 4), ids=lambda path: path.stem)
def test_types(script: Path, pair16: Pair, tmp_path: Path) -> None:
    text = script.read_text("utf-8")
    assert difference(pair16.play(text), play_pgrepl(text, tmp_path)) == ""
