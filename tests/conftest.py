"""Every run of the tests sees the same examples, so that a failure can be seen again; `-m slow` looks for new ones."""

from __future__ import annotations

import os
import re
import signal
import zoneinfo
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.harness.programs import QUICK_JVM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.harness.played import Instance

settings.register_profile("same", derandomize=True)
if not os.environ.get("HYPOTHESIS_PROFILE"):
    settings.load_profile("same")

# Expected times were recorded with these zones (IANA's 2025b); a machine's own data may be newer.
_ZONES = Path(__file__).with_name("zoneinfo")
os.environ["PYTHONTZPATH"] = os.pathsep.join([str(_ZONES), *(path for path in zoneinfo.TZPATH if path != str(_ZONES))])
zoneinfo.reset_tzpath()

# A process that pytest-xdist has started ignores Ctrl-C; here it is what it is at a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests with a home of their own find the archive of Spark's classes, too; one is made for all.
os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))

SMALL_SPARK = ("spark.driver.memory=2g", "spark.sql.shuffle.partitions=2", QUICK_JVM)

# Where several processes share the tests, the longest files come first, so that none is left when all others are done.
_DURATIONS = Path(__file__).with_name("durations.txt")
_seconds: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help=f"write {_DURATIONS.name} anew; for a whole run")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """All files that ask for Spark go to one process, and the others need no JVM."""
    from xdist.scheduler import LoadFileScheduling

    asks = re.compile(r"\bspark: |usefixtures\(.*spark|getfixturevalue\(.spark")

    @cache
    def scope(name: str) -> str:
        return "spark" if asks.search((config.rootpath / name).read_text("utf-8")) else name

    class OneSpark(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid.partition("::")[0])

    return OneSpark(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A file that nobody has measured may be long."""
    if hasattr(config, "workerinput"):
        lines = _DURATIONS.read_text("utf-8").splitlines()
        known = {name: float(seconds) for seconds, name in map(str.split, lines)}
        items.sort(key=lambda item: -known.get(item.nodeid.partition("::")[0], 1e9))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.partition("::")[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--record-durations") and not hasattr(session.config, "workerinput"):
        _DURATIONS.write_text("".join(f"{seconds:.1f} {name}\n" for name, seconds in _seconds.most_common()), "utf-8")


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """A test writes in folders of its own, not where the suite is run."""
    before = set(os.listdir())
    here = os.getcwd()
    yield
    left = {name for name in set(os.listdir(here)) - before if not name.startswith((".", "__pycache__"))}
    assert left == set()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The process's one session, where PGREPL_MASTER or PGREPL_REMOTE say, or in this machine."""
    from pgrepl.engine import spark as lake_spark
    from pgrepl.engine.spark_options import read_options

    given = read_options(os.environ)
    if given.master is None and given.remote is None:
        given = read_options(os.environ, master="local[2]", conf=SMALL_SPARK)
    lake_spark.configure(given)
    yield lake_spark.session()
    lake_spark.stop()


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    """A fresh instance for each test."""
    from tests.harness.played import Instance

    made = Instance(tmp_path / "here")
    yield made
    made.catalog.close()
