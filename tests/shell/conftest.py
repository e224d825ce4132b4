"""pgrepl as a program, on a catalog of the test's own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import forked
from tests.harness.programs import environment

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def pgrepl(tmp_path: Path) -> Run:
    """Run it with these arguments; both streams go to one file unless `apart`."""

    def run(
        *arguments: str, script: str | bytes = "", apart: bool = False, **variables: str
    ) -> subprocess.CompletedProcess[bytes]:
        return forked.run(
            ["pgrepl", "-X", *arguments],
            input=script.encode() if isinstance(script, str) else script,
            cwd=tmp_path,
            env=environment(tmp_path, **variables),
            apart=apart,
            new_session=True,  # \prompt and \password must find no terminal
        )

    return run
