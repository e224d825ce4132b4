"""Each test that README and the documentation name is there, and each run plays it, in a dose at least."""

from __future__ import annotations

import re
from pathlib import Path

from tests.harness.usual import usual_run

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PLUGIN = "decoding"  # test_decoding is PostgreSQL's
NAMED = re.compile(rf"`(?P<file>tests/[\w/]*test_\w+\.py)?(?:::)?(?P<test>test_(?!{PLUGIN}`)\w+)?`")


def named_tests(text: str) -> list[str]:
    """FILE, or FILE::TEST; a test that is named alone is in the file named last."""
    names, file = [], None
    for match in NAMED.finditer(text):
        file = match["file"] or file
        if match["test"] and file:
            names.append(f"{file}::{match['test']}")
        elif match["file"]:
            names.append(match["file"])
    return names


def are_played(names: list[str]) -> dict[str, bool]:
    cases = usual_run(*sorted({name.partition("::")[0] for name in names}))
    tests = {case.partition("[")[0] for case in cases}
    return {name: name in tests or any(test.startswith(f"{name}::") for test in tests) for name in names}


def test_each_guarantee_names_a_test() -> None:
    section = (ROOT / "README.md").read_text("utf-8").split("## What is guaranteed\n")[1].split("\n## ")[0]
    _, *promises = re.findall(r"^\| (?!---)(.*) \|$", section, re.M)
    assert len(promises) >= 8
    assert [promise for promise in promises if not re.search(r"\btest_\w+`$", promise)] == []


def test_each_test_that_is_named_is_played_in_each_run() -> None:
    names = [name for document in DOCUMENTS for name in named_tests(document.read_text("utf-8"))]
    assert len(names) >= 30
    assert [name for name, played in are_played(names).items() if not played] == []


def test_a_test_that_is_slow_or_missing_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(
        "import pytest\n"
        "def test_quick(): pass\n"
        "@pytest.mark.slow\n"
        "def test_long(): pass\n"
        "@pytest.mark.parametrize('n', [1, pytest.param(2, marks=pytest.mark.slow)])\n"
        "def test_dosed(n): pass\n"
    )
    cases = [case.partition("::")[2] for case in usual_run(file)]
    assert cases == ["test_quick", "test_dosed[1]"]
    assert named_tests("`tests/a/test_b.py::test_c`, `test_d` and `tests/test_e.py`; `test_decoding` alone") == [
        "tests/a/test_b.py::test_c",
        "tests/a/test_b.py::test_d",
        "tests/test_e.py",
    ]
