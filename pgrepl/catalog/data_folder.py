"""Where the files of a catalog's tables are, and that they are its own.

The files stand beside the catalog, in `catalog.db.files/`, or where `--data-path` said. Paths in the catalog are
relative to that folder, which DuckLake's readers find by its absolute name (`data_path`). So a catalog that was moved
or copied together with its files names the wrong folder at first: when it is opened, it takes the files that came
along.

A folder has one owner, for VACUUM removes what its catalog does not know. The owner's mark in it (`.owner`) is made
before the first file. A mark counts as long as the catalog that it names is there and has its files in this folder.
Whoever finds the mark of another may read the files, but neither writes nor removes any:

    cp -r A B           B has its own files; the mark that came along names A, which has its files elsewhere: it is B's
    mv A B              the mark names A, which is gone: it is B's
    cp A/catalog.db B   B reads A's files. It cannot write until it has files of its own

Rule: here stands what is local to this machine; lake/owner.py makes the mark, object stores included.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.engine import CatalogConnection

MARK = ".owner"  # in the folder
BESIDE = ".files/"  # behind the name of the catalog
_PATIENCE = 1.0  # seconds to wait for the catalog's lock; who opens it next tries again
_LOOKED_AT = 50  # files that tell whether a folder is the right one
_DATA_PATH = "SELECT value FROM ducklake_metadata WHERE key = 'data_path' AND scope IS NULL"
_WITH_PATHS = ("ducklake_schema", "ducklake_table", "ducklake_data_file", "ducklake_delete_file")


@frozen
class DataFolder:
    """A folder or URI that ends in a slash, and the catalog whose files are in it."""

    path: str
    catalog: str  # its file, or what names a database of a server
    system_identifier: int

    @property
    def mark(self) -> bytes:
        return json.dumps({"catalog": self.catalog, "system_identifier": str(self.system_identifier)}).encode() + b"\n"

    def other_owner(self, mark: bytes) -> str | None:
        """The catalog that a mark names, if that is another and the folder still belongs to it. A folder without a mark
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
    """Is there a catalog of this name that has its files in the folder? Of a server's nobody here knows."""
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
    """What a catalog says of itself, (0, "") where it is none; None: it does not answer."""
    try:
        with closing(sqlite3.connect(f"{catalog.as_uri()}?mode=rw", uri=True)) as link:
            found = link.execute(f"SELECT system_identifier, ({_DATA_PATH}) FROM pgrepl_instance").fetchone()
    except sqlite3.DatabaseError as problem:
        return (0, "") if "no such table" in str(problem) or "not a database" in str(problem) else None
    return int(found[0]), str(found[1])


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


# --- a catalog that was moved or copied ---------------------------------------------------------------------------


def found_beside(link: CatalogConnection, folder: DataFolder) -> str | None:
    """Where the catalog's files are, if they are not in the folder that it names; None: there."""
    before = folder.path.removeprefix("file://")
    here = os.path.dirname(folder.catalog)
    beside = folder.catalog + BESIDE
    if "://" in before or same_folder(before, beside):
        return None
    named = _named_files(link)
    for now in (beside, f"{here}/{os.path.basename(before.rstrip('/'))}/"):
        if not same_folder(now, before) and os.path.isdir(now) and named and _has(now, named):
            return now if folder_of(folder, now).other_owner(local_mark(now)) is None else None
    if not named and before.endswith(BESIDE) and _is_others(before, folder):
        return beside  # nothing is lost by beginning there
    if not os.path.exists(before) and before.endswith(BESIDE) and not os.path.exists(before.removesuffix(BESIDE)):
        return beside
    return None


def folder_of(folder: DataFolder, path: str) -> DataFolder:
    return DataFolder(path, folder.catalog, folder.system_identifier)


def _is_others(before: str, folder: DataFolder) -> bool:
    """Does the folder stand beside a catalog that is not this one?"""
    other = before.removesuffix(BESIDE)
    return os.path.exists(other) and not os.path.samefile(other, folder.catalog)


def may_take(link: CatalogConnection, folder: DataFolder, wanted: str) -> bool:
    """Are the catalog's files in the folder that somebody names, and no longer, or not for it, where it thinks?"""
    there, before = wanted.removeprefix("file://"), folder.path.removeprefix("file://")
    if "://" in there or "://" in before or folder_of(folder, wanted).other_owner(local_mark(wanted)) is not None:
        return False
    lost = not os.path.isdir(before) or folder.other_owner(local_mark(before)) is not None
    named = _named_files(link)
    return lost and bool(named) and _has(there, named)


def _named_files(link: CatalogConnection) -> list[str]:
    """Some of the catalog's files, relative to the folder that all are in."""
    named: list[str] = []
    for table in ("ducklake_data_file", "ducklake_delete_file"):
        for path, *above in link.execute(
            f"SELECT s.path, s.path_is_relative, t.path, t.path_is_relative, f.path FROM {table} f"
            " JOIN ducklake_table t ON t.table_id = f.table_id JOIN ducklake_schema s ON s.schema_id = t.schema_id"
            " WHERE f.path_is_relative AND f.end_snapshot IS NULL AND t.end_snapshot IS NULL"
            f" AND s.end_snapshot IS NULL ORDER BY f.data_file_id DESC LIMIT {_LOOKED_AT}"
        ):
            schema_relative, table_path, table_relative, file = above
            if schema_relative and table_relative:
                named.append(path + table_path + file)
    return named


def _has(folder: str, named: list[str]) -> bool:
    return all(os.path.exists(os.path.join(folder, name)) for name in named)


def move(link: CatalogConnection, before: str, now: str) -> None:
    """The catalog's files are in another folder: it says so, where it names them by their whole paths, too."""
    link.begin(write=True, lock_timeout=_PATIENCE)
    mark = link.mark
    for table in (*_WITH_PATHS, "ducklake_files_scheduled_for_deletion"):
        link.execute(
            f"UPDATE {table} SET path = {mark} || substr(path, {mark}) WHERE NOT path_is_relative"
            f" AND substr(path, 1, {mark}) = {mark}",
            (now, len(before) + 1, len(before), before),
        )
    link.execute(f"UPDATE ducklake_metadata SET value = {mark} WHERE key = 'data_path' AND scope IS NULL", (now,))
    link.commit()


__all__ = ["MARK", "DataFolder", "found_beside", "local_mark", "may_take", "move"]
