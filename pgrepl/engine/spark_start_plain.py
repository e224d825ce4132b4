"""Sessions in the documented way: by SparkSession.builder for versions of pyspark not in `TRIED`
(internals/pyspark.py), behind Spark Connect, beside a session that the program has made; and the end of a JVM and of
its jobs.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Protocol

from pgrepl.engine.spark_options import DEFAULT_MASTER, SESSION_SETTINGS, defaults
from pgrepl.ground.errors import PgError
from pgrepl.internals import pyspark as internals
from pgrepl.internals.py4j import call_under_way
from pgrepl.internals.pyspark import be_quiet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgrepl.engine.spark_options import SparkOptions
    from pgrepl.internals.py4j import Gateway

_OUT_OF_MEMORY_EXIT = 52  # SparkExitCode.OOM


class Driver(Protocol):
    @property
    def ended(self) -> bool: ...

    def ends_soon(self, seconds: float) -> bool:
        """Has the JVM ended, or does it within these seconds? A call fails before its process has ended."""

    def kill(self) -> None:
        """End a JVM that does not answer."""

    def out_of_memory(self) -> bool:
        """Has the JVM ended because its heap was full?"""

    def end(self) -> None:
        """Have the JVM end by itself. Returns at once."""

    def forget(self) -> None:
        """Let pyspark make another session after this JVM."""

    def cancel(self) -> bool:
        """Cancel the running jobs, in a signal's handler. Whether the main thread is in a call to the JVM."""

    def mark(self, session: SparkSession) -> None:
        """Mark the jobs of this thread as ours, where others have jobs, too."""


class OwnDriver:
    """A JVM that spark_start.py has started, and the gateway to it."""

    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes] | None, folder: str | None = None) -> None:
        """`folder` is removed when the JVM is no longer used."""
        self.process = process
        self._folder = folder
        self.log = log
        self.gateway: Gateway | None = None

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def ends_soon(self, seconds: float) -> bool:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.ended

    def kill(self) -> None:
        if not self.ends_soon(5):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def last_words(self) -> str:
        """The end of the JVM's log, if that was kept."""
        if self.log is None:
            return ""
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - 20_000))
        return self.log.read().decode("utf-8", "replace")

    def out_of_memory(self) -> bool:
        return self.ended and (
            self.process.returncode == _OUT_OF_MEMORY_EXIT or "java.lang.OutOfMemoryError" in self.last_words()
        )

    def end(self) -> None:
        self.hang_up()
        self.forget()

    def hang_up(self) -> None:
        """Close the pipe: the JVM cleans up and ends by itself. Returns at once."""
        if self.gateway is not None:
            self.gateway.disconnect()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.remove_folder()

    def forget(self) -> None:
        self.remove_folder()
        internals.forget_jvm()

    def remove_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def cancel(self) -> bool:
        return self.gateway is not None and self.gateway.cancel()

    def mark(self, session: SparkSession) -> None:
        """All jobs are ours."""


def connect(wanted: SparkOptions) -> SparkSession:
    """A new session at the server; PgError if the server cannot be reached."""
    try:
        import grpc  # noqa: F401
        import pandas  # noqa: F401
    except ImportError as problem:
        raise PgError(
            "58000",
            f"could not connect to Spark: Python has no module {problem.name}",
            hint="Install what Spark Connect needs with pip install 'pyspark[connect]'.",
        ) from problem
    from pyspark.sql import SparkSession

    be_quiet()
    assert wanted.remote is not None
    session: SparkSession = SparkSession.builder.remote(wanted.remote).appName("pgrepl").create()
    for name, value in {**dict(wanted.conf), **SESSION_SETTINGS}.items():
        session.conf.set(name, value)
    return session


_PAUSE = 0.1  # seconds between two attempts to cancel: a call may be about to start a job
_IDLE = 3  # pauses without a call, after which the attempts end


def start_plain(wanted: SparkOptions) -> tuple[PlainDriver, SparkSession]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(wanted.master or DEFAULT_MASTER)
    for name, value in {**defaults(wanted.master or DEFAULT_MASTER), **dict(wanted.conf)}.items():
        builder = builder.config(name, value)
    artifacts = Path("artifacts").absolute()
    is_ours = not artifacts.exists()
    try:
        session = builder.getOrCreate()
    except Exception as problem:
        raise PgError("58000", f"could not start Spark: {problem}") from problem
    with suppress(Exception):  # it only concerns what Spark prints
        internals.be_quiet()
    return PlainDriver(session, artifacts if is_ours else None), session


class PlainDriver:
    """A JVM that pyspark has started; its state is known by its answers only. `tag`: that of the jobs that are
    cancelled, where others run jobs, too."""

    def __init__(self, session: SparkSession, artifacts: Path | None, tag: str | None = None) -> None:
        self._session = session
        self._tag = tag
        self._artifacts = artifacts
        self._main = threading.main_thread().ident or 0

    @property
    def ended(self) -> bool:
        try:
            self._session.sparkContext.statusTracker().getActiveStageIds()
        except Exception:
            return True
        return False

    def ends_soon(self, seconds: float) -> bool:
        return self.ended

    def kill(self) -> None:
        """Do nothing: the JVM ends with this process."""

    def out_of_memory(self) -> bool:
        return False

    def end(self) -> None:
        """Remove the empty folders that Spark 4.0 has made in the user's folder; the session has been stopped."""
        if self._artifacts is not None:
            with suppress(OSError):  # it does not exist, or is not empty
                for folder in self._artifacts.iterdir():
                    folder.rmdir()
                self._artifacts.rmdir()

    def forget(self) -> None:
        with suppress(Exception):  # this version may differ
            internals.forget_jvm()

    def mark(self, session: SparkSession) -> None:
        if self._tag is not None:
            session.sparkContext.addJobTag(self._tag)

    def cancel(self) -> bool:
        call = call_under_way(sys._getframe())
        threading.Thread(target=self._cancel_jobs, args=(call,), name="spark-cancel", daemon=True).start()
        return call is not None

    def _cancel_jobs(self, call: FrameType | None) -> None:
        """Cancel jobs until one has been cancelled and the main thread's call has returned, or that thread has made no
        call for a while: a call may be about to start a job, and so may the next one."""
        cancelled, idle = False, 0
        while idle < _IDLE:
            with suppress(Exception):  # the JVM has ended: then no job runs
                context = self._session.sparkContext
                if context.statusTracker().getActiveJobsIds():
                    if self._tag is None:
                        context.cancelAllJobs()
                    else:
                        context.cancelJobsWithTag(self._tag)
                    cancelled = True
            time.sleep(_PAUSE)
            now = call_under_way(sys._current_frames().get(self._main))
            if cancelled and now is not call:
                return
            call = call if cancelled else now
            idle = idle + 1 if now is None else 0


# --- spark existing ---------------------------------------------------------------------------------------------------


_TAG = "pgrepl"  # the tag of pgrepl's jobs among those of the program


def beside(given: SparkSession) -> tuple[Driver | None, SparkSession]:
    """The session, and its driver; None: it is behind a Spark Connect server."""
    from pyspark.sql import SparkSession as Classic

    session = given.newSession()
    for name, value in SESSION_SETTINGS.items():
        with suppress(Exception):  # this version does not know it
            session.conf.set(name, value)
    if not isinstance(given, Classic) or not _has_context(given):
        return None, session
    return PlainDriver(session, None, _TAG), session


def _has_context(session: SparkSession) -> bool:
    try:
        return session.sparkContext is not None
    except Exception:  # a session of Spark Connect has none
        return False
