"""Spark's jobs, for code that does not import Spark: interrupts, progress bars, error messages. The code that starts
Spark announces it here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pgrepl.errors import PgError


class Jobs(Protocol):
    """The jobs of a Spark session, which may still be starting, or have failed to start."""

    @property
    def lost(self) -> bool:
        """Has the start failed, or has the session's process ended?"""

    @property
    def is_starting(self) -> bool: ...

    def running_tasks(self) -> tuple[int, int] | None:
        """The number of finished tasks and of all tasks of the running stages."""

    def pg_error(self, problem: BaseException) -> PgError | None: ...

    def cancel(self) -> bool: ...


_jobs: Jobs | None = None
_shared: Callable[[], bool] | None = None


def announce(jobs: Jobs | None) -> None:
    """Set the session that is being started; None: it was stopped."""
    global _jobs
    _jobs = jobs


def announce_shared(runs: Callable[[], bool]) -> None:
    """Announce a Spark that this process shares with others; `runs` tells whether one has started it."""
    global _shared
    _shared = runs


def is_shared() -> bool:
    """Does this process share Spark with others, so that it can leave it and come back?"""
    return _shared is not None


def started_anywhere() -> bool:
    """Is there a Spark, running or starting, here or shared with others?"""
    return started() or (_shared is not None and _shared())


def started() -> bool:
    """Is there a Spark session, running or starting?"""
    return _jobs is not None and not _jobs.lost


def is_starting() -> bool:
    return _jobs is not None and _jobs.is_starting


def running_tasks() -> tuple[int, int] | None:
    """As `Jobs.running_tasks`; None: no job runs, or the numbers are not known."""
    return None if _jobs is None or not started() else _jobs.running_tasks()


def pg_error(problem: BaseException) -> PgError | None:
    """The PgError that this exception means, None if it does not come from Spark."""
    return None if _jobs is None else _jobs.pg_error(problem)


def cancel() -> bool:
    """End the running jobs; for a signal's handler, so it does not wait.

    True: the main thread is in a call to the JVM, which must not be broken off. The call returns as soon as the jobs
    have ended, and then fails as a cancelled statement does.
    """
    return _jobs is not None and _jobs.cancel()
