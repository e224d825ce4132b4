"""Spill folders: temporary folders for rows between Spark and this process, or between a server and Spark, for the
package that Spark's executors get, and for the sockets of Spark's Python workers.

The process that makes one removes it. The name has the process, so that a later one removes those of killed processes.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import zlib
from contextlib import suppress
from functools import cache

from pgrepl.catalog import processes

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
    return f"{zlib.crc32(f'{processes.machine()} {namespace}'.encode()):08x}"


def is_left(name: str) -> bool:
    """Has a process of this machine that has been killed made a folder of this name?"""
    match = re.fullmatch(rf"pgrepl-(?:{'|'.join(_KINDS)})-{_here()}-(\d+)-.+", name)
    return match is not None and not processes.is_alive(int(match[1]))


@cache
def clean() -> None:
    """Remove the folders of this user's killed processes; a process does it once."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if is_left(entry.name) and _is_ours(entry):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()
