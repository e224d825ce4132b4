"""The scripts that pgrepl is held to, on a real 16: it differs from the recorded 17 only by the lines of NAME.diff16.

So no recorded line is anybody's invention.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres.play import Pair, difference
from tests.postgres.test_scripts import SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_a_real_16_differs_only_where_listed(script: Path, pair16: Pair) -> None:
    differs = difference(script.with_suffix(".out").read_text("utf-8"), pair16.play(script.read_text("utf-8")))
    listed = script.with_suffix(".diff16")
    assert differs == (listed.read_text("utf-8") if listed.exists() else "")
