"""Spark's jobs in this process, for those who never start Spark: who interrupts a statement, shows how far it is, says
why it failed. Who starts Spark announces it here."""

from __future__ import annotations

from typing import Protocol

from pgrepl.errors import PgError


class Jobs(Protocol):
    """Of a session that is being made, has been made, or could not be made."""

    @property
    def lost(self) -> bool:
        """It could not be made, or its process has ended since."""

    @property
    def is_starting(self) -> bool: ...

    def running_tasks(self) -> tuple[int, int] | None:
        """Of the stages under way how many tasks are done, and how many there are."""

    def pg_error(self, problem: BaseException) -> PgError | None: ...

    def cancel(self) -> bool: ...


_jobs: Jobs | None = None


def announce(jobs: Jobs | None) -> None:
    """Spark is being started, or has been stopped."""
    global _jobs
    _jobs = jobs


def started() -> bool:
    """Whether a session is there or on its way: a statement that could do without Spark need not wait for one."""
    return _jobs is not None and not _jobs.lost


def is_starting() -> bool:
    return _jobs is not None and _jobs.is_starting


def running_tasks() -> tuple[int, int] | None:
    """None: nothing runs, or it is not known."""
    return None if _jobs is None or not started() else _jobs.running_tasks()


def pg_error(problem: BaseException) -> PgError | None:
    """The PgError that this exception means, None if it does not come from Spark."""
    return None if _jobs is None else _jobs.pg_error(problem)


def cancel() -> bool:
    """End the running jobs; for a signal's handler, so it does not wait.

    True: the main thread is in the middle of a call to the JVM, which must not be broken off. It comes back as soon as
    the jobs have ended, and then fails as a cancelled statement does.
    """
    return _jobs is not None and _jobs.cancel()
