"""What the session is asked for, and how its JVM is started: nothing here starts one."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pgrepl.engine import spark, spark_options, spark_start
from pgrepl.engine.spark_options import SparkOptions, read_options
from pgrepl.ground.errors import PgError

ROOT = Path(__file__).resolve().parents[2]


def test_the_command_line_stands_above_the_environment() -> None:
    environment = {"PGREPL_MASTER": "local[3]", "PGREPL_CONF": "a=1 b='two words' c=x=y"}
    assert read_options(environment) == SparkOptions("local[3]", None, (("a", "1"), ("b", "two words"), ("c", "x=y")))
    given = read_options(environment, master="yarn", conf=("a=2", "d="))
    assert given == SparkOptions("yarn", None, (("a", "2"), ("b", "two words"), ("c", "x=y"), ("d", "")))
    assert read_options({"PGREPL_MASTER": "local"}, remote="sc://host") == SparkOptions(None, "sc://host")
    assert read_options({"PGREPL_REMOTE": "sc://host", "PGREPL_MASTER": ""}) == SparkOptions(None, "sc://host")


@pytest.mark.parametrize(
    ("environment", "arguments", "message"),
    [
        ({"PGREPL_MASTER": "local", "PGREPL_REMOTE": "sc://h"}, {}, "a master and a remote cannot both be given"),
        ({}, {"conf": ("nonsense",)}, 'invalid Spark setting "nonsense"'),
        ({}, {"conf": ("=1",)}, 'invalid Spark setting "=1"'),
        ({"PGREPL_CONF": "a='1"}, {}, "invalid value of PGREPL_CONF: No closing quotation"),
    ],
)
def test_options_that_make_no_sense(
    environment: dict[str, str], arguments: dict[str, tuple[str]], message: str
) -> None:
    with pytest.raises(PgError) as raised:
        read_options(environment, **arguments)  # type: ignore[arg-type]
    assert (raised.value.sqlstate, raised.value.message) == ("22023", message)


@pytest.mark.parametrize(
    ("master", "conf", "environment", "direct"),
    [
        ("local[*]", {}, {}, True),
        ("local", {"spark.driver.memory": "2g"}, {}, True),
        ("local-cluster[2,1,1024]", {}, {}, False),
        ("spark://host:7077", {}, {}, False),
        ("local[2]", {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.2"}, {}, False),
        ("local[2]", {}, {"SPARK_HOME": "/opt/spark"}, False),
    ],
)
def test_what_only_the_scripts_of_spark_understand_is_left_to_them(
    master: str, conf: dict[str, str], environment: dict[str, str], direct: bool
) -> None:
    assert spark_start.goes_direct(master, conf, environment) is direct


def test_the_settings_of_the_driver_reach_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_options, "archive", lambda *_, **__: spark_options.Archive())
    conf = {
        "spark.driver.memory": "1536",
        "spark.driver.extraJavaOptions": "-Dx='a b' -XX:+UseSerialGC",
        "spark.driver.extraClassPath": "own.jar",
    }
    command, _ = spark_start.direct_command("java", conf)
    assert command[0] == "java" and command[-1] == "org.apache.spark.api.python.PythonGatewayServer"
    assert {"-Xmx1536m", "-Dx=a b", "-XX:+UseSerialGC"} < set(command)
    assert command[-2].split(os.pathsep)[0] == os.path.abspath("own.jar")


def test_java_is_told_a_garbage_collector_unless_the_user_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java does not start if it is told two."""
    monkeypatch.setattr(spark_options, "archive", lambda *_, **__: spark_options.Archive())

    def collectors(**conf: str) -> list[str]:
        command, _ = spark_start.direct_command("java", {f"spark.driver.{name}": text for name, text in conf.items()})
        return [option for option in command if option.startswith("-XX:+Use") and option.endswith("GC")]

    assert collectors() == collectors(extraJavaOptions="-XX:+UseNUMA -XX:+PrintGC") == ["-XX:+UseParallelGC"]
    assert collectors(extraJavaOptions="-XX:+UseG1GC") == ["-XX:+UseG1GC"]
    assert collectors(defaultJavaOptions="-XX:+UseZGC") == ["-XX:+UseZGC"]
    assert collectors(extraJavaOptions="-XX:VMOptionsFile=/some/file") == []
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Dx=y -XX:+UseSerialGC")
    assert collectors() == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere TCP does not wait, and threads are not told apart")
def test_workers_on_this_machine_use_unix_sockets_whose_paths_are_no_longer_than_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    told = spark_start.sockets({"spark.master": "local[2]"})
    folder = Path(told["spark.python.unix.domain.socket.dir"])
    assert told["spark.python.unix.domain.socket.enabled"] == "true"
    assert folder.stat().st_mode & 0o077 == 0
    folder.rmdir()
    for master in ("spark://host:7077", "local-cluster[2,1,1024]"):
        assert spark_start.sockets({"spark.master": master}) == {}
    own = {"spark.master": "local", "spark.python.unix.domain.socket.dir": "/elsewhere"}
    assert spark_start.sockets(own) == {}
    (long := tmp_path / ("x" * 100)).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert spark_start.sockets({"spark.master": "local"}) == {}
    assert list(long.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere TCP does not wait, and threads are not told apart")
def test_the_thread_of_javas_last_optimizations_yields_to_others() -> None:
    code = "open('/proc/self/comm', 'w').write('C2 CompilerThre'); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = os.getpriority(os.PRIO_PROCESS, process.pid)
        spark_start.yield_to_tasks(process.pid)
        after = os.getpriority(os.PRIO_PROCESS, process.pid)
        process.communicate(b"\n")
    assert after == min(before + 5, 19)
    spark_start.yield_to_tasks(process.pid)  # it has ended


@pytest.mark.parametrize(
    ("master", "tasks"), [("local", 1), ("local[4]", 4), ("local[*]", os.cpu_count()), ("local[3, 2]", 3)]
)
def test_a_local_master_says_how_many_tasks_run(master: str, tasks: int) -> None:
    assert spark_options.tasks_of(master) == tasks


def test_without_java_one_sentence_says_how_to_get_it(tmp_path: Path) -> None:
    code = (
        "from pgrepl.engine import spark\n"
        "from pgrepl.ground.errors import PgError\n"
        "spark.start_in_background()\n"
        "try: spark.session()\n"
        "except PgError as error: print(error.sqlstate, error.message, error.report.hint, sep='|')\n"
    )
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    state, message, hint = done.stdout.rstrip("\n").split("|")
    assert (state, message) == ("58000", "could not start Spark: it needs Java, and no Java was found")
    assert hint.startswith("Install a Java 17 runtime (Debian, Ubuntu: apt install openjdk-17-jre-headless;")
    assert done.stderr == ""


# --- the archive of classes -----------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "pgrepl"


def made(archive: spark_options.Archive, text: str = "classes", *, query: bool = False) -> Path:
    """What a JVM does with its options: it writes the archive and ends; before it may have planned a query."""
    (option, _, mark), (lock,) = archive.options, archive.lock
    if query:
        Path(mark.partition("=")[2]).touch()
    kind, _, name = option.partition("=")
    assert kind == "-XX:ArchiveClassesAtExit"
    if text:
        Path(name).write_text(text)
    os.close(lock)
    return Path(name)


def test_the_first_jvm_makes_the_archive_and_the_next_uses_it(cache: Path) -> None:
    found = made(spark_options.archive("java", ["a.jar"], []), query=True)
    assert spark_options.archive("java", ["a.jar"], []).options[1] == f"-XX:SharedArchiveFile={found}"
    assert spark_options.archive("java", ["a.jar"], [], for_tasks=True).options[1] == f"-XX:SharedArchiveFile={found}"
    made(spark_options.archive("java", ["b.jar"], []))


def test_the_archive_of_a_jvm_that_has_planned_no_query_is_for_such_jvms(cache: Path) -> None:
    found = made(spark_options.archive("java", [], [], for_tasks=True))
    assert spark_options.archive("java", [], [], for_tasks=True).options[1] == f"-XX:SharedArchiveFile={found}"
    assert made(spark_options.archive("java", [], []), query=True) == found
    for for_tasks in (True, False):
        assert spark_options.archive("java", [], [], for_tasks=for_tasks).lock == ()


@pytest.mark.parametrize("left", ["", "\0\0\0\0half"])
def test_what_a_killed_jvm_has_left_counts_for_nothing(cache: Path, left: str) -> None:
    made(spark_options.archive("java", [], []), left, query=True)
    made(spark_options.archive("java", [], [], for_tasks=True))  # without a query
    made(spark_options.archive("java", [], []))


def test_an_archive_that_nobody_uses_goes_when_another_is_made(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used, unused = made(spark_options.archive("java", [], []), query=True), cache / "spark-0123456789abcdef.jsa"
    unused.touch()
    for archive in (used, unused):
        os.utime(archive, (0, 0))
    later = time.time() + 31 * 24 * 3600
    monkeypatch.setattr(spark_options.time, "time", lambda: later)
    assert spark_options.archive("java", [], []).lock == ()
    other = spark_options.archive("java", ["a.jar"], [])
    os.close(other.lock[0])
    assert used.exists()
    assert not unused.exists()


def test_only_one_makes_the_archive(cache: Path) -> None:
    first = spark_options.archive("java", [], [])
    assert first.lock
    assert spark_options.archive("java", [], []) == spark_options.Archive()
    os.close(first.lock[0])
    again = spark_options.archive("java", [], [])
    assert again.options == first.options
    fcntl.flock(again.lock[0], fcntl.LOCK_UN)
    os.close(again.lock[0])


def test_no_archive_where_none_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert spark_options.archive("java", [], []) == spark_options.Archive()


def test_what_a_session_is_for_is_said_before_its_options_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that needs no Spark does not fail because of its settings."""
    monkeypatch.setattr(spark, "_options", None)
    monkeypatch.setattr(spark, "_for_tasks", False)
    monkeypatch.setenv("PGREPL_CONF", "no setting")
    spark.expect_tasks()
    with pytest.raises(PgError, match="invalid Spark setting"):
        spark.options()
    monkeypatch.setenv("PGREPL_CONF", "a=b")
    assert spark.options() == SparkOptions(conf=(("a", "b"),), for_tasks=True)
