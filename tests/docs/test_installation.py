"""Nobody is sent to a package index for pgrepl, which none has, and what needs an extra names it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAYS = ("README.md", "CONTRIBUTING.md", "docs/*.md", "examples/**/*", "pgrepl/**/*.py")
FROM_AN_INDEX = re.compile(r"pip install (?!.*--find-links)[^`\n]*\bpgrepl\b(?!/)[^`\n]*")


def test_pgrepl_is_installed_from_a_checkout_or_a_wheel() -> None:
    files = [path for pattern in SAYS for path in ROOT.glob(pattern) if path.is_file() and path.suffix != ".pyc"]
    found = {path.name: FROM_AN_INDEX.findall(path.read_text("utf-8", "replace")) for path in files}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert FROM_AN_INDEX.search("`pip install 'pgrepl[postgres]'`") and FROM_AN_INDEX.search("pip install -q pgrepl")


def test_what_connects_names_its_extra() -> None:
    section = (ROOT / "docs" / "server.md").read_text("utf-8").split("## Connect\n")[1].split("\n## ")[0]
    before, program = section.split("```console", 1)
    assert "import psycopg" in program and "pip install '.[postgres]'" in before
