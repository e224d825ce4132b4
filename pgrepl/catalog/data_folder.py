"""The folder with the files of a catalog's tables, and the mark that says which catalog owns it.

The files stand beside the catalog, in `catalog.db.files/`, or where `--data-path` said. Paths in the catalog are
relative to that folder, which DuckLake's readers find by its absolute name (`data_path`). So a catalog that was moved
or copied together with its files names the wrong folder at first: when it is opened, it takes the files that came
along (data_folder_moved.py).

A folder has one owner, because VACUUM removes files that its catalog does not list. The owner's mark in it (`.owner`)
is made before the first file. A mark counts as long as its catalog is there and has its files in this folder.
A catalog that finds the mark of another one reads the files, but neither writes nor removes any:

    cp -r A B           B has its own files; the mark that came along names A, which has its files elsewhere: it is B's
    mv A B              the mark names A, which is gone: it is B's
    cp A/catalog.db B   B reads A's files. It cannot write until it has files of its own

Rule: this module looks at this machine only; lake/owner.py makes the marks, in object stores, too.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from pgrepl.catalog import sql
from pgrepl.catalog.driver_errors import ERROR, NOTADB, result_code
from pgrepl.frozen import frozen

MARK = ".owner"  # in the folder
BESIDE = ".files/"  # behind the name of the catalog


@frozen
class DataFolder:
    """A folder or URI that ends in a slash, and the catalog whose files are in it."""

    path: str
    catalog: str  # its file, or the identity of a database on a server
    system_identifier: int

    @property
    def mark(self) -> bytes:
        return json.dumps({"catalog": self.catalog, "system_identifier": str(self.system_identifier)}).encode() + b"\n"

    def other_owner(self, mark: bytes) -> str | None:
        """The catalog that a mark names, if it is another one that still owns the folder. A folder without a mark
        belongs to the catalog that it stands beside."""
        path = self.path.removeprefix("file://")
        try:
            said = json.loads(mark)
            name, identifier = str(said["catalog"]), int(said["system_identifier"])
        except (ValueError, KeyError, TypeError):
            if not path.endswith(BESIDE) or "://" in path:
                return None
            name, identifier = path.removesuffix(BESIDE), None
        if (name, identifier) == (self.catalog, self.system_identifier):
            return None
        return name if _has_files_in(name, identifier, self) else None


def _has_files_in(name: str, identifier: int | None, folder: DataFolder) -> bool:
    """Is there a catalog of this name with its files in the folder? Yes for one on a server, which is not queried."""
    if not name.startswith("/"):
        return True
    try:
        os.stat(name)
        if os.path.exists(folder.catalog) and os.path.samefile(name, folder.catalog):
            return False
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    asked = _asked(Path(name))
    return asked is None or (identifier in (None, asked[0]) and same_folder(asked[1], folder.path))


def _asked(catalog: Path) -> tuple[int, str] | None:
    """The system identifier and the data path of a catalog; (0, ""): it is no catalog; None: it cannot be read now."""
    try:
        with closing(sqlite3.connect(f"{catalog.as_uri()}?mode=rw", uri=True)) as link:
            found = link.execute(f"SELECT system_identifier, ({sql.DATA_PATH}) FROM pgrepl_instance").fetchone()
    except sqlite3.DatabaseError as problem:
        return (0, "") if result_code(problem) in (ERROR, NOTADB) else None
    return None if found is None else (int(found[0]), str(found[1]))


def same_folder(one: str, other: str) -> bool:
    one, other = one.removeprefix("file://"), other.removeprefix("file://")
    if one == other:
        return True
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def local_mark(path: str) -> bytes:
    """The mark in a folder of this machine; empty: there is none."""
    try:
        return Path(path.removeprefix("file://"), MARK).read_bytes()
    except OSError:
        return b""


__all__ = ["BESIDE", "MARK", "DataFolder", "local_mark", "same_folder"]
