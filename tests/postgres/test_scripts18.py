"""psql scripts in which a real 18 does what 17 does: it and pgrepl print the same bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.dose import dose
from tests.postgres.play import Pair, difference, play_pgrepl

SCRIPTS = sorted((Path(__file__).parent / "scripts18").glob("*.sql"))
LOCATION = re.compile(r"^LOCATION: .*\n", re.M)


@pytest.mark.parametrize("script", dose(SCRIPTS, 8, 1), ids=lambda p: p.stem)
def test_pgrepl_prints_what_18_prints(script: Path, pair18: Pair, tmp_path: Path) -> None:
    text = script.read_text("utf-8")
    assert difference(LOCATION.sub("", pair18.play(text)), play_pgrepl(text, tmp_path)) == ""
