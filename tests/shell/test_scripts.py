"""Whole scripts, compared with what the real psql 17 printed for them (record.py), both streams in one file."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from tests.shell.conftest import Run

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.sql"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_prints_what_psql_17_prints(script: Path, pgrepl: Run) -> None:
    pgrepl("-q", "-c", "CREATE DATABASE shelltest")
    done = pgrepl("-a", "-d", "shelltest", script=script.read_bytes(), EDITOR="true")
    wanted = script.with_suffix(".out").read_text("utf-8", "surrogateescape")
    printed = done.stdout.decode("utf-8", "surrogateescape")
    difference = difflib.unified_diff(wanted.splitlines(), printed.splitlines(), "psql", "pgrepl", lineterm="", n=2)
    assert "\n".join(difference) == ""
    assert printed == wanted
