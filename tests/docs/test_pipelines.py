"""The pipelines of docs/spark.md, run by Spark's own program."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark
import pytest

from tests.docs.test_documents import ROOT
from tests.docs_runner import play
from tests.harness.forked import put_program

PIPELINES = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"


@pytest.mark.slow
@pytest.mark.parametrize("words", [["pipelines"], ["pipelines", "auto cdc"]], ids=lambda words: words[-1])
def test_a_pipeline_is_fed_by_changes(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = tuple(map(int, pyspark.__version__.split(".")[:2]))
    if release < ((4, 2) if "auto cdc" in words else (4, 1)):
        pytest.skip("this Spark has none")
    folder, programs = tmp_path / "work", put_program(tmp_path)
    folder.mkdir()
    program = programs / "spark-pipelines"
    program.write_text(f'#!/bin/sh\nexec "{PIPELINES}" "$@" --conf spark.ui.enabled=false\n')
    program.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    text = (ROOT / "docs" / "spark.md").read_text("utf-8")
    for word in words:
        for step, printed in play(text, folder, programs, word):
            assert printed == step.printed, f"spark.md:{step.line}: {step.command}"
