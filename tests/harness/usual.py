"""Which tests the usual run plays, and which are left to `-m slow`."""

from __future__ import annotations

import functools
from pathlib import Path

from tests.harness import forked
from tests.harness.programs import ROOT


@functools.cache
def usual_run(*files: str | Path) -> list[str]:
    """The cases of these files that `pytest` without options collects, as FILE::TEST[CASE]."""
    command = ["pytest", "--collect-only", "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider"]
    done = forked.run([*command, *map(str, files)], cwd=ROOT)
    printed = done.stdout.decode()
    assert done.returncode == 0, printed
    return [line for line in printed.splitlines() if "::" in line]
