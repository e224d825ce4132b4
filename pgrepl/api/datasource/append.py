"""Writes of Spark: tasks write Parquet files, and the driver's commit copies them into the table in one transaction.

Files of failed or repeated tasks are in no commit message. A commit may move a replication origin along; one that
finds the origin there already does nothing, so that a repeated batch of a stream is written once.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from pgrepl.api.datasource.options import SourceOptions, find_table
from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa, pq
from pgrepl.lake import storage
from pgrepl.replication.origins import advance_origin, check_origin_name, create_origin, origin_or_none
from pgrepl.sql.keywords import quote_identifier, quote_qualified
from pgrepl.sql.parser import parse
from pgrepl.statements.run import run_work
from pgrepl.types.plain import parse_lsn
from pgrepl.writing.copy.copy_from import check_copy, copy_files

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pgrepl.api.opened import OpenedSession
    from pgrepl.catalog.session.session import Session

_ROWS = 10_000
_TYPES = {
    "boolean": "bool_", "tinyint": "int8", "smallint": "int16", "int": "int32", "bigint": "int64", "float": "float32",
    "double": "float64", "string": "string", "binary": "binary", "date": "date32",
}  # fmt: skip


def batches(rows: Iterable[Any], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Rows of Spark as batches of Arrow."""
    kinds = pa.schema([(field.name, arrow_type(field.dataType.simpleString())) for field in schema.fields])
    source = iter(rows)
    while portion := list(islice(source, _ROWS)):
        columns = zip(*portion, strict=True)
        arrays = [pa.array(list(values), kind.type) for values, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=kinds)


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a type that Spark prints as `decimal(10,2)` or `array<int>`."""
    if name in _TYPES:
        return getattr(pa, _TYPES[name])()
    if name in ("timestamp", "timestamp_ntz"):
        return pa.timestamp("us", "UTC" if name == "timestamp" else None)
    if match := re.fullmatch(r"decimal\((\d+),(\d+)\)", name):
        return pa.decimal128(int(match[1]), int(match[2]))
    if match := re.fullmatch(r"array<(.+)>", name):
        return pa.list_(arrow_type(match[1]))
    raise PgError("0A000", f"a column of Spark's type {name} is not supported", hint="Cast it to a string.")


# --- append -----------------------------------------------------------------------------------------------------------


FOLDER = ".writes/"
_KEPT = 86_400  # seconds after which a file that no commit has taken is removed


@frozen
class Progress:
    """A replication origin, and the position that a write moves it to."""

    origin: str
    position: int


@frozen
class Written:
    """A file of a task: its path, and its number of rows."""

    path: str
    rows: int


# --- in a task -------------------------------------------------------------------------------------------------------


def write_file(folder: str, batches: Iterable[pa.RecordBatch]) -> Written | None:
    """Write batches into a new file in the folder; None if there are no rows."""
    filled = _with_rows(batches)
    first = next(filled, None)
    if first is None:
        return None
    path = f"{folder}{storage.uuid7()}.parquet"
    rows = 0
    try:
        with storage.writing(path):
            storage.make_folder(folder)
            with storage.open_output(path) as sink, pq.ParquetWriter(sink, first.schema) as writer:
                for batch in (piece for part in ([first], filled) for piece in part):
                    writer.write_table(pa.Table.from_batches([batch]))
                    rows += batch.num_rows
        storage.make_durable(path)
    except BaseException:
        storage.remove(path)
        raise
    return Written(path, rows)


def _with_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield batch


# --- at the driver ---------------------------------------------------------------------------------------------------


def prepare(options: SourceOptions, columns: Sequence[str]) -> str:
    """The folder for the tasks' files; an error if the table cannot take these columns, before anything is written."""
    with options.session() as opened:
        session = opened.session
        run_work(session, "COPY FROM", lambda: check_copy(session, _statement(session, options, columns)))
        return str(session.catalog.data_path) + FOLDER


def _statement(session: Session, options: SourceOptions, columns: Sequence[str]) -> Any:
    table = find_table(session, options.required("table"))
    listed = ", ".join(map(quote_identifier, columns))
    name = quote_qualified(table.schema, table.name)
    return parse(f"COPY {name} ({listed}) FROM STDIN (FORMAT parquet)")[0].stmt


def commit(
    options: SourceOptions,
    columns: Sequence[str],
    files: Sequence[Written],
    progress: Progress | None,
    *,
    overwrite: bool = False,
) -> int:
    """Copy the files into the table, once; returns the number of rows that are new. The files are removed."""
    with options.session() as opened:
        session = opened.session

        def work() -> int:
            count = 0
            if files:
                count = copy_files(session, _statement(session, options, columns), [file.path for file in files])
            if progress is not None:
                _advance(session, progress)
            return count

        count = 0
        if progress is None or not _is_reached(session, progress):
            with suppress(_Done), _block(opened, options, overwrite=overwrite):
                count = run_work(session, "COPY FROM", work)
        clean(session)
    discard(files)
    return count


class _Done(Exception):
    """Another process has committed this write meanwhile."""


class _block:
    """A transaction that empties the table first, if it is to be overwritten."""

    def __init__(self, opened: OpenedSession, options: SourceOptions, *, overwrite: bool) -> None:
        self._opened = opened
        self._options = options
        self._overwrite = overwrite

    def _run(self, statement: str) -> None:
        for _ in self._opened.run(statement):
            pass

    def __enter__(self) -> None:
        if not self._overwrite:
            return
        session = self._opened.session
        with reading(session):
            table = find_table(session, self._options.required("table"))
        self._run("BEGIN")
        try:
            self._run(f"TRUNCATE {quote_qualified(table.schema, table.name)}")
        except BaseException:
            self._run("ROLLBACK")
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._overwrite:
            self._run("COMMIT" if kind is None else "ROLLBACK")


def _is_reached(session: Session, progress: Progress) -> bool:
    with reading(session):
        check_origin_name(progress.origin)
        row = origin_or_none(session, progress.origin)
        return row is not None and (row.remote_lsn or 0) >= progress.position


def _advance(session: Session, progress: Progress) -> None:
    """Move the origin in the running transaction. The write lock is held, so that nobody else moves it meanwhile."""
    session.transaction.require_write()
    row = origin_or_none(session, progress.origin)
    if row is None:
        create_origin(session, progress.origin)
    elif (row.remote_lsn or 0) >= progress.position:
        raise _Done
    advance_origin(session, progress.origin, progress.position, session.transaction.numbering.last_snapshot() + 1)


def discard(files: Sequence[Written]) -> None:
    for file in files:
        with suppress(PgError):
            storage.remove(file.path)


def clean(session: Session) -> None:
    """Remove old files that no commit has taken. A file's name says when it was made."""
    with suppress(PgError):
        for path, _ in storage.listed(session.catalog.data_path + FOLDER):
            stamp = path.rpartition("/")[2].replace("-", "")[:12]
            with suppress(ValueError):
                if time.time() - int(stamp, 16) / 1000 > _KEPT:
                    storage.remove(path)


# --- progress --------------------------------------------------------------------------------------------------------


def progress_of_job(options: SourceOptions) -> Progress | None:
    """The origin and position that make a job's write happen once; None: it says none."""
    origin, position = options.get("origin"), options.get("position")
    if origin is None and position is None:
        return None
    if origin is None or position is None:
        raise PgError(
            "22023",
            'the options "origin" and "position" belong together',
            hint='Such as .option("origin", "nightly").option("position", "20240501").',
        )
    check_origin_name(origin)
    return Progress(origin, _position(position))


def _position(text: str) -> int:
    """A whole number, or an LSN."""
    position = int(text) if text.isascii() and text.isdigit() else parse_lsn(text)
    if not 0 < position < 2**63:
        raise PgError("22023", f'invalid value for option "position": "{text}"')
    return position


def progress_of_batch(options: SourceOptions, batch: int) -> Progress:
    """The position of a stream's batch. The origin is named for the query, whose identifier is in the checkpoint: a
    query that begins anew with another checkpoint counts its batches from zero."""
    origin = options.get("origin")
    if origin is None:
        place = options.get("checkpointlocation")
        if place is None:
            raise PgError(
                "22023",
                "writing a stream needs a name for its progress",
                hint='Add .option("checkpointLocation", …) to the stream, or .option("origin", "name").',
            )
        origin = f"spark_{_query_id(place)}"
    return Progress(origin, batch + 1)


def _query_id(place: str) -> str:
    path = place.rstrip("/") + "/metadata"
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    try:
        with storage.reading(path), storage.open_input(path) as file:
            return str(json.loads(file.read())["id"])
    except (PgError, ValueError, KeyError) as problem:
        raise PgError(
            "58P01", f'could not read the identifier of the query in "{path}"', hint='Add .option("origin", "name").'
        ) from problem
