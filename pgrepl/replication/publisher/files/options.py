"""The options of a connection string with `files`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.replication.libpq.conninfo import FILES, OPTIONS
from pgrepl.replication.publisher.files.listing import is_listed

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

STANDARD_INPUT = "-"
_OWN = frozenset((FILES, "format", "on_error", "removed", "table", "undeclared_columns"))
_BINARY = frozenset(("pgoutput", "parquet", "delta", "ducklake"))
_STOP = "stop"


@frozen
class FilesOptions:
    """`files`: a folder, a file, a pattern, a URI, or STANDARD_INPUT: `pgrepl apply --from` gives the files."""

    files: str
    format: str
    on_error: str | None  # the file for rejected records; None: a record that cannot be read stops the subscription
    may_be_removed: bool  # files may disappear once they have been read
    ignores_undeclared: bool  # columns of records that the declared table does not have are left out
    table: tuple[str | None, str] | None  # of records that name none
    is_sorted: bool  # a column says in which order the records of a file are
    reader: Mapping[str, str]  # the format's own

    @property
    def has_lines(self) -> bool:
        """Whether records are lines, so that a file may end within one."""
        return self.format not in _BINARY

    @classmethod
    def of(cls, session: Session, options: Mapping[str, str]) -> FilesOptions:
        """Raises for a value that none of them may have; the format checks its own when a reader is made."""
        files, named = options[FILES], options.get("format")
        if not files:
            raise PgError("22023", 'invalid value for connection option "files": ""')
        if not named:
            raise PgError(
                "22023",
                'connection option "format" is missing',
                hint="Say how the files are written, for example format=debezium.",
            )
        located = files if files == STANDARD_INPUT else _located(session, files)
        return cls(
            located,
            named,
            _rejects(session, options.get("on_error", _STOP), located),
            _chosen(options, "removed", ("error", "allow")) == "allow",
            _chosen(options, "undeclared_columns", ("error", "ignore")) == "ignore",
            _table(options.get("table")),
            "order" in options,
            {name: value for name, value in options.items() if name not in OPTIONS and name not in _OWN},
        )


def _rejects(session: Session, on_error: str, files: str) -> str | None:
    """The file that `on_error` names: one of this machine, and none that is read."""
    from pgrepl.lake.storage import local_path

    if on_error == _STOP:
        return None
    if not on_error:
        raise PgError("22023", 'invalid value for connection option "on_error": ""')
    path = local_path(_located(session, on_error))
    if path is None:
        raise PgError(
            "0A000",
            f'rejected records cannot be written to "{on_error}"',
            hint="on_error names a file of this machine.",
        )
    if files != STANDARD_INPUT and is_listed(path, files):
        raise PgError(
            "22023",
            f'rejected records cannot be written to "{on_error}": files of changes are read there',
            hint="Name a file elsewhere, or one whose name begins with a dot or an underscore.",
        )
    return path


def _table(name: str | None) -> tuple[str | None, str] | None:
    if name is None:
        return None
    schema, dot, table = name.rpartition(".")
    if not table or (dot and not schema):
        raise PgError("22023", f'invalid value for connection option "table": "{name}"')
    return schema or None, table


def _chosen(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = options.get(name, allowed[0])
    if value not in allowed:
        raise PgError(
            "22023",
            f'invalid value for connection option "{name}": "{value}"',
            hint=f"Available values: {', '.join(allowed)}.",
        )
    return value


def _located(session: Session, path: str) -> str:
    """Relative paths begin in the catalog's folder, wherever a worker is started."""
    if "://" in path or os.path.isabs(path):
        return path
    catalog = session.catalog.path
    if catalog is None:
        raise PgError(
            "22023",
            f'relative path not allowed for files of changes: "{path}"',
            detail="The catalog is on a server, and has no folder.",
            hint="Write the absolute path.",
        )
    return os.path.join(os.path.dirname(os.path.abspath(catalog)), path)
