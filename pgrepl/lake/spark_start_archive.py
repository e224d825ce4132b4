"""An archive of Spark's classes (CDS), which saves the JVM loading and verifying them: half the time of a start.

The first JVM that finds no archive for its class path makes one when it ends, after the session, in the background.
A lock that the JVM inherits keeps others from making the same one; the archive gets its name when it is complete.
An error here only means a slower start.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from pgrepl.frozen import frozen

# runs the JVM, and renames the archive after success; $0: the unfinished archive, $1: its name
_MAKE = (
    'made=$0 name=$1; shift; "$@"; code=$?; '
    'if [ $code -eq 0 ] && [ -s "$made" ]; then mv -f "$made" "$name"; else rm -f "$made"; fi; exit $code'
)

_NOT_OF_CLASSES = ("-Xmx", "-XX:TieredStopAtLevel")  # options with which an archive is the same


@frozen
class Archive:
    """`options` for java; `making`: the names of an archive that the JVM makes; `descriptors`: the lock it inherits."""

    options: tuple[str, ...] = ()
    making: tuple[str, str] | None = None
    descriptors: tuple[int, ...] = ()

    def wrapped(self, command: list[str]) -> list[str]:
        return command if self.making is None else ["/bin/sh", "-c", _MAKE, *self.making, *command]


def archive(java: str, class_path: Sequence[str], options: Sequence[str]) -> Archive:
    """The archive for this Java and these classes: an existing one, one that this JVM makes, or none."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return Archive()
    name = _folder() / f"spark-{_key(java, class_path, options)}.jsa"
    if name.exists():
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
    made = str(name.with_suffix(".new"))
    return Archive((f"-XX:ArchiveClassesAtExit={made}", "-Xlog:cds=off"), (made, str(name)), (lock,))


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    return Path(cache if cache and os.path.isabs(cache) else os.path.expanduser("~/.cache")) / "pgrepl"


def _key(java: str, class_path: Sequence[str], options: Sequence[str]) -> str:
    """The key of an archive: it is valid for one build of Java and one class path, jar by jar."""
    found = hashlib.sha256()
    for path in (os.path.realpath(java), *class_path):
        try:
            status = os.stat(path)
            found.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
        except OSError:
            found.update(f"{path}\0\n".encode())
    found.update("\0".join(o for o in options if not o.startswith(_NOT_OF_CLASSES)).encode())
    return found.hexdigest()[:16]
