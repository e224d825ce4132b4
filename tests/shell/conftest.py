"""pgrepl as a program, on a catalog of the test's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.programs import PATIENCE, environment

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


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
            env=environment(tmp_path, **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if apart else subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
            start_new_session=True,  # \prompt and \password must find no terminal
        )

    return run
