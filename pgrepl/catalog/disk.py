"""Syncing files and folders to the disk, so that a power cut takes away nothing that was confirmed."""

from __future__ import annotations

import errno
import os
from contextlib import suppress


def sync(path: str | os.PathLike[str]) -> None:
    """Force a file or a folder of this machine to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Force the names in a folder to the disk, where the file system and its permissions allow that (fsync_fname)."""
    try:
        sync(path)
    except OSError as problem:
        if problem.errno not in (errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOENT):
            raise


def sync_log(catalog: str | os.PathLike[str]) -> None:
    """Force the write-ahead log of a catalog in SQLite to the disk, whichever process wrote to it. Without a log, all
    commits are in the catalog's own file, which was synced.

    Another process that restarts the log meanwhile first syncs it and copies it to the catalog."""
    with suppress(FileNotFoundError):
        sync(f"{os.fspath(catalog)}-wal")
