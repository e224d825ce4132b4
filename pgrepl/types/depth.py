"""The nesting limit of expressions, JSON and queries: the process's stack, as in PostgreSQL.

Python by itself stops at a thousand calls, which a sum of three hundred terms reaches.
"""

from __future__ import annotations

import sys

from pgrepl.errors import PgError

_BYTES = 512 if sys.version_info >= (3, 11) else 1024  # of stack that a call may take; most take less than half of it
_USUAL_STACK = 8 << 20
_MOST = 16_000


def use_the_stack() -> None:
    """Let calls nest as deep as the stack allows."""
    try:
        import resource

        stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
        unlimited = stack == resource.RLIM_INFINITY
    except ImportError:  # no such limit is known
        return
    calls = min((_USUAL_STACK if unlimited else stack) // _BYTES, _MOST)
    if calls > sys.getrecursionlimit():
        sys.setrecursionlimit(calls)


def stack_depth_exceeded() -> PgError:
    return PgError(
        "54001",
        "stack depth limit exceeded",
        hint='Increase the configuration parameter "max_stack_depth" (currently 2048kB), '
        "after ensuring the platform's stack depth limit is adequate.",
    )
