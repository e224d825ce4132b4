"""The named steps of a write: places where tests kill the process to see that a table is as before or as after.

`PGREPL_KILL_AT=commit.stats` kills at that step's first time, `commit.stats:3` at its third. Unset, a step costs the
call.
"""

from __future__ import annotations

import os
import signal

_wanted, _, _count = os.environ.get("PGREPL_KILL_AT", "").partition(":")
_left = int(_count) if _count.isdigit() else 1


def step(name: str) -> None:
    """The write has come to this step."""
    if _wanted and name == _wanted:
        _die()


def _die() -> None:
    global _left
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
