"""Options of the Spark session, spill folders, and the archive of Spark's classes (CDS) that halves the JVM's start.

The process that makes a spill folder removes it; its name has the process, so that a later one removes those of
killed processes. The first JVM without an archive makes one when it ends, in the background; one that has planned no
query serves such JVMs only.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from pgrepl.catalog.locks import lock_file
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen

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
    environment: Mapping[str, str], master: str | None = None, remote: str | None = None, conf: tuple[str, ...] = ()
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


# --- spill folders ----------------------------------------------------------------------------------------------------


_KINDS = RESULT, CHANGES, FILES, PACKAGE, SOCKETS = "result", "changes", "files", "package", "sockets"


def make(kind: str) -> str:
    """A new folder."""
    clean()
    return tempfile.mkdtemp(prefix=prefix(kind))


def make_for_process(kind: str) -> str:
    """A new folder, which is removed when this process ends."""
    folder, maker = make(kind), os.getpid()

    def remove() -> None:
        if os.getpid() == maker:  # not a process that it has forked
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def prefix(kind: str) -> str:
    """The prefix of the names of this process's folders."""
    return f"pgrepl-{kind}-{_here()}-{os.getpid()}-"


@cache
def _here() -> str:
    """Where PIDs are those of this process: the machine, and on Linux the namespace; short, for a socket's path."""
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return f"{zlib.crc32(f'{lock_file.machine()} {namespace}'.encode()):08x}"


def is_left(name: str) -> bool:
    """Has a process of this machine that has been killed made a folder of this name?"""
    match = re.fullmatch(rf"pgrepl-(?:{'|'.join(_KINDS)})-{_here()}-(\d+)-.+", name)
    return match is not None and not lock_file.is_alive(int(match[1]))


@cache
def clean() -> None:
    """Remove the folders of this user's killed processes; a process does it once."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if is_left(entry.name) and _is_ours(entry):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()


# --- spark start archive ----------------------------------------------------------------------------------------------


_UNUSED = 30 * 24 * 3600  # seconds after which an archive that nobody has used goes
_NOT_OF_CLASSES = ("-Xmx", "-XX:TieredStopAtLevel")  # options with which an archive is the same


@frozen
class Archive:
    """`options` for java; `lock`: the descriptor that a JVM inherits which makes the archive."""

    options: tuple[str, ...] = ()
    lock: tuple[int, ...] = ()


def archive(java: str, class_path: Sequence[str], options: Sequence[str], *, for_tasks: bool = False) -> Archive:
    """The archive for this Java and these classes: an existing one, one that this JVM makes when it ends, or none. A
    file beside an archive says that the JVM had planned a query."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return Archive()
    name = _folder() / f"spark-{_key(java, class_path, options)}.jsa"
    planned = name.with_suffix(".query")
    if _is_whole(name) and (for_tasks or planned.exists()):
        for used in (name, planned):
            with suppress(OSError):
                os.utime(used, (time.time(), time.time()))
        return Archive(("-Xshare:auto", f"-XX:SharedArchiveFile={name}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"))
    try:
        name.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(name.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return Archive()
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process makes it
        os.close(lock)
        return Archive()
    os.utime(lock, (time.time(), time.time()))
    _remove_unused(name.parent)
    for former in (name, planned):
        former.unlink(missing_ok=True)
    return Archive((f"-XX:ArchiveClassesAtExit={name}", "-Xlog:cds=off", f"-D{QUERY_PLANNED}={planned}"), (lock,))


def _is_whole(archive: Path) -> bool:
    """Is the archive there, and has its JVM not been killed meanwhile? Java writes the beginning last."""
    try:
        with archive.open("rb") as file:
            return any(file.read(4))
    except OSError:
        return False


def _remove_unused(folder: Path) -> None:
    """Remove what belongs to releases and settings that are no longer used, an archive of 150 MB each."""
    with suppress(OSError):
        for old in folder.iterdir():
            status = old.stat()
            if max(status.st_mtime, status.st_ctime) < time.time() - _UNUSED:
                old.unlink()


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    return Path(cache if cache and os.path.isabs(cache) else os.path.expanduser("~/.cache")) / "pgrepl"


def _key(java: str, class_path: Sequence[str], options: Sequence[str]) -> str:
    """The key of an archive: it is valid for one build of Java and one class path, by the jars' names, sizes, times."""
    hashed = hashlib.sha256()
    for path in (os.path.realpath(java), *class_path):
        try:
            status = os.stat(path)
            hashed.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
        except OSError:
            hashed.update(f"{path}\0\n".encode())
    hashed.update("\0".join([o for o in options if not o.startswith(_NOT_OF_CLASSES)]).encode())
    return hashed.hexdigest()[:16]
