"""How a JVM on this machine and its Python workers start: no archive of Spark on their path, and kernels loaded."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from pgrepl.engine import spark_start
from pgrepl.engine.spark_options import SparkOptions

FACTS = (
    "import sys; from pgrepl.engine.spark_daemon import leave_out_archives; import pickle; leave_out_archives();"
    " print([path for path in sys.path if path.startswith(sys.argv[1])],"
    " [path for path in sys.path_importer_cache if path.startswith(sys.argv[1])])"
)


@pytest.fixture
def archives(tmp_path: Path) -> list[str]:
    """Spark's: pyspark's archive, and the jar."""
    contents = {
        "pyspark.zip": ("pyspark/__init__.py", "py4j/__init__.py"),
        "spark-core_2.13-4.1.0.jar": ("org/", "org/apache/spark/x.class"),
    }
    for archive, names in contents.items():
        with zipfile.ZipFile(tmp_path / archive, "w") as made:
            for name in names:
                made.writestr(name, "")
    return [str(tmp_path / archive) for archive in contents]


def after(folder: Path, path: list[str], *options: str) -> str:
    """What is left of the folder's archives on the path of a Python that is started as Spark starts the daemon."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    command = [sys.executable, *options, "-c", FACTS, str(folder)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def test_archives_are_left_out_where_python_has_its_own_pyspark(tmp_path: Path, archives: list[str]) -> None:
    assert after(tmp_path, archives) == "[] []"


def test_archives_stay_where_they_are_needed(tmp_path: Path, archives: list[str]) -> None:
    """Without site-packages (-S) there is no other pyspark than the archive's."""
    root = str(Path(__file__).resolve().parents[2])
    assert after(tmp_path, [*archives, root], "-S") == f"['{archives[0]}'] ['{archives[0]}']"


def test_workers_of_this_machine_only_have_the_daemon() -> None:
    for master, has_it in (("local[2]", True), ("local-cluster[1,1,1024]", False), ("spark://host:7077", False)):
        assert ("spark.python.daemon.module" in spark_start.workers(master)) is has_it


@pytest.mark.usefixtures("spark")
def test_tasks_find_kernels_loaded_and_no_archive_on_the_path() -> None:
    from pgrepl.engine import spark

    def facts(rows: Iterable[int]) -> list[tuple[bool, bool]]:
        import sys as there

        assert list(rows) == [1]  # else the worker is not used again
        archives = [path for path in there.path_importer_cache if ".jar" in path or ".zip" in path]
        return [("pgrepl.engine.copy_rows" in there.modules, bool(archives))]

    found = spark.session().sparkContext.parallelize([1], 1).mapPartitions(facts).collect()
    assert found == [(True, False)]


def test_a_setting_of_the_user_goes_first() -> None:
    wanted = SparkOptions(conf=(("spark.python.daemon.module", "own.daemon"),))
    assert spark_start.settings(wanted, {})["spark.python.daemon.module"] == "own.daemon"


def test_a_jvm_for_one_command_is_not_optimized_to_the_last_unless_the_user_wants_it() -> None:
    java = "spark.driver.defaultJavaOptions"
    assert java not in spark_start.settings(SparkOptions(), {})
    assert spark_start.settings(SparkOptions(for_tasks=True), {})[java] == "-XX:TieredStopAtLevel=1"
    assert spark_start.settings(SparkOptions(for_tasks=True, conf=((java, ""),)), {})[java] == ""
