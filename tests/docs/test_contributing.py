"""CONTRIBUTING says what is played when, as the Makefile, pyproject.toml and the tests' marks do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.usual import usual_run

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
PLAYED = TEXT.split("## What is played when\n")[1].split("\n## ")[0]
DOSES = {
    file: 1 if part == "all" else int(part.split()[-1])
    for names, part in re.findall(r"^\| (.*?) \| (all|1 of \d+) \|", PLAYED, re.M)
    for file in re.findall(r"`(.*?)`", names)
}


def scripts_of(file: str) -> list[str]:
    """The names of all scripts that a file of tests plays in doses: its module says in which folder they are."""
    folder = re.search(r'["/](\w+)"\)+\.glob', (ROOT / file).read_text("utf-8"))
    found = (ROOT / file).parent / (folder[1] if folder else "scripts")
    return [script.stem for script in found.glob("*.sql")]


def test_the_commands_are_the_makefiles() -> None:
    targets = set(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.M)[0].split())
    explained = set(re.findall(r"`make (\w+)`", TEXT))
    assert explained == targets - {"demo", "tests", "clean"}


def test_the_number_of_processes_is_the_makefiles() -> None:
    (processes,) = re.findall(r"pytest\) -n (\d+)|/pytest -n (\d+)", MAKEFILE)
    assert f"{WORDS[int(''.join(processes))].capitalize()} processes share the tests" in TEXT


def test_continuous_integration_runs_what_it_says() -> None:
    assert (ROOT / ".ci" / "run").read_text("utf-8").endswith("exec make test\n")
    assert "-m 'not slow'" in (ROOT / "pyproject.toml").read_text("utf-8")


@pytest.mark.parametrize("file", DOSES)
def test_so_many_of_the_scripts_are_played(file: str) -> None:
    cases = {re.sub(r"::.*\[", "::", case).rstrip("]") for case in usual_run(*DOSES)}
    scripts, every = scripts_of(file), DOSES[file]
    assert len(scripts) > 4
    assert len([name for name in scripts if f"{file}::{name}" in cases]) in (
        len(scripts) // every,
        -(-len(scripts) // every),
    )


def test_the_modules_that_ask_whether_a_string_names_files_are_listed() -> None:
    """A new kind of publisher has to look at each of them."""
    asking = re.compile(r"^\s*from pgrepl\.replication\.conninfo import .*\b(FILES|names_files)\b", re.M)
    modules = {path for path in (ROOT / "pgrepl").rglob("*.py") if asking.search(path.read_text("utf-8"))}
    own = ("replication/subscriber/connection.py", "replication/publisher/files/listing.py")
    found = {str(path.relative_to(ROOT / "pgrepl")) for path in modules} - set(own)
    section = TEXT.split("## Add a publisher\n")[1].split("\n## ")[0]
    assert set(re.findall(r"`([\w/]+\.py)`", section.split("| --- | --- |")[1])) == found
