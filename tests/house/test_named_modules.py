"""A module that a docstring or a comment names as `name.py`, or `room/name.py`, is there."""

from __future__ import annotations

import re

from tests.harness.programs import ROOT

NAMED = re.compile(r"(?<![\w.*{}/-])((?:\w+/)*\w+\.py)\b")
FOLDERS = ("pgrepl", "tests", "benchmarks", "release")
NO_MODULES = {"x.py", "x_spark.py", "version.py"}  # any two ways of one rule; pyspark's own


def test_each_module_that_is_named_is_there() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    there = {path.relative_to(ROOT).parts for path in [*files, *ROOT.glob("*.py")]}
    ends = {"/".join(parts[start:]) for parts in there for start in range(len(parts))}
    gone = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        if path.is_relative_to(ROOT / "pgrepl")
        for name in set(NAMED.findall(path.read_text("utf-8"))) - ends - NO_MODULES
    }
    assert gone == set()
