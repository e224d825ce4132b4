"""The fast start of Spark in a JVM of this process.

For a local master java is started directly, with pip's class path and an archive of classes; with settings that only
Spark's scripts understand (packages, a cluster, another installation) these start it. The JVM reads a pipe whose
other end is open here, so that it ends with this process; Ctrl-C does not reach it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.engine import spark_daemon, spark_options
from pgrepl.engine.spark_options import DEFAULT_MASTER, defaults, is_elsewhere
from pgrepl.engine.spark_start_plain import OwnDriver
from pgrepl.ground import lazy
from pgrepl.ground.errors import PgError
from pgrepl.internals import pyspark as internals
from pgrepl.internals.py4j import Gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgrepl.engine.spark_options import SparkOptions

# Java's packages that Spark needs (JavaModuleOptions), without the incubating vector module, which only Spark's machine
# learning uses
_OPENED = (
    "java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util java.util.concurrent "
    "java.util.concurrent.atomic jdk.internal.ref sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar"
)
_JAVA_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED.split()),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--enable-native-access=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    # The last optimizations wait until code is ten times as hot as Java's default: a start runs much code a few times,
    # and they took as much of the processors as the tasks did. A loop over rows is that hot within milliseconds.
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
# Java's own choice, G1, never frees what Spark's pool of memory refers to weakly, and looks through it in short jobs.
_COLLECTOR = "-XX:+UseParallelGC"
_CHOICE = re.compile(r"-XX:\+Use\w+GC\b|-XX:Flags=|-XX:VMOptionsFile=|(?:^|\s)@")  # or of a file, which may choose
_OF_JAVA = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")  # Java's own environment variables
_UNUSED_JARS = ("spark-mllib_",)
# A JVM that computes little itself starts a quarter faster without the last optimizations, which take the other core.
_FOR_TASKS = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}

# environment variables and settings with which Spark's own scripts start it
_OWN_SPARK = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS")
_SCRIPT_SETTINGS = ("spark.jars", "spark.submit.", "spark.files", "spark.archives", "spark.driver.extraLibraryPath")

_GET_JAVA = (
    "Install a Java 17 runtime (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
    "and set JAVA_HOME if java is not on the PATH."
)
_UNIX_SOCKET, _LONGEST_ADDRESS = "spark.python.unix.domain.socket", 107
_RANDOM = f"12345678/.{uuid.UUID(int=0)}.sock"  # as long as what follows in a socket's path
_NICE = 5  # with 10 and more a long query waits for its optimized code
_POLL = 0.005
_PATIENCE = 300  # seconds


def start(wanted: SparkOptions) -> tuple[OwnDriver, SparkSession]:
    """Start the JVM and make the session in it; PgError if that cannot be."""
    driver, gateway, conf = launch(wanted, {}, load)
    if not shows_log(wanted):
        internals.be_quiet()
    return driver, internals.make_session(gateway.server, conf, local=conf["spark.master"].startswith("local"))


def launch(
    wanted: SparkOptions, more: Mapping[str, str], meanwhile: Callable[[], None]
) -> tuple[OwnDriver, Gateway, Mapping[str, str]]:
    """Start the JVM; and Spark's settings for it, with `more` defaults. PgError if that cannot be. `meanwhile` is
    called while it starts."""
    conf = settings(wanted, more)
    connection = _meeting_place() / f"connection-{os.getpid()}-{time.monotonic_ns()}"
    driver = _launch(wanted, conf, connection)
    meanwhile()
    yield_to_tasks(driver.process.pid)
    spark_options.clean()
    try:
        port, secret = _wait_for_connection(driver, connection)
    except BaseException:
        driver.remove_folder()
        raise
    connection.unlink()
    driver.gateway = Gateway(port, secret)
    return driver, driver.gateway, conf


def settings(wanted: SparkOptions, more: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings: the defaults, then `more`, then what the user wants."""
    master = wanted.master or DEFAULT_MASTER
    java = _FOR_TASKS if wanted.for_tasks else {}
    return {**defaults(master), **workers(master), **java, **more, **dict(wanted.conf), "spark.master": master}


def workers(master: str) -> dict[str, str]:
    """The setting by which workers on this machine, which import pgrepl from here, start faster."""
    return {} if is_elsewhere(master) else {"spark.python.daemon.module": spark_daemon.MODULE}


def sockets(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings by which Spark and its Python workers on this machine use Unix sockets, in a folder made for them:
    over TCP each task waits 40 ms, since Linux acknowledges late what Spark sends in small pieces. Spark before 4.1
    ignores them."""
    if sys.platform != "linux" or is_elsewhere(conf["spark.master"]):
        return {}
    if any(name.startswith(_UNIX_SOCKET) for name in conf):
        return {}
    longest = os.path.join(tempfile.gettempdir(), spark_options.prefix(spark_options.SOCKETS) + _RANDOM)
    if len(os.fsencode(longest)) > _LONGEST_ADDRESS:
        return {}
    folder = spark_options.make_for_process(spark_options.SOCKETS)
    try:
        with socket.socket(socket.AF_UNIX) as there:
            there.bind(os.path.join(folder, ".sock"))
        os.unlink(os.path.join(folder, ".sock"))
    except OSError:  # some file systems have no sockets
        shutil.rmtree(folder, ignore_errors=True)
        return {}
    return {f"{_UNIX_SOCKET}.enabled": "true", f"{_UNIX_SOCKET}.dir": folder}


def shows_log(wanted: SparkOptions) -> bool:
    """Does the user want to see Spark's log?"""
    return "spark.log.level" in dict(wanted.conf)


def _meeting_place() -> Path:
    """The folder in which the JVM writes its port and secret. The folder stays: a JVM whose parent has ended still
    writes, and would not end if it could not. A later start removes such files."""
    folder = Path(tempfile.gettempdir(), f"pgrepl-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        return Path(tempfile.mkdtemp(prefix="pgrepl-"))  # it is another user's
    for left in folder.iterdir():
        with suppress(OSError):
            if left.stat().st_mtime < time.time() - 3600:
                left.unlink()
    return folder


def load() -> None:
    """Import modules that are needed next, while the JVM starts."""
    from pyspark.sql import SparkSession  # noqa: F401

    lazy.load()

    with suppress(ImportError):
        import pandas  # noqa: F401  pyspark looks for it when it takes rows


# --- the JVM ---------------------------------------------------------------------------------------------------------


def _launch(wanted: SparkOptions, conf: dict[str, str], connection: Path) -> OwnDriver:
    """Start the JVM. `conf` gets what goes with it."""
    environment = {**os.environ, **internals.environment(connection)}
    environment["PYTHONPATH"] = os.pathsep.join(_import_path())
    java = _java()
    through = sockets(conf)
    conf.update(through)
    keep: tuple[int, ...] = ()
    if goes_direct(conf["spark.master"], conf, os.environ):
        command, keep = direct_command(java, conf, for_tasks=wanted.for_tasks)
        environment |= internals.direct_environment()
        folder = connection.parent  # not the user's, where Spark could find files, and Spark 4.0 makes a folder
    else:
        command, folder = _script_command(conf), None
    log = None if shows_log(wanted) else tempfile.TemporaryFile()  # noqa: SIM115  read when the JVM has died
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log or 2,
            stderr=log,
            env=environment,
            cwd=folder,
            start_new_session=True,
            pass_fds=keep,
        )
    except OSError as problem:
        shutil.rmtree(through.get(f"{_UNIX_SOCKET}.dir", ""), ignore_errors=True)
        raise PgError("58000", f"could not start Spark: {command[0]}: {problem.strerror}", hint=_GET_JAVA) from problem
    finally:
        for descriptor in keep:
            os.close(descriptor)
    return OwnDriver(process, log, through.get(f"{_UNIX_SOCKET}.dir"))


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = os.path.join(home, "bin", "java")
        if os.access(java, os.X_OK):
            return java
        raise PgError("58000", f'could not start Spark: JAVA_HOME is "{home}", and no Java is there', hint=_GET_JAVA)
    path = shutil.which("java")
    if path is None:
        raise PgError("58000", "could not start Spark: it needs Java, and no Java was found", hint=_GET_JAVA)
    return path


def goes_direct(master: str, conf: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    if is_elsewhere(master):
        return False
    if any(environment.get(name) for name in _OWN_SPARK):
        return False
    return not any(name.startswith(_SCRIPT_SETTINGS) for name in conf)


def direct_command(java: str, conf: Mapping[str, str], *, for_tasks: bool = False) -> tuple[list[str], tuple[int, ...]]:
    jars = sorted(p for p in (internals.home() / "jars").glob("*.jar") if not p.name.startswith(_UNUSED_JARS))
    own = [os.path.abspath(p) for p in conf.get("spark.driver.extraClassPath", "").split(os.pathsep) if p]
    options = [*_JAVA_OPTIONS]
    if "spark.driver.memory" in conf:
        options.append("-Xmx" + _java_size(conf["spark.driver.memory"]))
    options += shlex.split(conf.get("spark.driver.defaultJavaOptions", ""))
    options += shlex.split(conf.get("spark.driver.extraJavaOptions", ""))
    if not _CHOICE.search(" ".join((*options, *(os.environ.get(name, "") for name in _OF_JAVA)))):
        options.append(_COLLECTOR)
    class_path = [*own, *map(str, jars)]
    archive = spark_options.archive(java, class_path, options, for_tasks=for_tasks)
    return [java, *archive.options, *options, "-cp", os.pathsep.join(class_path), internals.MAIN], archive.lock


def _java_size(size: str) -> str:
    """Spark's sizes as java's: 2g, 2gb, 512m; a number without unit is MiB, as in spark.driver.memory."""
    size = size.strip().lower().removesuffix("b")
    return size + "m" if size.isdigit() else size


def _script_command(conf: Mapping[str, str]) -> list[str]:
    command = [os.path.join(os.environ.get("SPARK_HOME") or internals.home(), "bin", "spark-submit")]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    return command + shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))


def _import_path() -> list[str]:
    """The path by which Python workers find this package and those of PYTHONPATH."""
    own = str(Path(__file__).resolve().parents[2])
    given = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return [own, *(p for p in given if p != own)]


def yield_to_tasks(jvm: int) -> None:
    """Give the thread of Java's last optimizations less of a busy processor than tasks and other threads have. Linux
    alone tells threads; elsewhere, and when the JVM is the child of a script, nothing changes."""
    with suppress(OSError):
        for thread in Path(f"/proc/{jvm}/task").iterdir():
            if (thread / "comm").read_text().startswith("C2 Compiler"):
                nice = os.getpriority(os.PRIO_PROCESS, int(thread.name))
                os.setpriority(os.PRIO_PROCESS, int(thread.name), min(nice + _NICE, 19))


def _wait_for_connection(driver: OwnDriver, connection: Path) -> tuple[int, str]:
    patience = time.monotonic() + _PATIENCE
    while not connection.exists():
        if time.monotonic() > patience:
            driver.kill()
        if driver.ended:
            raise _did_not_start(driver)
        time.sleep(_POLL)
    return internals.read_connection(connection)


def _did_not_start(driver: OwnDriver) -> PgError:
    words = driver.last_words()
    if "UnsupportedClassVersionError" in words or "jdk.incubator.vector not found" in words:
        return PgError("58000", "could not start Spark: it needs Java 17 or newer", hint=_GET_JAVA)
    if "Could not reserve enough space" in words or "insufficient memory" in words:
        return PgError(
            "53200", "could not start Spark: not enough memory", hint="Ask for less with --conf spark.driver.memory=1g."
        )
    lines = [line.strip() for line in words.splitlines() if line.strip() and not line.startswith("WARNING:")]
    reason = next((line for line in lines if "Error" in line or "Exception" in line), lines[-1] if lines else "")
    return PgError("58000", "could not start Spark" + (f": {reason}" if reason else ""))
