"""The copy of a catalog for a rehearsal: the same definitions, no rows, and an empty folder for files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.catalog import copied
from pgrepl.catalog.opening import copy_file, open_catalog
from pgrepl.catalog.sql import SET_DATA_PATH
from pgrepl.errors import PgError, unsupported
from pgrepl.lake import sql

if TYPE_CHECKING:
    from pgrepl.catalog.connection import CatalogConnection

NAME = "catalog.db"

_OF_FILES = (
    "ducklake_data_file", "ducklake_delete_file", "ducklake_file_column_stats", "ducklake_file_partition_value",
    "ducklake_file_variant_stats", "ducklake_files_scheduled_for_deletion", "ducklake_table_column_stats",
    "pgrepl_file", "pgrepl_inlined",
)  # fmt: skip


def empty_catalog(folder: Path) -> Path:
    """A new catalog in the folder."""
    path = folder / NAME
    open_catalog(path).close()
    return path


def copy_without_rows(catalog: str, folder: Path) -> Path:
    """A copy of the catalog, as of one moment, in the folder."""
    if "://" in catalog:
        raise unsupported("a rehearsal with a catalog on a database server")
    path = folder / NAME
    copy_file(Path(catalog).absolute(), catalog, path)
    copy = open_catalog(path)  # one of an older format is brought up to date here
    try:
        link = copy.connect()
        try:
            _remove_rows(link, f"{path}.files/")
        finally:
            link.close()
    except PgError as problem:
        raise PgError(problem.sqlstate, f'catalog "{catalog}": {problem.message}', severity="FATAL") from problem
    finally:
        copy.close()
    return path


def _remove_rows(link: CatalogConnection, data_path: str) -> None:
    link.begin(write=True)
    for table, _ in link.execute(sql.EVERY_INLINED_TABLE):
        link.execute(sql.delete_inlined_rows(table, "TRUE"))
    copied.empty(link, _OF_FILES)
    link.execute(sql.NO_ROWS_IN_TABLES)
    copied.forget_processes(link)
    link.execute(SET_DATA_PATH, (data_path,))
    link.commit()
