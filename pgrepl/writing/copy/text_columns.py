r"""Large text and CSV files as whole columns: blocks of lines that Arrow splits as PostgreSQL would, or that are
`Unusual` and read line by line.

Arrow knows neither backslashes nor `a"b"c` nor `\.`, but is many times faster than a loop over lines. An error is not
reported here: the caller reads the file line by line up to the first one. For Spark, values go into temporary Parquet
files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from pyarrow import csv

from pgrepl.engine.result_spark import result_folder
from pgrepl.engine.scan_spark import parquet_frame
from pgrepl.expr.catalog_trees import null_of
from pgrepl.expr.tree import Column, Const, Expr, Query, RangeRef, Rte, RteKind, Target, Var
from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import np, pa, pc, pq
from pgrepl.lake import storage
from pgrepl.lake.table import lake_table
from pgrepl.query.shape import OutsideRows
from pgrepl.types import oids
from pgrepl.types.input_checks import is_utf8
from pgrepl.types.lake.arrays import Form, plain_array
from pgrepl.types.lake.column_values import values_of
from pgrepl.types.lake.forms import form
from pgrepl.types.lake.nested_words import bytes_of
from pgrepl.writing.copy.copy_options import CopyOptions
from pgrepl.writing.copy.fields import decoded, unescaped
from pgrepl.writing.copy.reader import CopyReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.writing.copy.endpoints import Incoming
    from pgrepl.writing.copy.target import CopyTarget

SIZE = 8 << 20
_BACKSLASH = ord("\\")
_CUTS = 64  # ends of lines that are tried before more is read


class Unusual(Exception):
    """The block must be read line by line."""


def blocks(pieces: Iterable[bytes], options: CopyOptions) -> Iterator[bytes]:
    """The bytes of a file, cut between lines. In CSV a line goes on while a quote is open."""
    kept: list[bytes] = []
    size = 0
    for piece in pieces:
        kept.append(piece)
        size += len(piece)
        if size < SIZE:
            continue
        data = b"".join(kept)
        cut = _cut(data, options)
        if cut:
            yield data[:cut]
        kept, size = [data[cut:]], 0
    data = b"".join(kept)
    if data:
        yield data


def _cut(data: bytes, options: CopyOptions) -> int:
    quote = options.quote.encode()
    end = len(data)
    for _ in range(_CUTS):
        end = data.rfind(b"\n", 0, end)
        if end < 0 or not options.csv or not data.count(quote, 0, end) % 2:
            return end + 1
    return 0


def header_end(block: bytes, options: CopyOptions) -> int:
    """The position behind the first line of a file; 0: it does not end in this block."""
    quote, end = options.quote.encode(), -1
    while True:
        end = block.find(b"\n", end + 1)
        if end < 0 or not options.csv or not block.count(quote, 0, end) % 2:
            return end + 1


class Splitter:
    """Splits blocks of one file into columns. All lines must end as the first one does."""

    def __init__(self, options: CopyOptions, columns: int) -> None:
        self._options = options
        self._names = [f"c{number}" for number in range(columns)]
        self._end = b""
        self._quote = options.quote.encode() if options.csv else b""

    def split(self, block: bytes) -> list[pa.Array]:
        """The columns as text, with NULL where the file has its marker."""
        self._look(block)
        if not block.endswith(b"\n"):  # without it Arrow takes an empty field at the end for no NULL
            block += self._end or b"\n"
        try:
            table = self._read(block)
        except pa.ArrowInvalid as problem:  # lines of another number of fields, invalid UTF-8
            raise Unusual from problem
        columns = [column.combine_chunks() for column in table.columns]
        arrays = [column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in columns]
        if self._options.csv:
            self._check_quotes(block, arrays)
            return arrays
        return [_without_escapes(array) for array in arrays]

    def _look(self, block: bytes) -> None:
        returns = block.count(b"\r")
        self._end = self._end or (b"\r\n" if returns else b"\n" if b"\n" in block else b"")
        if returns and (self._end == b"\n" or not returns == block.count(b"\r\n") == block.count(b"\n")):
            raise Unusual
        if self._end == b"\r\n" and block.count(b"\n") != returns:
            raise Unusual
        if b"\0" in block or block.startswith((b"\xef\xbb\xbf", b"\n", b"\r")):
            raise Unusual
        if (b"\r\n\r\n" if returns else b"\n\n") in block:  # one empty field to PostgreSQL
            raise Unusual
        if self._options.csv:
            if block.startswith(b"\\.") or b"\n\\." in block or block.count(self._quote) % 2:
                raise Unusual
        elif b"\\" in block and not _escapes_are_plain(block):
            raise Unusual

    def _read(self, block: bytes) -> pa.Table:
        options = self._options
        quotes = options.csv and self._quote in block
        return csv.read_csv(
            pa.BufferReader(block),
            read_options=csv.ReadOptions(column_names=self._names, block_size=len(block) + 1),
            parse_options=csv.ParseOptions(
                delimiter=options.delimiter,
                quote_char=options.quote if quotes else False,
                double_quote=quotes,
                escape_char=False,
                newlines_in_values=quotes,
                ignore_empty_lines=False,
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(self._names, pa.string()),
                null_values=[options.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _check_quotes(self, block: bytes, arrays: list[pa.Array]) -> None:
        """Unusual if values contain quotes and not all fields are quoted as a whole or not at all: Arrow does not treat
        quotes inside a field as PostgreSQL does."""
        if self._quote not in block:
            return
        if any(pc.any(pc.match_substring(array, self._options.quote)).as_py() for array in arrays):
            if _regular(self._options).fullmatch(block) is None:
                raise Unusual


def _regular(options: CopyOptions) -> re.Pattern[bytes]:
    """Lines of CSV whose fields are quoted as a whole or not at all."""
    quote, delimiter = re.escape(options.quote.encode()), re.escape(options.delimiter.encode())
    quoted = b"%b[^%b]*(?:%b%b[^%b]*)*%b" % (quote, quote, quote, quote, quote, quote)
    return re.compile(b"(?:(?:%b|[^%b%b\n]*)(?:%b|\r?\n))*" % (quoted, quote, delimiter, delimiter))


def _escapes_are_plain(block: bytes) -> bool:
    r"""Whether no backslash stands before the end of a line or a dot, which may be the end of the data."""
    data = np.frombuffer(block, np.uint8)
    behind = data[1:][data[:-1] == _BACKSLASH]
    return not any((behind == byte).any() for byte in b"\n\r.")


def _without_doubled(array: pa.Array) -> pa.Array | None:
    """One backslash for each two of them; None: some are single ones."""
    data, ends = bytes_of(array.fill_null("").cast(pa.large_string()))
    places = np.flatnonzero(data == _BACKSLASH)
    first, second = places[::2], places[1::2]
    if len(first) != len(second) or (second - first != 1).any():
        return None
    left_out = second.searchsorted(ends)
    if (first.searchsorted(ends) != left_out).any():  # one ends a value, the other begins the next one
        return None
    kept = np.ones(len(data), np.bool_)
    kept[second] = False
    edges = (ends - left_out).astype(np.int32)
    halved = pa.StringArray.from_buffers(len(array), pa.py_buffer(edges), pa.py_buffer(data[kept]))
    return pc.if_else(array.is_valid(), halved, None) if array.null_count else halved


def _without_escapes(array: pa.Array) -> pa.Array:
    r"""Resolve escapes like `\t` and `\101`."""
    escaped = pc.match_substring(array, "\\")
    if not pc.any(escaped).as_py():
        return array
    simple = _without_doubled(array)
    if simple is not None:
        return simple
    words: Any = array.filter(escaped).to_pylist()
    if any((len(word) - len(word.rstrip("\\"))) % 2 for word in words):  # it escapes the delimiter behind it
        raise Unusual
    return pc.replace_with_mask(array, pc.fill_null(escaped, False), pa.array([unescaped(word) for word in words]))


_PORTION = 32768  # lines that are made columns together when they are read one by one


def tables(session: Session, target: CopyTarget, options: CopyOptions, data: Incoming) -> Iterator[pa.Table]:
    """The values of a file for which `is_plain` holds, block by block; PgError for a line that cannot be read."""
    splitter = Splitter(options, len(target.columns))
    pieces = blocks(data, options)
    if options.header == "true":
        pieces = _without_header(pieces, options)
    for block in pieces:
        try:
            texts = splitter.split(block)
        except Unusual:
            yield from tables_of_lines(session, target, _lines(session, target, options, block))
        else:
            yield _table(session, target, texts)


def tables_of_lines(session: Session, target: CopyTarget, lines: Iterator[list[Any]]) -> Iterator[pa.Table]:
    """The values of lines that have been split, a portion at a time; PgError as in `tables`."""
    while portion := list(islice(lines, _PORTION)):
        yield _table(session, target, [pa.array(words, pa.string()) for words in zip(*portion, strict=True)])


def is_plain(session: Session, target: CopyTarget, options: CopyOptions) -> bool:
    """Can Arrow split the lines of such a file?"""
    return (
        bool(target.columns)
        and is_utf8(options.encoding or session.settings.get("client_encoding"))
        and is_utf8(session.settings.get("server_encoding"))
        and options.header != "match"
        and options.default is None
        and not options.ignore_errors
        and not any(target.force_null)
        and not any(target.force_not_null)
        and (not options.csv or options.escape == options.quote)
    )


def _without_header(pieces: Iterator[bytes], options: CopyOptions) -> Iterator[bytes]:
    first = next(pieces, b"")
    end = header_end(first, options)
    rest = first[end:] if end else b""
    return chain([rest] if rest else [], pieces)


def _lines(session: Session, target: CopyTarget, options: CopyOptions, block: bytes) -> Iterator[list[Any]]:
    if b"\r" in block or b"\\." in block:
        raise PgError("22P04", "the end of the data is to be found line by line")
    encoding = options.encoding or session.settings.get("client_encoding")
    columns, options = target.copy_columns(), replace(options, header="false")
    return CopyReader(target.relation.name, columns, options, decoded([block], encoding)).fields()


def _table(session: Session, target: CopyTarget, texts: Iterable[Any]) -> pa.Table:
    columns, style = target.copy_columns(), session.text_style
    table = lake_table(session, target.relation.oid)
    arrays = [
        plain_array(values_of(text, column.type, column.typmod, style, table.column(attnum).form))
        for text, column, attnum in zip(texts, columns, target.attnums, strict=True)
    ]
    return pa.table(arrays, names=[column.name for column in columns])


# --- file query -------------------------------------------------------------------------------------------------------


_NAME = "*FILE*"


def file_query(target: CopyTarget, columns: Sequence[Column], exprs: Mapping[int, Expr], rows: OutsideRows) -> Query:
    """`columns` are those of the file, `exprs` the values of the table's columns, by attnum. The WHERE condition sees
    these values."""
    entry = Rte(RteKind.VALUES, _NAME, tuple(columns), alias=_NAME, rows=rows)
    outputs = []
    for column in target.relation.attributes:
        value = exprs.get(column.num)
        if value is None:
            value = Const(oids.INT4) if column.dropped else null_of(column)
        outputs.append(Target(value, column.name, column.num))
    query = Query(tuple(outputs), (entry,), (RangeRef(1),))
    if target.where is None:
        return query
    inner = Rte(RteKind.SUBQUERY, _NAME, query.columns, alias=_NAME, subquery=query)
    passed = tuple(replace(output, expr=_var(output.expr, output.resno)) for output in outputs)
    return Query(passed, (inner,), (RangeRef(1),), target.where)


def _var(expr: Expr, number: int) -> Var:
    return Var(expr.type, typmod=expr.typmod, collation=expr.collation, varno=1, attnum=number)


_ROWS_IN_FILE = 2_000_000


def write_files(tables: Iterator[pa.Table], folder: str) -> list[str]:
    """Write the tables, at least one, to files; returns their paths."""
    paths: list[str] = []
    waiting = next(tables, None)
    while waiting is not None:
        path = f"{folder}{len(paths)}.parquet"
        paths.append(path)
        written = 0
        with (
            storage.writing(path),
            storage.open_output(path) as output,
            pq.ParquetWriter(output, waiting.schema, store_schema=False) as writer,
        ):
            while waiting is not None and written < _ROWS_IN_FILE:
                writer.write_table(waiting)
                written += waiting.num_rows
                waiting = next(tables, None)
    return paths


# --- typed files ------------------------------------------------------------------------------------------------------


@contextmanager
def typed_files(session: Session, target: CopyTarget, options: CopyOptions, data: Incoming) -> Iterator[Query | None]:
    """A query over the rows of the file as they come into the table. None: the file must be read line by line."""
    if not is_plain(session, target, options):
        yield None
        return
    columns = target.columns
    with result_folder(session.catalog.data_path) as folder:
        try:
            rows = _TypedRows(
                [form(a.type, a.typmod) for a in columns], write_files(_tables(session, target, options, data), folder)
            )
        except PgError:
            yield None
            return
        given = [Column(a.name, a.type, a.typmod, a.collation) for a in columns]
        exprs = dict(target.defaults)
        for number, a in enumerate(columns, 1):
            exprs[a.num] = Var(a.type, typmod=a.typmod, collation=a.collation, varno=1, attnum=number)
        yield file_query(target, given, exprs, rows)


def _tables(session: Session, target: CopyTarget, options: CopyOptions, data: Incoming) -> Iterator[pa.Table]:
    """At least one table, with columns c1, c2 …"""
    names = [f"c{number}" for number in range(1, len(target.columns) + 1)]
    table = None
    for table in tables(session, target, options, data):
        yield table.rename_columns(names)
    if table is None:
        yield pa.table([form(a.type, a.typmod).to_array([]) for a in target.columns], names=names)


class _TypedRows(OutsideRows):
    def __init__(self, forms: Sequence[Form], paths: list[str]) -> None:
        self._forms = forms
        self._paths = paths

    def frame(self, numbers: Sequence[int]) -> DataFrame:
        columns = [(f"c{n}", kind.spark) for n, kind in enumerate(self._forms, 1)]
        return parquet_frame(columns, self._paths).select(*[f"c{n}" for n in numbers])

    def _tables(self) -> Iterator[pa.Table]:
        for path in self._paths:
            with storage.open_input(path) as file:
                yield pq.read_table(file)

    def __len__(self) -> int:
        return sum(table.num_rows for table in self._tables())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for table in self._tables():
            columns = [kind.from_array(column) for kind, column in zip(self._forms, table.columns, strict=True)]
            yield from zip(*columns, strict=True)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]
