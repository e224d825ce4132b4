"""The JVM of a local session: its end, and the cancellation of its jobs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Protocol

from pgrepl.internals import pyspark as internals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
