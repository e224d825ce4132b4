"""The start of Spark by SparkSession.builder, for versions of pyspark not in `TRIED` (internals/pyspark.py)."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.internals import pyspark as internals
from pgrepl.internals.py4j import call_under_way
from pgrepl.lake.spark_options import DEFAULT_MASTER, defaults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgrepl.lake.spark_options import SparkOptions

_PAUSE = 0.1  # seconds between two attempts to cancel: a call may be about to start a job
_IDLE = 3  # pauses without a call, after which the attempts end


def start_plain(wanted: SparkOptions) -> tuple[PlainDriver, SparkSession]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(wanted.master or DEFAULT_MASTER)
    for name, value in {**defaults(wanted.master or DEFAULT_MASTER), **dict(wanted.conf)}.items():
        builder = builder.config(name, value)
    artifacts = Path("artifacts").absolute()
    made = not artifacts.exists()
    try:
        session = builder.getOrCreate()
    except Exception as problem:
        raise PgError("58000", f"could not start Spark: {problem}") from problem
    with suppress(Exception):  # it only concerns what Spark prints
        internals.be_quiet()
    return PlainDriver(session, artifacts if made else None), session


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
                for each in self._artifacts.iterdir():
                    each.rmdir()
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
