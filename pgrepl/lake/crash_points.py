"""Crash points: named places in a write where tests kill the process, to check that a write is done as a whole or not.

`PGREPL_KILL_AT=commit.statistics` kills when that point is reached first, `commit.statistics:3` when it is reached for
the third time.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

_reached: Counter[str] = Counter()


def crash_point(name: str) -> None:
    """Kill the process if PGREPL_KILL_AT names this point."""
    wanted, _, count = os.environ.get("PGREPL_KILL_AT", "").partition(":")
    if name == wanted:
        _reached[name] += 1
        if _reached[name] == int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)
