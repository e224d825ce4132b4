"""A catalog that was moved or copied: finding its files, and correcting its `data_path`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pgrepl.catalog import sql
from pgrepl.catalog.data_folder import BESIDE, DataFolder, local_mark, same_folder

if TYPE_CHECKING:
    from pgrepl.catalog.connection import CatalogConnection

_PATIENCE = 1.0  # seconds to wait for the catalog's lock; the next opening tries again
_LOOKED_AT = 50  # files that tell whether a folder is the right one


def found_beside(link: CatalogConnection, folder: DataFolder) -> str | None:
    """The folder beside the catalog to use in place of its `data_path`, which lacks the catalog's files, is another
    catalog's or is gone. None: no change."""
    before = folder.path.removeprefix("file://")
    here = os.path.dirname(folder.catalog)
    beside = folder.catalog + BESIDE
    if "://" in before or same_folder(before, beside):
        return None
    named = _named_files(link)
    for now in (beside, f"{here}/{os.path.basename(before.rstrip('/'))}/"):
        if not same_folder(now, before) and os.path.isdir(now) and named and _has(now, named):
            return now if _folder_of(folder, now).other_owner(local_mark(now)) is None else None
    if not named and before.endswith(BESIDE) and _is_others(before, folder):
        return beside  # nothing is lost by beginning there
    if not os.path.exists(before) and before.endswith(BESIDE) and not os.path.exists(before.removesuffix(BESIDE)):
        return beside
    return None


def _is_others(before: str, folder: DataFolder) -> bool:
    """Does the folder stand beside a catalog that is not this one?"""
    other = before.removesuffix(BESIDE)
    return os.path.exists(other) and not os.path.samefile(other, folder.catalog)


def may_take(link: CatalogConnection, folder: DataFolder, wanted: str) -> bool:
    """Are the catalog's files in the folder that --data-path names, and is the folder of its `data_path` gone or
    another catalog's?"""
    there, before = wanted.removeprefix("file://"), folder.path.removeprefix("file://")
    if "://" in there or "://" in before or _folder_of(folder, wanted).other_owner(local_mark(wanted)) is not None:
        return False
    lost = not os.path.isdir(before) or folder.other_owner(local_mark(before)) is not None
    named = _named_files(link)
    return lost and bool(named) and _has(there, named)


def _named_files(link: CatalogConnection) -> list[str]:
    """Some of the catalog's files, relative to the folder that all are in."""
    named: list[str] = []
    for table in ("ducklake_data_file", "ducklake_delete_file"):
        for path, *above in link.execute(sql.newest_files(table), (_LOOKED_AT,)):
            schema_relative, table_path, table_relative, file = above
            if schema_relative and table_relative:
                named.append(path + table_path + file)
    return named


def _has(folder: str, named: list[str]) -> bool:
    return all(os.path.exists(os.path.join(folder, name)) for name in named)


def move(link: CatalogConnection, before: str, now: str) -> None:
    """Write the new folder into the catalog: into `data_path`, and into every absolute path."""
    link.begin(write=True, lock_timeout=_PATIENCE)
    for table in (*sql.WITH_PATHS, "ducklake_files_scheduled_for_deletion"):
        link.execute(sql.change_folder(table), (now, len(before) + 1, len(before), before))
    link.execute(sql.SET_DATA_PATH, (now,))
    link.commit()


def _folder_of(folder: DataFolder, path: str) -> DataFolder:
    return DataFolder(path, folder.catalog, folder.system_identifier)
