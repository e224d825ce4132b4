"""Ctrl-C: it cancels the statement that runs, or the wait for input; a script it ends."""

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
    """From now on SIGINT does what it does in psql."""

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
    """While this runs Ctrl-C makes the statement fail, as a cancel request does."""
    return _While("query")


def stops_waiting() -> _While:
    """While this waits for input Ctrl-C raises KeyboardInterrupt."""
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
            timeouts.stop()  # what has interrupted it is no matter of what follows
        _doing = self._before


def cancelled() -> PgError:
    """Ctrl-C while the subscriptions catch up."""
    jobs.cancel()
    return PgError("57014", "canceling statement due to user request")
