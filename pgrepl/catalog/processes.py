"""Processes of this machine that have left their number somewhere."""

from __future__ import annotations

import os


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True
