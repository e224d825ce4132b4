"""The Parquet files that COPY FROM names: one, all in a folder, or those that a pattern matches; and their columns.

Files whose columns are the same are read together. A path with a scheme (`s3://…`) is looked up in that store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.lake import storage
from pgrepl.thread_pool import ThreadPool
from pgrepl.writing.copy.endpoints import file_error
from pgrepl.writing.copy.parquet_types import CopyFileColumn, file_column

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_AT_A_TIME = 8
_PATTERN = re.compile(r"[*?\[]")
_SUFFIXES = (".parquet", ".parq", ".pq")


@frozen
class ParquetGroup:
    """Files with the same columns."""

    columns: tuple[CopyFileColumn, ...]
    paths: tuple[str, ...]
    rows: int

    def column(self, name: str) -> CopyFileColumn | None:
        return next((column for column in self.columns if column.name == name), None)


def parquet_groups(name: str) -> list[ParquetGroup]:
    """The files that the name stands for, in the order of their names. Only their footers are read."""
    return groups_of(parquet_paths(name))


def groups_of(paths: Sequence[str]) -> list[ParquetGroup]:
    with ThreadPool(_AT_A_TIME) as threads:
        described = list(threads.map(_described, paths))
    together: dict[tuple[CopyFileColumn, ...], tuple[list[str], int]] = {}
    for path, (columns, rows) in zip(paths, described, strict=True):
        found, count = together.get(columns, ([], 0))
        together[columns] = ([*found, path], count + rows)
    return [ParquetGroup(columns, tuple(found), count) for columns, (found, count) in together.items()]


def _described(path: str) -> tuple[tuple[CopyFileColumn, ...], int]:
    with opened(path) as file:
        return tuple(file_column(path, file, n) for n in range(len(file.schema_arrow))), file.metadata.num_rows


class opened:
    """A Parquet file, with errors that name it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._reading = storage.reading(path)

    def __enter__(self) -> pq.ParquetFile:
        import pyarrow.parquet as pq

        self._reading.__enter__()
        try:
            self._file = pq.ParquetFile(storage.open_input(self._path), coerce_int96_timestamp_unit="us")
        except BaseException as problem:
            self._reading.__exit__(type(problem), problem, problem.__traceback__)
            raise
        return self._file

    def __exit__(self, *reason: Any) -> None:
        self._file.close()
        self._reading.__exit__(*reason)


# --- names ------------------------------------------------------------------------------------------------------------


def parquet_paths(name: str) -> list[str]:
    if storage.local_path(name) is None:
        paths = _remote(name)
    else:
        paths = _local(storage.local_path(name) or name)
    if not paths:
        raise PgError("58P01", f'no Parquet file is at "{name}"')
    return paths


def _local(name: str) -> list[str]:
    if os.path.isdir(name):
        return sorted(_in_folder(name))
    if os.path.exists(name) or not _PATTERN.search(name):
        try:
            with open(name, "rb"):
                return [os.path.abspath(name)]
        except OSError as error:
            hint = (
                "COPY FROM instructs the PostgreSQL server process to read a file. "
                "You may want a client-side facility such as psql's \\copy."
            )
            raise file_error(f'could not open file "{name}" for reading', error, hint=hint) from error
    import glob

    found: list[str] = []
    for path in sorted(glob.glob(name, recursive=True)):
        found += sorted(_in_folder(path)) if os.path.isdir(path) else [os.path.abspath(path)]
    return list(dict.fromkeys(found))


def _in_folder(folder: str) -> Iterator[str]:
    """The Parquet files in a folder, without hidden files and markers such as _SUCCESS."""
    for base, folders, files in os.walk(os.path.abspath(folder)):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for file in files:
            if file.endswith(_SUFFIXES) and not file.startswith((".", "_")):
                yield os.path.join(base, file)


def _remote(name: str) -> list[str]:
    from fnmatch import fnmatchcase

    from pyarrow import fs

    system, inside = storage.file_system(name)
    scheme = name.partition("://")[0]
    if _PATTERN.search(inside):
        root = inside[: _PATTERN.search(inside).start()].rpartition("/")[0]  # type: ignore[union-attr]
        listed = system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        found = [each.path for each in listed if each.type == fs.FileType.File and fnmatchcase(each.path, inside)]
    else:
        info = system.get_file_info(inside)
        if info.type != fs.FileType.Directory:
            return [name]
        listed = system.get_file_info(fs.FileSelector(inside, recursive=True))
        found = [each.path for each in listed if each.base_name.endswith(_SUFFIXES)]
    return sorted(f"{scheme}://{path}" for path in found)


def total_rows(groups: Sequence[ParquetGroup]) -> int:
    return sum(group.rows for group in groups)
