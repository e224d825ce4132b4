"""The copy of a range of a table's pages: read by COPY, decoded by columns, written as a data file, in this process or
a task.

Binary form is less work on both sides; types whose text form users can make differ come as CSV. Values that Arrow
does not read exactly as PostgreSQL writes them are read one by one by the input function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from pgrepl.catalog.facts.relation import Attribute
from pgrepl.engine.copy_rows import RowMaker
from pgrepl.engine.task import keep_memory
from pgrepl.expr.arrow.program import WorkerContext
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pacsv
from pgrepl.lake.write.file_writer import DataFileWriter
from pgrepl.replication.publisher.postgres.copy_rows import binary_rows
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.published import PublishedColumn
from pgrepl.replication.publisher.tables import CountRows
from pgrepl.replication.wire.pgoutput_read import Bytes, Numbers, integers, text_array
from pgrepl.replication.wire.values import NUMBERS, TEXTS, WIRE_STYLE, native_numbers, number_array
from pgrepl.types import oids
from pgrepl.types.lake.arrays import Form, plain_array
from pgrepl.types.lake.column_values import values_of
from pgrepl.types.style import TextStyle
from pgrepl.types.text import writer

if TYPE_CHECKING:
    from pgrepl.engine.copy_rows import KernelColumn, KernelCondition
    from pgrepl.lake.read.data_file import NewFile
    from pgrepl.lake.read.part import PartWatch
    from pgrepl.lake.table import LakeTable


_READ_BY_ARROW = oids.INTEGERS | {
    oids.BOOL, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC, oids.DATE, oids.TIME, oids.TIMESTAMP, oids.TIMESTAMPTZ,
    oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.JSON, oids.JSONB,
}  # fmt: skip


class CopiedColumn:
    """One column of the table here, and the publisher's column that fills it."""

    def __init__(self, sent: PublishedColumn | None, local: Attribute, form: Form, style: TextStyle) -> None:
        """`style`: that of the wire, with what checks domains."""
        self._style = style
        self.sent = sent
        self.local = local
        self.form = form
        self.same = same = sent is None or (sent.type, sent.typmod) == (local.type, local.typmod)
        whole = sent is not None and sent.type in oids.INTEGERS and local.type in oids.INTEGERS
        self.by_arrow = (same and sent is not None and local.type in _READ_BY_ARROW) or whole
        self.csv_type = form.arrow() if self.by_arrow else pa.string()

    def read(self, texts: pa.Array) -> pa.Array:
        """The texts as the column's input function reads them."""
        return values_of(texts, self.local.type, self.local.typmod, self._style, self.form)


class CsvReader:
    """Reads chunks of whole rows."""

    def __init__(self, names: Sequence[str], columns: Sequence[CopiedColumn]) -> None:
        """`names`: the columns as they are sent; `columns`: those of the table, in its order."""
        self.names = [f"s{number}" for number in range(len(names))]
        self._number = {name: number for number, name in enumerate(names)}
        self._columns = columns

    def arrays(self, chunk: bytes, at: Any = None) -> tuple[list[Any], int]:
        """The rows of a chunk as the table's columns, and their number."""
        sent = [column for column in self._columns if column.sent is not None]
        try:
            read = self._read(chunk, {self._name(column): column.csv_type for column in sent})
            exact = True
        except pa.ArrowInvalid:
            read = self._read(chunk, {})
            exact = False
        arrays: list[Any] = []
        for column in self._columns:
            if column.sent is None:
                arrays.append(pa.nulls(read.num_rows, column.form.arrow()))
                continue
            array = read.column(self._name(column)).combine_chunks()
            plain = column.by_arrow and (exact or array.type == column.csv_type)
            arrays.append(array if plain else column.read(array))
        return arrays, read.num_rows

    def texts(self, chunk: bytes) -> pa.Table:
        """The rows of a chunk as columns s0 … sn of text."""
        return self._read(chunk, {})

    def _name(self, column: CopiedColumn) -> str:
        assert column.sent is not None
        return self.names[self._number[column.sent.name]]

    def _read(self, chunk: bytes, types: dict[str, Any]) -> pa.Table:
        return pacsv.read_csv(
            pa.BufferReader(chunk),
            pacsv.ReadOptions(column_names=self.names, block_size=len(chunk) + 16, use_threads=False),
            pacsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            pacsv.ConvertOptions(
                column_types={name: types.get(name, pa.string()) for name in self.names},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["t"],
                false_values=["f"],
            ),
        )


# --- copy binary ------------------------------------------------------------------------------------------------------


_NATIVE = frozenset((*NUMBERS, *TEXTS, oids.BOOL, oids.JSONB))
_OWN_CAST = frozenset((oids.INET, oids.CIDR, oids.XML, oids.NAME, oids.CHAR))  # to text


def is_binary(columns: Sequence[CopiedColumn]) -> bool:
    types = [column.sent.type for column in columns if column.sent is not None]
    return all(typoid not in _OWN_CAST and typoid < oids.FIRST_USER_OID for typoid in types)


def expression(typoid: int, identifier: str) -> str:
    """The expression of a column in the query that the server runs."""
    return identifier if typoid in _NATIVE else f"{identifier}::text"


class BinaryChunkReader:
    """Reads chunks of rows of COPY's binary format."""

    def __init__(self, names: Sequence[str], columns: Sequence[CopiedColumn]) -> None:
        """Parameters as for CsvReader."""
        by_name = {column.sent.name: column for column in columns if column.sent is not None}
        self._sent = [by_name[name] for name in names]
        self._columns = columns

    def arrays(self, data: bytes, at: Any) -> tuple[list[pa.Array], int]:
        """The rows that begin at these places, as the table's columns, and their number."""
        raw: Bytes = np.frombuffer(data, np.uint8)
        at = at + 2  # the number of columns
        arrays: dict[int, pa.Array] = {}
        for column in self._sent:
            length = integers(raw, at, ">i4")
            present = length >= 0
            length = np.maximum(length, 0)
            arrays[id(column)] = _array(column, raw, at + 4, length, present)
            at = at + 4 + length
        count = len(at)
        return [pa.nulls(count, c.form.arrow()) if c.sent is None else arrays[id(c)] for c in self._columns], count


def _array(
    column: CopiedColumn, raw: Bytes, start: Numbers, length: Numbers, present: npt.NDArray[np.bool_]
) -> pa.Array:
    assert column.sent is not None
    typoid = column.sent.type
    if typoid in NUMBERS:
        return _numbers(column, typoid, native_numbers(raw, start, typoid), present)
    if typoid == oids.BOOL:
        texts = pa.array(raw[start] != 0, mask=~present)
        return texts if column.by_arrow else column.read(pa.array(_letters(texts), pa.string()))
    if typoid == oids.JSONB:  # a version comes first
        start, length = start + 1, np.maximum(length - 1, 0)
    texts = text_array(raw, start, length, present)
    if not column.by_arrow:
        return column.read(texts)
    if texts.type == column.csv_type:
        return texts
    try:
        return texts.cast(column.csv_type)
    except pa.ArrowInvalid:
        return column.read(texts)


def _letters(values: pa.Array) -> list[str | None]:
    return [None if value is None else "t" if value else "f" for value in values.to_pylist()]


def _numbers(column: CopiedColumn, typoid: int, values: npt.NDArray[Any], present: npt.NDArray[np.bool_]) -> pa.Array:
    if not column.by_arrow:
        return _through_text(column, typoid, values, present)
    numbers = number_array(typoid, values, present, column.csv_type)
    if numbers is not None:
        return numbers
    return column.form.to_array([v if p else None for v, p in zip(values.tolist(), present.tolist(), strict=True)])


def _through_text(
    column: CopiedColumn, typoid: int, values: npt.NDArray[Any], present: npt.NDArray[np.bool_]
) -> pa.Array:
    """A column of another type here reads the text of the publisher's type."""
    write = writer(typoid)
    texts = [write(v, WIRE_STYLE) if p else None for v, p in zip(values.tolist(), present.tolist(), strict=True)]
    return column.read(pa.array(texts, pa.string()))


# --- copy ranges ------------------------------------------------------------------------------------------------------


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
    files: list[NewFile] = []
    try:
        write(part.table, reader, maker, rows, files, watch.add, part.folder)
    except Declined as reason:
        return CopiedPages(declined=str(reason))
    return CopiedPages(tuple(files))


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
    files: list[NewFile],
    count_rows: CountRows,
    folder: str | None = None,
) -> NewFile | None:
    """Write a data file, and append it to `files`; None: there are no rows. `folder`: see DataFileWriter."""
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
    files.append(file)
    return file
