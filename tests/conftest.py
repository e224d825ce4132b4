"""Every run of the tests sees the same examples, so that a failure can be seen again; `-m slow` looks for new ones."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("same", derandomize=True)
if not os.environ.get("HYPOTHESIS_PROFILE"):
    settings.load_profile("same")

# A process that pytest-xdist has started ignores Ctrl-C; here it is what it is at a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The process's one session, where PGREPL_MASTER or PGREPL_REMOTE say, or in this machine."""
    from pgrepl.lake import spark as lake_spark

    given = lake_spark.read_options(os.environ)
    if given.master is None and given.remote is None:
        small = ("spark.driver.memory=2g", "spark.sql.shuffle.partitions=2")
        given = lake_spark.read_options(os.environ, master="local[2]", conf=small)
    lake_spark.configure(given)
    yield lake_spark.session()
    lake_spark.stop()
