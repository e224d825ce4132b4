"""PL/pgSQL beside a real server: scripts, and random functions. What 16 cannot do stands in tests/plpgsql."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.harness.dose import dose
from tests.postgres.play import Pair, difference, play_pgrepl
from tests.postgres.random_plpgsql import script

SCRIPTS = sorted((Path(__file__).parent / "plpgsql").glob("*.sql"))
_LOOP = "do $$ declare x bigint := 0; begin for i in 1..1000000 loop x := x + i; end loop; end $$;\n"
_MOST = 25  # times what PostgreSQL takes


@pytest.mark.parametrize("path", dose(SCRIPTS, 4), ids=lambda path: path.stem)
def test_a_script_prints_what_postgresql_prints(path: Path, pair16: Pair, tmp_path: Path) -> None:
    text = path.read_text("utf-8")
    assert difference(pair16.play(text), play_pgrepl(text, tmp_path)) == ""


@pytest.mark.parametrize(
    "seeds", [range(40), *(pytest.param(range(n, n + 500), marks=pytest.mark.slow) for n in range(40, 5540, 500))]
)
def test_random_functions(seeds: range, pair16: Pair, tmp_path: Path) -> None:
    text = script(seeds)
    assert difference(pair16.play(text), play_pgrepl(text, tmp_path)) == ""


@pytest.mark.slow
def test_a_loop_of_a_million_additions(pair16: Pair, tmp_path: Path) -> None:
    def taken(printed: str) -> float:
        return min(float(found) for found in re.findall(r"Time: ([\d.]+) ms", printed))

    text = "\\timing on\n" + 3 * _LOOP
    theirs = taken(pair16.play(text))
    started = time.monotonic()
    ours = taken(play_pgrepl(text, tmp_path))
    assert ours <= _MOST * theirs and ours < 1000 * (time.monotonic() - started)
