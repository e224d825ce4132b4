"""The copy of a range of a table's pages: read by COPY, decoded by columns, and written as a data file, in a thread of
this process or in a task of Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any

from pgrepl.errors import Declined, PgError
from pgrepl.expr.without_session import WorkerContext
from pgrepl.frozen import frozen
from pgrepl.lake.kernels.row_maker import RowMaker
from pgrepl.replication.publisher.postgres.copy_binary import BinaryChunkReader
from pgrepl.replication.publisher.postgres.copy_csv import CopiedColumn, CsvReader
from pgrepl.replication.publisher.postgres.copy_rows import binary_rows
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.table_copy import CountRows
from pgrepl.replication.wire.text import WIRE_STYLE
from pgrepl.types.lake_arrays import plain_array

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Attribute
    from pgrepl.lake.data_file import NewFile
    from pgrepl.lake.kernels.part import PartWatch
    from pgrepl.lake.kernels.row_maker import KernelColumn, KernelCondition
    from pgrepl.lake.table import LakeTable
    from pgrepl.replication.publisher.postgres.published import PublishedColumn

Chunk = tuple[bytes, Any]  # whole rows, and the places where they begin (None: CSV)
Reader = CsvReader | BinaryChunkReader
BINARY_CHUNK = 6 << 20  # bytes that are decoded together
CHUNK = 16 << 20  # bytes of CSV that are read together


@frozen
class PagesPart:
    """A task: copy the rows of `query` in the snapshot that the driver has exported. `names`: the columns in the order
    in which they are sent; `columns`: for each column of the target, the published column that fills it."""

    options: tuple[tuple[str, str], ...]  # of the connection
    snapshot: str
    query: str
    binary: bool
    names: tuple[str, ...]
    columns: tuple[tuple[PublishedColumn | None, Attribute], ...]
    made: tuple[KernelColumn, ...]  # with these rules
    check: KernelCondition | None
    table: LakeTable
    folder: str


@frozen
class CopiedPages:
    """The answer for a part; `declined`: why its rows have to be converted or checked otherwise."""

    files: tuple[NewFile, ...] = ()
    declined: str = ""


def copy_pages(part: PagesPart, watch: PartWatch) -> CopiedPages:
    """A kernel, for a task of Spark."""
    link = Link(dict(part.options), "", replication=False)
    try:
        return _copied(link, part, watch)
    finally:
        link.close()


def copy_in_process(part: PagesPart, watch: PartWatch) -> CopiedPages:
    """A kernel, for a process that has one range after the other, and keeps its connection."""
    from pgrepl.lake.kernels.task import keep_memory

    keep_memory()
    link = _kept.pop(part.options, None)
    if link is None:
        link = Link(dict(part.options), "", replication=False)
    else:
        link.rows("ROLLBACK")
    answer = _copied(link, part, watch)  # if it fails the connection is given up
    _kept[part.options] = link
    return answer


_kept: dict[tuple[tuple[str, str], ...], Link] = {}  # of a process that copies, by options


def _copied(link: Link, part: PagesPart, watch: PartWatch) -> CopiedPages:
    enter_snapshot(link, part.snapshot)
    rows = chunks(link, part.query, Event(), part.binary)
    pairs = zip(part.columns, part.table.columns, strict=True)
    style = WorkerContext(WIRE_STYLE, {}).style
    columns = [CopiedColumn(sent, local, column.form, style) for (sent, local), column in pairs]
    reader = reader_of(part.names, columns, binary=part.binary)
    maker = RowMaker(part.table, part.table, part.made, part.check)
    made: list[NewFile] = []
    try:
        write(part.table, reader, maker, rows, made, watch.add, part.folder)
    except Declined as reason:
        return CopiedPages(declined=str(reason))
    return CopiedPages(tuple(made))


def files_of(answers: Sequence[CopiedPages]) -> list[NewFile]:
    """The files of all parts; Declined if one has declined."""
    for answer in answers:
        if answer.declined:
            raise Declined(answer.declined)
    return [file for answer in answers for file in answer.files]


def enter_snapshot(link: Link, snapshot: str) -> None:
    link.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    link.rows(f"SET TRANSACTION SNAPSHOT {link.literal(snapshot)}")


def reader_of(names: Sequence[str], columns: Sequence[CopiedColumn], *, binary: bool) -> Reader:
    return (BinaryChunkReader if binary else CsvReader)(names, columns)


def chunks(link: Link, query: str, stop: Event, binary: bool) -> Iterator[Chunk]:
    """Chunks of whole rows; in the binary format with the places where rows begin."""
    for chunk in (
        binary_rows(link, f"COPY ({query}) TO STDOUT (FORMAT binary)", BINARY_CHUNK) if binary else _lines(link, query)
    ):
        if stop.is_set():
            raise Declined("another part has failed")
        yield chunk


def _lines(link: Link, query: str) -> Iterator[Chunk]:
    held: list[bytes] = []
    size = 0
    for portion in link.copy_out(f"COPY ({query}) TO STDOUT (FORMAT csv)"):
        held.append(b"".join(portion))  # joined at once: many small objects would slow down the garbage collector
        size += len(held[-1])
        if size >= CHUNK:
            yield b"".join(held), None
            held, size = [], 0
    if held:
        yield b"".join(held), None


def write(
    table: LakeTable,
    reader: Reader,
    maker: RowMaker,
    chunks: Iterator[Chunk],
    made: list[NewFile],
    count_rows: CountRows,
    folder: str | None = None,
) -> NewFile | None:
    """Write a data file, and append it to `made`; None: there are no rows. `folder`: see DataFileWriter."""
    from pgrepl.lake.file_writer import DataFileWriter

    writer: DataFileWriter | None = None
    try:
        for data, at in chunks:
            arrays, count = reader.arrays(data, at)
            if not count:
                continue
            read = {column.attnum: plain_array(array) for column, array in zip(table.columns, arrays, strict=True)}
            made_of = maker.made(read, count)
            writer = writer or DataFileWriter(table, folder=folder)
            writer.write_arrays([made_of[column.attnum] for column in table.columns], None, count)
            count_rows(count, len(data))
    except BaseException as problem:
        if writer is not None:
            writer.discard()
        if isinstance(problem, PgError):  # the exact way has to say which row
            raise Declined(problem.message) from problem
        raise
    if writer is None:
        return None
    file = writer.close()
    made.append(file)
    return file
