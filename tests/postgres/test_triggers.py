"""Triggers beside a real server: scripts of definitions and of what fires when, and random ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.dose import dose
from tests.postgres.play import Pair, difference, play_pgrepl
from tests.postgres.random_triggers import script

SCRIPTS = sorted((Path(__file__).parent / "triggers").glob("*.sql"))


@pytest.mark.parametrize("path", dose(SCRIPTS, 4, 1), ids=lambda path: path.stem)
def test_a_script_prints_what_a_server_prints(path: Path, pair16: Pair, tmp_path: Path) -> None:
    text = path.read_text("utf-8")
    assert difference(pair16.play(text), play_pgrepl(text, tmp_path)) == ""


@pytest.mark.parametrize("seed", [16, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(100, 160))])
def test_random_triggers_do_what_a_server_does(seed: int, pair16: Pair, tmp_path: Path) -> None:
    text = script(seed)
    assert difference(pair16.play(text), play_pgrepl(text, tmp_path)) == ""
