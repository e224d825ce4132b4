"""README and docs/ are true: every example prints what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs_runner import play, steps
from tests.harness.forked import put_program

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / "docs" / "readers.md"  # which test_readers.py begins with
DOCUMENTS = [ROOT / "README.md", *(each for each in sorted((ROOT / "docs").rglob("*.md")) if each != OWN)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_examples_print_what_the_document_shows(
    document: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    programs = put_program(tmp_path_factory.mktemp("bin"))
    for step, printed in play(document.read_text("utf-8"), tmp_path, programs):
        shown = [line.rstrip() for line in step.printed.splitlines()]
        assert [line.rstrip() for line in printed.splitlines()] == shown, f"{document.name}:{step.line}: {step.command}"


def test_the_readme_shows_something() -> None:
    assert len(steps((ROOT / "README.md").read_text("utf-8"))) >= 3
