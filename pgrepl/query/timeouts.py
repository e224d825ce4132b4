"""statement_timeout and transaction_timeout of a running statement, and the timeouts of a session that is idle.

In the main thread an alarm interrupts the statement and its Spark jobs, as Ctrl-C does. In other threads the statement
has a deadline, which its checks for interrupts compare (interrupts.py).
"""

from __future__ import annotations

import atexit
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session.context import Block
from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

Due = tuple[float, PgError]  # seconds from now, and the error to raise then

_SHORTEST = 1e-6  # an interval of 0 would turn the alarm off
_IMPORTING = 0.01  # seconds until the alarm rings again if it has rung during an import
_BUSY = 0.05  # seconds until it rings again if the idle session's prompt runs a query
_AGAIN = 1.0  # seconds until it rings again in case the error was swallowed, as Python does in a __del__
_alarm: Callable[[FrameType | None], None] | None = None  # the alarm's action; None: it is off
_handler: Any = None  # the previous handler of SIGALRM


def start(session: Session) -> None:
    """Begin to time a statement."""
    interrupts.begin()
    due = _due(session)
    if due is not None:
        _run_until(time.monotonic() + due[0], due[1])


def stop() -> None:
    """End the timing of a statement, and forget its interrupt."""
    _turn_off()
    interrupts.begin()


def end() -> None:
    """End the timing of a statement that has succeeded. An interrupt that came during an import, or while interrupts
    were held, is left to what sends the rows."""
    _turn_off()
    interrupts.end()


def caught(error: PgError) -> None:
    """Let the statement go on, whose interrupt was caught. A timeout does not come twice."""
    deadline = interrupts.deadline()
    stop()
    if deadline is not None and deadline[1].message != error.message:
        _run_until(*deadline)


@contextmanager
def going_on(deadline: interrupts.Deadline | None) -> Iterator[None]:
    """Set the deadline of a statement again while more of its rows are fetched."""
    if deadline is None:
        yield
        return
    _run_until(*deadline)
    try:
        yield
    except BaseException:
        stop()
        raise
    end()


@contextmanager
def idle(session: Session, since: float, terminate: Callable[[PgError], None]) -> Iterator[None]:
    """Time a session that waits for its client; `terminate` is called after the timeout."""
    due = idle_due(session, since)
    if due is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    seconds, error = due

    def rings(_: object) -> None:
        if session.transaction.in_statement:  # the prompt runs a query
            _turn_on(_BUSY, rings)
        else:
            terminate(error)

    _turn_on(seconds, rings)
    try:
        yield
    finally:
        _turn_off()


def overdue(session: Session, since: float) -> PgError | None:
    """The error that terminates a session that has been idle since then."""
    due = idle_due(session, since)
    return due[1] if due is not None and due[0] <= 0 else None


def _due(session: Session) -> Due | None:
    statement = _milliseconds(session, "statement_timeout")
    transaction = _milliseconds(session, "transaction_timeout")
    dues: list[Due] = []
    if statement and (statement < transaction or not transaction):
        dues.append((statement / 1000, interrupts.statement_timeout()))
    if transaction:
        dues.append(_transaction_due(session, transaction))
    return min(dues, key=lambda due: due[0], default=None)


def _transaction_due(session: Session, timeout: int) -> Due:
    began = session.transaction.started_at
    passed = 0.0
    if session.in_block and began is not None:
        passed = (datetime.now(timezone.utc) - began).total_seconds()
    return timeout / 1000 - passed, _terminating("25P04", "transaction timeout")


def idle_due(session: Session, since: float) -> Due | None:
    """The time at which a session that has been idle since then is to be terminated."""
    passed = time.monotonic() - since
    dues: list[Due] = []
    if session.transaction.block in (Block.EXPLICIT, Block.ABORTED):
        transaction = _milliseconds(session, "transaction_timeout")
        waiting = _milliseconds(session, "idle_in_transaction_session_timeout")
        if waiting and (waiting < transaction or not transaction):
            dues.append((waiting / 1000 - passed, _terminating("25P03", "idle-in-transaction timeout")))
        if transaction:
            dues.append(_transaction_due(session, transaction))
    else:
        waiting = _milliseconds(session, "idle_session_timeout")
        if waiting:
            dues.append((waiting / 1000 - passed, _terminating("57P05", "idle-session timeout")))
    return min(dues, key=lambda due: due[0], default=None)


def _milliseconds(session: Session, name: str) -> int:
    return int(session.settings.value(name))


def _terminating(sqlstate: str, why: str) -> PgError:
    return PgError(sqlstate, f"terminating connection due to {why}", severity="FATAL")


# --- the alarm --------------------------------------------------------------------------------------------------------


def _run_until(moment: float, error: PgError) -> None:
    interrupts.set_deadline(moment, error)
    if threading.current_thread() is threading.main_thread():
        _turn_on(moment - time.monotonic(), lambda frame: interrupt(error, frame))


def interrupt(error: PgError, frame: FrameType | None) -> None:
    """End the running statement and its Spark jobs with an error; called in a signal handler."""
    interrupts.note(error)
    if interrupts.cancel():
        return  # the statement fails when Spark's answer has come
    importing = _is_importing(frame)
    _turn_on(_IMPORTING if importing else _AGAIN, lambda frame: interrupt(error, frame))
    if not importing:
        interrupts.interrupt(error)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _turn_on(seconds: float, action: Callable[[FrameType | None], None]) -> None:
    global _alarm, _handler
    if _alarm is None:
        _handler = signal.signal(signal.SIGALRM, _rings)
        _at_exit()
    _alarm = action
    signal.setitimer(signal.ITIMER_REAL, max(seconds, _SHORTEST))


@cache
def _at_exit() -> None:
    """A statement that nobody ended must not kill the program that ends: Python takes its handlers away first."""
    atexit.register(_turn_off)


def _turn_off() -> None:
    global _alarm
    if _alarm is not None and threading.current_thread() is threading.main_thread():
        _alarm = None
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, _handler)


def _rings(_signal: int, frame: FrameType | None) -> None:
    if _alarm is not None:
        _alarm(frame)
