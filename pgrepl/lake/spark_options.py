"""Options of the Spark session, from the command line and the environment."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pgrepl.errors import PgError
from pgrepl.frozen import frozen

DEFAULT_MASTER = "local[*]"
QUERY_PLANNED = "pgrepl_query_planned"  # property of the JVM: the name of a file to make when it has planned a query


@frozen
class SparkOptions:
    """The place where Spark runs: this machine or a cluster (`master`), or a Spark Connect server (`remote`).
    `for_tasks`: the JVM ends with this command, and mostly gives tasks to Python."""

    master: str | None = None
    remote: str | None = None
    conf: tuple[tuple[str, str], ...] = ()
    for_tasks: bool = False


def read_options(
    environment: Mapping[str, str],
    master: str | None = None,
    remote: str | None = None,
    conf: tuple[str, ...] = (),
) -> SparkOptions:
    """The options of the command line, else of PGREPL_MASTER and PGREPL_REMOTE; settings of the command line override
    those of PGREPL_CONF ("k=v k=v", quoted as in a shell)."""
    if master is None and remote is None:
        master, remote = environment.get("PGREPL_MASTER") or None, environment.get("PGREPL_REMOTE") or None
    if master is not None and remote is not None:
        raise PgError("22023", "a master and a remote cannot both be given")
    try:
        words = shlex.split(environment.get("PGREPL_CONF", ""))
    except ValueError as problem:
        raise PgError("22023", f"invalid value of PGREPL_CONF: {problem}") from problem
    settings: dict[str, str] = {}
    for word in [*words, *conf]:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise PgError("22023", f'invalid Spark setting "{word}"', hint="Write it as name=value.")
        settings[name.strip()] = value
    return SparkOptions(master, remote, tuple(settings.items()))


# settings by which Spark's files and values mean what DuckLake's mean; --conf does not change these
SESSION_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def shared_settings() -> dict[str, str]:
    """The settings of a Spark that several sessions share: none waits until a large job of another has ended."""
    pools = Path(__file__).with_name("spark_pools.xml")  # not a constant: this module's path is relative on executors
    return {"spark.scheduler.mode": "FAIR", "spark.scheduler.allocation.file": pools.absolute().as_uri()}


def defaults(master: str) -> dict[str, str]:
    """The settings of a session, most of which --conf changes."""
    defaults = {
        **SESSION_SETTINGS,
        "spark.app.name": "pgrepl",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # a long session remembers few of its statements
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.sql.ui.retainedExecutions": "5",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    }
    if master.startswith("local"):
        defaults |= {
            "spark.driver.host": "127.0.0.1",  # no look-up of the machine's name
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(4 * tasks_of(master)),
            # listing some hundred files here is quicker than by a job
            "spark.sql.sources.parallelPartitionDiscovery.threshold": "2000",
            "spark.sql.warehouse.dir": os.path.join(tempfile.gettempdir(), "pgrepl-warehouse"),
        }
    return defaults


def is_elsewhere(master: str) -> bool:
    """Do Spark's executors have another path than this process?"""
    return not master.startswith("local") or master.startswith("local-cluster")


def tasks_of(master: str) -> int:
    """The number of tasks that a local master runs at a time: local, local[4], local[*], local[2,3]."""
    inside = master.partition("[")[2].partition("]")[0].partition(",")[0].strip()
    if inside == "*":
        return os.cpu_count() or 1
    return int(inside) if inside.isdigit() and int(inside) > 0 else 1
