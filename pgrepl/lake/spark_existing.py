"""A session beside one that the program has made: the same Spark, with settings by which values mean what DuckLake's
mean. The program's own session keeps its settings."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pgrepl.lake.spark_options import SESSION_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgrepl.lake.spark_driver import Driver


_TAG = "pgrepl"  # the tag of pgrepl's jobs among those of the program


def beside(given: SparkSession) -> tuple[Driver | None, SparkSession]:
    """The session, and its driver; None: it is behind a Spark Connect server."""
    from pyspark.sql import SparkSession as Classic

    from pgrepl.lake.spark_start_plain import PlainDriver

    made = given.newSession()
    for name, value in SESSION_SETTINGS.items():
        with suppress(Exception):  # this version does not know it
            made.conf.set(name, value)
    if not isinstance(given, Classic) or not _has_context(given):
        return None, made
    return PlainDriver(made, None, _TAG), made


def _has_context(session: SparkSession) -> bool:
    try:
        return session.sparkContext is not None
    except Exception:  # a session of Spark Connect has none
        return False
