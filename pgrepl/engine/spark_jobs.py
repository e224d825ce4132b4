"""What Spark does, for who looks on: its running jobs, how far they are, and where its UI is.

Only the process that has the JVM can tell. A server's host is asked over the channel by which others ask for Spark; so
the answer is a line of JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pgrepl.ground.frozen import frozen
from pgrepl.internals import pyspark as internals


@frozen
class SparkJob:
    """A running job. `seconds`: since it was submitted; `done`, `running` and `tasks` count tasks."""

    number: int
    what: str
    seconds: float
    done: int
    running: int
    tasks: int


@frozen
class SparkFacts:
    """`is_up`: there is a JVM with Spark; `ui`: the address of Spark's UI, if there is one. `is_remote`: Spark is
    behind a Spark Connect server, which alone knows its jobs."""

    is_up: bool = False
    ui: str | None = None
    jobs: tuple[SparkJob, ...] = ()
    is_remote: bool = False

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str | bytes) -> SparkFacts:
        """ValueError, TypeError, KeyError: it is none."""
        found: dict[str, Any] = json.loads(text)
        return cls(**{**found, "jobs": tuple([SparkJob(**job) for job in found["jobs"]])})


def look(jvm: Any, context: Any) -> SparkFacts:
    """What the JVM's Spark does; `context` is its SparkContext."""
    jobs = [SparkJob(*found) for found in internals.running_jobs(jvm, context)]
    return SparkFacts(is_up=True, ui=internals.ui_address(context), jobs=tuple(jobs))
