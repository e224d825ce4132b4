"""A session behind a Spark Connect server: `--remote sc://host`. No JVM is started here. The server reads and writes
files, so that the data folder must be one that both can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.internals.pyspark import be_quiet
from pgrepl.lake.spark_options import SESSION_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgrepl.lake.spark_options import SparkOptions


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
