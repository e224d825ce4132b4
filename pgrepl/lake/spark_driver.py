"""The JVM of a local session: how it ends, and how what it does is cancelled."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Protocol

from pgrepl.internals import pyspark as internals

if TYPE_CHECKING:
    from pgrepl.internals.py4j import Gateway

_OUT_OF_MEMORY_EXIT = 52  # SparkExitCode.OOM


class Driver(Protocol):
    @property
    def ended(self) -> bool: ...

    def ends_soon(self, seconds: float) -> bool:
        """Whether it has ended or ends within a moment: a call fails before its process is gone."""

    def kill(self) -> None:
        """It does not answer: let it end, or make it."""

    def out_of_memory(self) -> bool:
        """Whether the JVM has ended because its heap was full."""

    def end(self) -> None:
        """It is not wanted any more. Returns at once."""

    def forget(self) -> None:
        """Let pyspark make another session after this JVM."""

    def cancel(self) -> bool:
        """End the running jobs; for a signal's handler. Whether the main thread is in a call to the JVM."""


class OwnDriver:
    """A JVM that was started here, and the way to it."""

    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes] | None) -> None:
        self.process = process
        self.log = log
        self.gateway: Gateway | None = None

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def ends_soon(self, seconds: float) -> bool:
        """Whether it has ended or ends within a moment: a call fails before its process is gone."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.ended

    def kill(self) -> None:
        """It does not answer: let it end, or make it."""
        if not self.ends_soon(5):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def last_words(self) -> str:
        """The end of what the JVM has written, if that was kept."""
        if self.log is None:
            return ""
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - 20_000))
        return self.log.read().decode("utf-8", "replace")

    def out_of_memory(self) -> bool:
        """Whether the JVM has ended because its heap was full."""
        return self.ended and (
            self.process.returncode == _OUT_OF_MEMORY_EXIT or "java.lang.OutOfMemoryError" in self.last_words()
        )

    def end(self) -> None:
        """Close the pipe: the JVM cleans up and ends by itself. Returns at once."""
        if self.gateway is not None:
            self.gateway.disconnect()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.forget()

    def forget(self) -> None:
        internals.forget_jvm()

    def cancel(self) -> bool:
        return self.gateway is not None and self.gateway.cancel()
