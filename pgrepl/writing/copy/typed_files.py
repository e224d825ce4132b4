"""A large text or CSV file for Spark: this process reads its values and writes them to temporary Parquet files.

Arrow splits the lines block by block and makes values of them; a block with anything unusual in it is read line by
line. An error in the file is not reported here: the whole file is then read line by line up to the first error, whose
line is known then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.expr.tree import Column, Var
from pgrepl.lake import storage
from pgrepl.lake.spark_result import result_folder
from pgrepl.query.outside import OutsideRows
from pgrepl.types.encodings import is_utf8
from pgrepl.types.lake_arrays import Form
from pgrepl.types.lake_forms import form
from pgrepl.writing.copy.arrow_values import values_of
from pgrepl.writing.copy.blocks import Splitter, Unusual, blocks, header_end
from pgrepl.writing.copy.encoding import decoded
from pgrepl.writing.copy.file_query import file_query
from pgrepl.writing.copy.files_for_spark import write_files
from pgrepl.writing.copy.reader import CopyReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.expr.tree import Query
    from pgrepl.writing.copy.copy_options import CopyOptions
    from pgrepl.writing.copy.endpoints import Incoming
    from pgrepl.writing.copy.target import CopyTarget


@contextmanager
def typed_files(session: Session, target: CopyTarget, options: CopyOptions, data: Incoming) -> Iterator[Query | None]:
    """A query over the rows of the file as they come into the table. None: the file must be read line by line."""
    if not _is_plain(session, target, options):
        yield None
        return
    columns = target.columns
    with result_folder(session.catalog.data_path) as folder:
        try:
            rows = _TypedRows(
                [form(a.type, a.typmod) for a in columns],
                write_files(_tables(session, target, options, data), folder),
            )
        except PgError:
            yield None
            return
        given = [Column(a.name, a.type, a.typmod, a.collation) for a in columns]
        exprs = dict(target.defaults)
        for number, a in enumerate(columns, 1):
            exprs[a.num] = Var(a.type, typmod=a.typmod, collation=a.collation, varno=1, attnum=number)
        yield file_query(target, given, exprs, rows)


def _is_plain(session: Session, target: CopyTarget, options: CopyOptions) -> bool:
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


# --- writing ----------------------------------------------------------------------------------------------------------


def _tables(session: Session, target: CopyTarget, options: CopyOptions, data: Incoming) -> Iterator[pa.Table]:
    import pyarrow as pa

    columns, style = target.columns, session.text_style
    splitter = Splitter(options, len(columns))
    names = [f"c{number}" for number in range(1, len(columns) + 1)]
    pieces = blocks(data, options)
    if options.header == "true":
        pieces = _without_header(pieces, options)
    arrays = None
    for block in pieces:
        try:
            texts = splitter.split(block)
        except Unusual:
            arrays = _line_by_line(session, target, options, block)
        else:
            arrays = [values_of(text, a.type, a.typmod, style) for text, a in zip(texts, columns, strict=True)]
        yield pa.table(arrays, names=names)
    if arrays is None:
        yield pa.table([form(a.type, a.typmod).to_array([]) for a in columns], names=names)


def _without_header(pieces: Iterator[bytes], options: CopyOptions) -> Iterator[bytes]:
    first = next(pieces, b"")
    end = header_end(first, options)
    rest = first[end:] if end else b""
    return chain([rest] if rest else [], pieces)


def _line_by_line(session: Session, target: CopyTarget, options: CopyOptions, block: bytes) -> list[pa.Array]:
    from pgrepl.lake.scan import storage_array

    if b"\r" in block or b"\\." in block:
        raise PgError("22P04", "the end of the data is to be found line by line")
    reader = CopyReader(
        target.relation.name,
        target.copy_columns(),
        replace(options, header="false"),
        decoded([block], options.encoding or session.settings.get("client_encoding")),
        session.text_style,
    )
    kinds = [form(a.type, a.typmod) for a in target.columns]
    rows = list(reader.rows())
    values: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(kinds)
    return [storage_array(kind.to_array(column)) for kind, column in zip(kinds, values, strict=True)]


# --- what stands in FROM ----------------------------------------------------------------------------------------------


class _TypedRows(OutsideRows):
    def __init__(self, forms: Sequence[Form], paths: list[str]) -> None:
        self._forms = forms
        self._paths = paths

    def frame(self, numbers: Sequence[int]) -> DataFrame:
        from pyspark.sql.types import StructField, StructType

        from pgrepl.lake import spark
        from pgrepl.lake.scan import spark_path
        from pgrepl.lake.spark_types import spark_type

        fields = [StructField(f"c{n}", spark_type(kind.spark)) for n, kind in enumerate(self._forms, 1)]
        frame = spark.session().read.schema(StructType(fields)).parquet(*[spark_path(path) for path in self._paths])
        return frame.select(*[f"c{n}" for n in numbers])

    def _tables(self) -> Iterator[pa.Table]:
        import pyarrow.parquet as pq

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
