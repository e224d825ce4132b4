"""psql scripts in which a real 18 does what 17 does: it and pgrepl print the same bytes; and scripts that pgrepl plays
as 18 (pgrepl.postgres_version): those of what 18 has, and those of 17, as far as what differs is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.dose import dose
from tests.postgres.play import Pair, difference, play_pgrepl

HERE = Path(__file__).parent
SCRIPTS = sorted((HERE / "scripts_alike_18").glob("*.sql"))
OF_18 = sorted((HERE / "scripts_of_18").glob("*.sql"))
LOCATION = re.compile(r"^LOCATION: .*\n", re.M)
# what pgrepl does not say as 18 does (docs/differences.md), or that is the wheel's: its collations have no versions
APART = frozenset("""collations copy_options copy_psql copy_to describe psql_meta subscription_connections""".split())
OF_17 = [path for path in sorted((HERE / "scripts").glob("*.sql")) if path.stem not in APART]


@pytest.mark.parametrize("script", dose(SCRIPTS, 8, 1), ids=lambda p: p.stem)
def test_pgrepl_prints_what_18_prints(script: Path, pair18: Pair, tmp_path: Path) -> None:
    text = script.read_text("utf-8")
    assert difference(LOCATION.sub("", pair18.play(text)), play_pgrepl(text, tmp_path)) == ""


@pytest.mark.parametrize("script", [*OF_18, *dose(OF_17, 30, 4)], ids=lambda p: p.stem)
def test_pgrepl_prints_as_18_what_18_prints(script: Path, pair18: Pair, tmp_path: Path) -> None:
    text = script.read_text("utf-8")
    assert difference(LOCATION.sub("", pair18.play(text)), play_pgrepl(text, tmp_path, release=18)) == ""
