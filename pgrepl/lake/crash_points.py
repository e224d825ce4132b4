"""Crash points: named places in a write where tests kill the process, to see that a table is as before or as after.

`PGREPL_KILL_AT=commit.statistics` kills when that point is reached first, `commit.statistics:3` when it is reached for
the third time. Unset, a crash point costs the call.
"""

from __future__ import annotations

import os
import signal

_wanted, _, _count = os.environ.get("PGREPL_KILL_AT", "").partition(":")
_left = int(_count) if _count.isdigit() else 1


def crash_point(name: str) -> None:
    """The write has reached this point."""
    if _wanted and name == _wanted:
        _die()


def _die() -> None:
    global _left
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
