"""The one SparkSession of the process: its start, its end, its jobs, and their cancellation.

Nothing here imports pyspark until a session is needed. The session is always made in a thread of its own: so it can
start while a person types, waiting for it can be interrupted, and pyspark does not change the handler of SIGINT.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.engine.spark_errors import SparkFacts, ended, from_spark, not_started
from pgrepl.engine.spark_options import DEFAULT_MASTER, QUERY_PLANNED, SparkOptions, read_options
from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import JoinedThread
from pgrepl.ground.threads import ThreadPool
from pgrepl.internals import pyspark as internals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgrepl.engine.spark_shared import HostChannel
    from pgrepl.engine.spark_start_plain import Driver

_options: SparkOptions | None = None
_for_tasks = False
_way: HostChannel | None = None  # to the process that has the JVM
_lock = threading.Lock()
_start: _Start | None = None
_here = threading.local()  # tag, description: of this thread's jobs; tagged, marked, described: what the session knows


def configure(options: SparkOptions) -> None:
    """Set the options of the next session, instead of those of the environment."""
    global _options
    _options = options


def expect_tasks() -> None:
    """The next session is for one command, whose tasks are Python's."""
    global _for_tasks
    _for_tasks = True


def options() -> SparkOptions:
    chosen = _options if _options is not None else read_options(os.environ)
    return replace(chosen, for_tasks=True) if _for_tasks else chosen


def share() -> HostChannel | None:
    """Have this process and those that it forks use one Spark together; None: they cannot. The way is for the process
    that is to be the host."""
    global _way
    wanted = options()
    if wanted.remote is None and internals.is_tried():
        from pgrepl.engine.spark_shared import HostChannel

        _way = channel = HostChannel(wanted)
        interrupts.announce_shared(lambda: channel.runs)
    return _way


def facts() -> SparkFacts | None:
    """What the Spark does that a server's processes share; None: that cannot be told."""
    if options().remote is not None:
        return SparkFacts(is_remote=True)
    return None if _way is None else _way.look()


def is_elsewhere() -> bool:
    """Whether a session is, or would be, on other machines than this one."""
    if isinstance(_start, _Given):
        return _start.driver is None or not (_start.wait().sparkContext.master or "").startswith("local")
    wanted = options()
    return wanted.remote is not None or not (wanted.master or DEFAULT_MASTER).startswith("local")


class _Start:
    """The start of a session, and the session or the failure."""

    def __init__(self, wanted: SparkOptions) -> None:
        self.wanted = wanted
        self.way = _way if _way is not None and _way.wanted == wanted else None
        self.archive = ""
        self.has_planned = False
        self.session: SparkSession | None = None
        self.driver: Driver | None = None
        self.failure: BaseException | None = None
        self._thread = JoinedThread(self._run, "spark-start")

    def begin(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            if self.wanted.remote is not None:
                from pgrepl.engine.spark_start_plain import connect

                self.session = connect(self.wanted)
            elif self.way is not None:
                from pgrepl.engine.spark_shared import join

                self.driver, self.session, self.archive = join(self.way)
            elif internals.is_tried():
                from pgrepl.engine.spark_start import start

                self.driver, self.session = start(self.wanted)
            else:
                from pgrepl.engine.spark_start_plain import start_plain

                self.driver, self.session = start_plain(self.wanted)
        except BaseException as problem:  # `wait` raises it
            self.failure = problem

    def wait(self) -> SparkSession:
        self._thread.join()
        if self.failure is not None:
            error = not_started(self.wanted, self.failure)
            raise self.failure if error is None else error from self.failure
        assert self.session is not None
        return self.session

    @property
    def lost(self) -> bool:
        """Has the start failed, or the JVM ended since?"""
        if self._thread.is_alive():
            return False
        return self.failure is not None or (self.driver is not None and self.driver.ended)

    @property
    def is_starting(self) -> bool:
        return self.session is None and not self.lost

    def running_tasks(self) -> tuple[int, int] | None:
        """The finished and all tasks of active stages; None: none, or not known, as of a Spark Connect server."""
        if self.session is None or self.driver is None:
            return None
        done = tasks = 0
        with suppress(Exception):  # the JVM may end at any moment
            tracker = self.session.sparkContext.statusTracker()
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    done += info.numCompletedTasks
                    tasks += info.numTasks
        return (done, tasks) if tasks else None

    def pg_error(self, problem: BaseException) -> PgError | None:
        error, driver = from_spark(problem), self.driver
        if driver is None:
            return error
        if error is None and isinstance(problem, ConnectionError):  # the JVM does not answer
            driver.kill()
            return ended(out_of_memory=driver.out_of_memory())
        if error is not None and error.sqlstate in ("58000", "XX000"):
            if driver.ends_soon(1):
                return ended(out_of_memory=driver.out_of_memory())
            if self.session is not None and internals.is_stopped(self.session):  # the JVM is good for nothing
                driver.kill()
        return error

    def cancel(self) -> bool:
        if self.session is None:
            return False
        if self.driver is not None:
            return self.driver.cancel()
        threading.Thread(target=_interrupt_remote, args=(self.session,), name="spark-cancel", daemon=True).start()
        return False


class _Given(_Start):
    """A session that the program has made, whose JVM is not pgrepl's to end."""

    def __init__(self, given: SparkSession) -> None:
        from pgrepl.engine.spark_start_plain import beside

        self.given = given
        self.wanted = SparkOptions()
        self.way, self.archive, self.has_planned = None, "", True
        self.driver, self.session = beside(given)
        self.failure = None

    def wait(self) -> SparkSession:
        assert self.session is not None
        return self.session

    @property
    def lost(self) -> bool:
        return self.driver is not None and self.driver.ended


def use(given: SparkSession) -> None:
    """Use the Spark of a session that the program has made, from now on."""
    global _start
    with _lock:
        if isinstance(_start, _Given) and _start.given is given:
            return
        if _start is not None and not _start.lost:
            raise PgError("55000", "pgrepl has a Spark session of its own already; give it the session before")
        _start = _Given(given)
        interrupts.announce(_start)


def _begin() -> _Start:
    """Begin to make a session; the caller holds the lock."""
    global _start
    start = _Start(options())
    interrupts.announce(start)
    start.begin()
    _start = start
    return start


def start_in_background() -> None:
    """Begin to make the session; returns at once, and leaves errors to `session`."""
    with _lock:
        if _start is None:
            with suppress(PgError):  # session() raises it
                _begin()


def session() -> SparkSession:
    """The session, made now if there is none yet; PgError if it cannot be made."""
    with _lock:
        start = _start
        if start is not None and start.lost:
            if start.driver is not None and not isinstance(start, _Given):
                start.driver.forget()
            start = None
        if start is None:
            start = _begin()
    opened = start.wait()
    _tag_jobs(opened)
    _describe_jobs(opened)
    return opened


def planned_query() -> None:
    """Note that the JVM has planned a query, for its archive of classes."""
    start = _start
    if start is not None and not start.has_planned and start.driver is not None and start.session is not None:
        start.has_planned = True
        with suppress(Exception):  # the JVM may end at any moment
            internals.make_file_of_property(start.session, QUERY_PLANNED)


def stop() -> None:
    """End the session, if there is one, and its JVM."""
    global _start
    with _lock:
        start, _start = _start, None
        interrupts.announce(None)
    if start is None or isinstance(start, _Given):
        return
    with suppress(Exception):  # it ends in any state
        opened = start.wait()
        if start.way is None:
            opened.stop()
    if start.driver is not None:
        start.driver.end()


# --- errors and interrupts -------------------------------------------------------------------------------------------


def pg_error(problem: BaseException) -> PgError | None:
    """The PgError for an exception of Spark; None: it is not Spark's."""
    return from_spark(problem) if _start is None else _start.pg_error(problem)


@contextmanager
def pg_errors() -> Iterator[None]:
    """Raise Spark's errors in here as PgErrors, and others unchanged."""
    try:
        yield
    except PgError:
        raise
    except Exception as problem:
        error = pg_error(problem)
        if error is None:
            raise
        raise error from problem


def _interrupt_remote(session: SparkSession) -> None:
    with suppress(Exception):  # the server may have ended: then nothing runs
        session.interruptAll()


# --- tags and descriptions of jobs -----------------------------------------------------------------------------------


def tag() -> str | None:
    """The tag of this thread's jobs, if it has one."""
    tag_here: str | None = getattr(_here, "tag", None)
    return tag_here


def tag_jobs(name: str | None) -> None:
    """Tag the jobs of this thread, so that they can be cancelled alone."""
    _here.tag = name
    start = _start
    if start is not None and start.session is not None:
        _tag_jobs(start.session)


def _tag_jobs(opened: SparkSession) -> None:
    name = tag()
    if name is not None and getattr(_here, "tagged", None) is not opened:
        if is_remote():
            opened.addTag(name)
        else:  # a tag of the session itself can be cancelled only by the thread that has it
            opened.sparkContext.addJobTag(_ours(name))
        _here.tagged = opened
    start = _start
    if start is not None and start.driver is not None and getattr(_here, "marked", None) is not opened:
        start.driver.mark(opened)
        _here.marked = opened


def _ours(name: str) -> str:
    """A tag of this process, which another process that uses the same JVM has not."""
    return f"{name}-{os.getpid()}"


@contextmanager
def described(text: str) -> Iterator[None]:
    """Describe the jobs that this thread begins in here in Spark's UI, behind the description around; cancelled ones
    end at once."""
    before = getattr(_here, "description", None)
    _here.description = text if before is None else f"{before}: {text}"
    try:
        yield
    finally:
        _here.description = before


def _describe_jobs(opened: SparkSession) -> None:
    """Tell the session this thread's description; a Spark Connect server describes jobs itself."""
    text = getattr(_here, "description", None)
    if getattr(_here, "described", (None, None)) != (opened, text) and not is_remote():
        with suppress(Exception):  # the JVM has ended: its next call raises that
            opened.sparkContext.setLocalProperty("spark.job.description", text or "")
            opened.sparkContext.setInterruptOnCancel(True)
        _here.described = opened, text


def threads(count: int) -> ThreadPool:
    """Threads whose jobs have this thread's tag."""
    return ThreadPool(count, "pgrepl-spark", tag_jobs, (tag(),))


def cancel_tagged(name: str) -> None:
    """Cancel the running jobs with a tag; jobs that begin later are not cancelled."""
    start = _start
    if start is not None and start.session is not None:
        with suppress(Exception):  # the JVM or the server may have ended: then nothing runs
            if is_remote():
                start.session.interruptTag(name)
            else:
                start.session.sparkContext.cancelJobsWithTag(_ours(name))


def archive() -> str:
    """The package for executors that is the same for all processes that use the same JVM, which takes no other; empty:
    there is no other process, or the executors need none."""
    return "" if _start is None else _start.archive


def is_remote() -> bool:
    """Is the session behind a Spark Connect server?"""
    return _start is not None and _start.driver is None
