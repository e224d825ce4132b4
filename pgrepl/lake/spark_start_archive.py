"""An archive of Spark's classes (CDS), which saves the JVM loading and verifying them: half the time of a start.

The first JVM that finds no archive for its class path makes one when it ends, after the session, in the background.
It has the classes that this JVM has loaded: so one of a JVM that has planned no query, as for a copy, serves such JVMs
only (with it a first answer took 5.9 instead of 3.8 s), until there is one of a JVM that has.

A lock that the JVM inherits keeps others from making the same one; the archive gets its name when it is complete.
An error here only means a slower start.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from pgrepl.frozen import frozen
from pgrepl.lake.spark_options import QUERY_PLANNED

# Runs the JVM, and renames the archive after success; $0: the unfinished archive, $1: its name if the JVM has planned a
# query, and $2 if not.
_MAKE = (
    'made=$0 full=$1 small=$2; shift 2; "$@"; code=$?; name=$small other=; '
    'if [ -e "$made.query" ]; then name=$full other=$small; rm -f "$made.query"; fi; '
    'if [ $code -eq 0 ] && [ -s "$made" ]; then mv -f "$made" "$name" && rm -f "$other"; else rm -f "$made"; fi; '
    "exit $code"
)

_UNUSED = 30 * 24 * 3600  # seconds after which an archive that nobody has used goes
_SIGNED_JARS = ("janino-", "commons-compiler-")  # the compiler of Spark's queries
_SIGNATURES = (".SF", ".DSA", ".RSA", ".EC")
_NOT_OF_CLASSES = ("-Xmx", "-XX:TieredStopAtLevel")  # options with which an archive is the same


@frozen
class Archive:
    """`options` for java; `making`: the names of an archive that the JVM makes; `descriptors`: the lock it inherits."""

    options: tuple[str, ...] = ()
    making: tuple[str, str, str] | None = None
    descriptors: tuple[int, ...] = ()

    def wrapped(self, command: list[str]) -> list[str]:
        return command if self.making is None else ["/bin/sh", "-c", _MAKE, *self.making, *command]


def archive(java: str, class_path: Sequence[str], options: Sequence[str], *, for_tasks: bool = False) -> Archive:
    """The archive for this Java and these classes: an existing one, one that this JVM makes, or none."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return Archive()
    name = _folder() / f"spark-{_key(java, class_path, options)}.jsa"
    small = name.with_suffix(".small.jsa")
    for found in (name, small) if for_tasks else (name,):
        if found.exists():
            with suppress(OSError):
                os.utime(found, (time.time(), time.time()))  # it is in use
            return Archive(("-Xshare:auto", f"-XX:SharedArchiveFile={found}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"))
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
    _remove_unused(name.parent, class_path)
    made = str(name.with_suffix(".new"))
    for left in (made, f"{made}.query"):  # by one that was killed
        with suppress(OSError):
            os.unlink(left)
    making = (f"-XX:ArchiveClassesAtExit={made}", "-Xlog:cds=off", f"-D{QUERY_PLANNED}={made}.query")
    return Archive(making, (made, str(name), str(small)), (lock,))


def _remove_unused(folder: Path, used: Sequence[str]) -> None:
    """Remove what belongs to releases and settings that are no longer used, an archive of 150 MB each, but no jar that
    is about to be used. Copies of jars are made again as they were."""
    with suppress(OSError):
        for old in folder.iterdir():
            status = old.stat()
            if str(old) not in used and max(status.st_mtime, status.st_ctime) < time.time() - _UNUSED:
                old.unlink()


def archivable(jar: Path) -> str:
    """The path of the jar, or of a copy without its signatures: Java archives no class of a signed jar, and checks each
    class that it loads from one, which took a tenth of a start."""
    if not jar.name.startswith(_SIGNED_JARS):
        return str(jar)
    copy = _folder() / f"{jar.stem}-{_digest((str(jar),))}.jar"
    with suppress(OSError, zipfile.BadZipFile):
        if not zipfile.is_zipfile(copy):
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, made = tempfile.mkstemp(dir=copy.parent)
            try:
                with open(descriptor, "w+b") as file:
                    _copy_without_signatures(jar, file)
                os.replace(made, copy)
            except BaseException:
                os.unlink(made)
                raise
        return str(copy)
    return str(jar)


def _copy_without_signatures(jar: Path, copy: IO[bytes]) -> None:
    """The copy has the jar's times: an archive is of a jar's size and time, whoever has made the copy."""
    with zipfile.ZipFile(jar) as source, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            if not (entry.filename.startswith("META-INF/") and entry.filename.upper().endswith(_SIGNATURES)):
                target.writestr(entry, source.read(entry))
    copy.flush()
    os.fsync(copy.fileno())
    status = jar.stat()
    os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    return Path(cache if cache and os.path.isabs(cache) else os.path.expanduser("~/.cache")) / "pgrepl"


def _key(java: str, class_path: Sequence[str], options: Sequence[str]) -> str:
    """The key of an archive: it is valid for one build of Java and one class path, jar by jar."""
    return _digest((os.path.realpath(java), *class_path), [o for o in options if not o.startswith(_NOT_OF_CLASSES)])


def _digest(paths: Sequence[str], more: Sequence[str] = ()) -> str:
    """A digest of files by their names, sizes and times."""
    found = hashlib.sha256()
    for path in paths:
        try:
            status = os.stat(path)
            found.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
        except OSError:
            found.update(f"{path}\0\n".encode())
    found.update("\0".join(more).encode())
    return found.hexdigest()[:16]
