"""How far Spark is with what it does right now, for somebody who waits."""

from __future__ import annotations

import sys
from contextlib import suppress


def running_tasks() -> tuple[int, int] | None:
    """Of the stages under way how many tasks are done, and how many there are; None: nothing runs, or it is not known
    (a Spark Connect server does not tell). Never starts Spark."""
    pyspark = sys.modules.get("pyspark")
    context = None if pyspark is None else pyspark.SparkContext._active_spark_context
    if context is None:
        return None
    done = tasks = 0
    with suppress(Exception):  # it may end at any moment
        tracker = context.statusTracker()
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                done += info.numCompletedTasks
                tasks += info.numTasks
    return (done, tasks) if tasks else None
