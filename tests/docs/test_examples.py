"""The examples print what stands beside them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.forked import put_program
from tests.harness.programs import QUICK_CONF

TIMES = re.compile(r"^-- [\d.]+ s, [\d,]+ rows a second$", re.M)
EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.sh"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_prints_its_output(example: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    programs = put_program(tmp_path_factory.mktemp("bin")), Path(sys.executable).parent
    environment |= QUICK_CONF
    environment["PGREPL_DEMO_ROWS"] = "20000"  # of large.sh
    environment["PATH"] = os.pathsep.join([*map(str, programs), environment["PATH"]])
    done = subprocess.run(
        ["bash", str(example)],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=900,  # a busy machine
        check=False,
    )
    shown = example.with_suffix(".out").read_text("utf-8")
    assert (TIMES.sub("", done.stdout), done.returncode) == (TIMES.sub("", shown), 0)
    assert list(tmp_path.iterdir()) == []  # it cleans up behind itself


def test_there_is_an_example() -> None:
    assert EXAMPLES
