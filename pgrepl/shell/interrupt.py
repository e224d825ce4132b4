"""Ctrl-C: it cancels the running statement or the wait for input, and ends a script."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Literal

from pgrepl import jobs
from pgrepl.errors import PgError
from pgrepl.interrupts import user_request
from pgrepl.query import timeouts
from pgrepl.shell.shell import Shell

_doing: Literal["query", "input", "other"] = "other"


def watch_for_interrupts(shell: Shell) -> None:
    """Handle SIGINT as psql does."""

    def interrupted(_signal: int, frame: FrameType | None) -> None:
        if _doing == "input":
            raise KeyboardInterrupt
        shell.cancelled = True
        if _doing == "query":
            shell.end_bar()
            shell.stderr.write("Cancel request sent\n")
            timeouts.interrupt(user_request(), frame)

    signal.signal(signal.SIGINT, interrupted)


def cancels_query() -> _While:
    """A context in which Ctrl-C makes the statement fail, as a cancel request does."""
    return _While("query")


def stops_waiting() -> _While:
    """A context in which Ctrl-C raises KeyboardInterrupt, to end a wait for input."""
    return _While("input")


class _While:
    __slots__ = ("_before", "_doing")

    def __init__(self, doing: Literal["query", "input"]) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        global _doing
        self._before, _doing = _doing, self._doing

    def __exit__(self, *_: object) -> None:
        global _doing
        if self._doing == "query" and self._before != "query":
            timeouts.stop()  # a pending interrupt must not reach what follows
        _doing = self._before


def cancelled() -> PgError:
    """The error of Ctrl-C while the subscriptions catch up."""
    jobs.cancel()
    return PgError("57014", "canceling statement due to user request")
