"""Interrupts, which end a statement early: Ctrl-C and the timeouts (ProcessInterrupts in postgres.c).

A signal reaches the main thread only, and raises its error there at once. So most code needs nothing of this module,
except

* code that must not be broken off, as a commit, stands in `with hold_interrupts():`;
* code that waits calls `pause(seconds)`, which ends at the statement's deadline in other threads, too;
* a long loop that could run in another thread, or that catches errors, calls `check_for_interrupts()`.

An interrupt stays until its statement has ended, so code that swallows the error is stopped at its next check. Who
starts Spark announces here how its jobs are cancelled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from pgrepl.ground.errors import PgError

Deadline: TypeAlias = "tuple[float, PgError]"  # seconds of time.monotonic(), and the error that is raised then

_SLICE = 0.1  # seconds between two checks of a thread that waits


class _State(threading.local):
    """The interrupts of one thread."""

    held = 0  # the number of hold_interrupts() blocks around the running code
    interrupt: PgError | None = None  # the error that is to end its statement
    deadline: Deadline | None = None  # of its statement
    withdrawn: PgError | None = None  # an error that does not end its statement, although its signal may come again
    is_late: bool = False  # a check has raised the deadline's error, and the alarm of the same moment is yet to ring


_state = _State()


def user_request() -> PgError:
    return PgError("57014", "canceling statement due to user request")


def statement_timeout() -> PgError:
    return PgError("57014", "canceling statement due to statement timeout")


def begin() -> None:
    """Forget the interrupt and the deadline of an earlier statement."""
    state = _state
    state.interrupt = state.deadline = state.withdrawn = None
    state.is_late = False


def end() -> None:
    """Forget the deadline of a statement that has succeeded, and keep an interrupt that nothing has raised."""
    state = _state
    state.deadline = None
    state.is_late = False


def set_deadline(moment: float, error: PgError) -> None:
    """Have the thread's statement fail with `error` at that moment, if it still runs."""
    _state.deadline = moment, error


def deadline() -> Deadline | None:
    return _state.deadline


def note(error: PgError) -> None:
    """Have the thread's statement fail with this error at its next check; the first such error counts."""
    if _state.interrupt is None and error is not _state.withdrawn:
        _state.interrupt = error


def interrupt(error: PgError) -> None:
    """For a signal's handler: raise the error now, or at the next check if interrupts are held. One that a check has
    just raised is on its way up, where another would take the place of it and of its CONTEXT."""
    state = _state
    note(error)
    if state.is_late and state.deadline is not None and error is state.deadline[1]:
        state.is_late = False
    elif not state.held and state.interrupt is not None:
        raise _copy(state.interrupt)


def withdraw() -> PgError | None:
    """Take back the noted interrupt, so that it does not end the statement; None: there is none."""
    state = _state
    if state.interrupt is not None:
        state.withdrawn, state.interrupt = state.interrupt, None
        return state.withdrawn
    return None


def restore(error: PgError) -> None:
    """Have a withdrawn interrupt end the statement after all."""
    _state.withdrawn = None
    note(error)


def met_while(context: str) -> None:
    """Note what the interrupt has ended; an error that tells the interrupt again says so, too."""
    if _state.interrupt is not None and _state.interrupt.report.context is None:
        _state.interrupt = _copy(_state.interrupt).with_context(context)


def interrupted() -> PgError | None:
    """The error that the thread's statement is to end with, if it is to end."""
    state = _state
    if state.interrupt is None and state.deadline is not None and time.monotonic() >= state.deadline[0]:
        state.interrupt = state.deadline[1]
        state.is_late = True
    return None if state.interrupt is None else _copy(state.interrupt)


def check_for_interrupts() -> None:
    """Raise the error that is to end the thread's statement, if there is one (CHECK_FOR_INTERRUPTS)."""
    state = _state
    if (state.interrupt is not None or state.deadline is not None) and not state.held:
        error = interrupted()
        if error is not None:
            raise error


def pause(seconds: float) -> None:
    """Wait so long, unless the statement is interrupted."""
    end = time.monotonic() + seconds
    while True:
        check_for_interrupts()
        left = end - time.monotonic()
        if left <= 0:
            return
        if _state.deadline is not None:
            left = min(left, max(_state.deadline[0] - time.monotonic(), 0.001))
        time.sleep(min(left, _SLICE))


class JoinedThread(threading.Thread):
    """A daemon thread that another one waits for. An interrupt in `threading.Thread.join` marks the thread as ended
    while it still runs (before Python 3.13)."""

    def __init__(self, target: Callable[[], object], name: str) -> None:
        super().__init__(target=target, name=name, daemon=True)
        self._over = threading.Event()

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._over.set()

    def join(self, timeout: float | None = None) -> None:
        self._over.wait(timeout)

    def is_alive(self) -> bool:
        return self.ident is not None and not self._over.is_set()


class hold_interrupts:
    """A block without interrupts. One that arrives meanwhile is raised by the next check after the block."""

    __slots__ = ()

    def __enter__(self) -> None:
        _state.held += 1

    def __exit__(self, *_: object) -> Literal[False]:
        _state.held -= 1
        return False


def _copy(error: PgError) -> PgError:
    """A copy of the error for each raise, because callers add positions and contexts to it."""
    report = error.report
    return PgError(
        report.sqlstate, report.message, detail=report.detail, hint=report.hint, context=report.context,
        severity=report.severity,
    )  # fmt: skip


# --- jobs -------------------------------------------------------------------------------------------------------------


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
