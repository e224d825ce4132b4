"""Each guarantee in the README names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(?:(?P<file>tests/[\w/]+\.py)::)?(?P<test>test_\w+)`")


def test_each_guarantee_names_a_test_that_is_there() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    section = text.split("## What is guaranteed\n")[1].split("\n## ")[0]
    promises = section.split("\n* ")[1:]
    assert len(promises) >= 8
    file = None
    for promise in promises:
        named = list(NAMED.finditer(promise))
        assert named, f"no test is named: {promise}"
        for match in named:
            file = match["file"] or file
            assert file is not None
            assert f"def {match['test']}(" in (ROOT / file).read_text("utf-8"), f"{file}::{match['test']}"
