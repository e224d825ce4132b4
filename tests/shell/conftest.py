"""pgrepl as a program, on a catalog of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "PSQL"))}
    kept.pop("COLUMNS", None)
    return {**kept, "HOME": str(folder), "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", "TZ": "UTC"}


@pytest.fixture
def pgrepl(tmp_path: Path) -> Run:
    """Run it with these arguments; both streams go to one file unless `apart`."""

    def run(
        *arguments: str, script: str | bytes = "", apart: bool = False, **variables: str
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "pgrepl", "-X", *arguments],
            input=script.encode() if isinstance(script, str) else script,
            cwd=tmp_path,
            env={**environment(tmp_path), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if apart else subprocess.STDOUT,
            timeout=120,
            check=False,
            start_new_session=True,  # \prompt and \password must find no terminal
        )

    return run
