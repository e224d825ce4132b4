"""COPY TO: rows as lines in text and CSV format (CopyOneRowTo), and Parquet: one file, or a folder where the name ends
in a slash.

Types are stored as in tables of the lake.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import F, np, pa, pc, pq
from pgrepl.lake.read.footers import ROWS_IN_GROUP
from pgrepl.lake.write.file_writer import rows_in_group
from pgrepl.query.rowset import PassingRows, SparkRows
from pgrepl.types.lake.arrays import Form, content
from pgrepl.types.lake.forms import form, is_row_type, row_type_in
from pgrepl.types.lake.structs import file_form, has_renamed_labels
from pgrepl.types.user_types import composite_type
from pgrepl.writing.copy.copy_options import CopyOptions
from pgrepl.writing.copy.endpoints import Outgoing, file_error

if TYPE_CHECKING:
    from pgrepl.types.lake.nested_words import RowTypes

_LETTERS = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}

Quoting = Callable[[str], str]


class LineWriter:
    """Makes the lines of one file, as text; the caller encodes them."""

    def __init__(self, names: Sequence[str], options: CopyOptions, force_quote: Sequence[bool]) -> None:
        self._names = names
        self._null = options.null
        self._delimiter = options.delimiter
        alone = len(names) == 1
        if options.csv:
            self._header_quoting = _csv_field(options, force=False, alone=alone)
            self._quoting = [_csv_field(options, force=force, alone=alone) for force in force_quote]
            self._always_quoted = force_quote
            self._special_characters = "\r\n" + options.delimiter + options.quote
            self._special_texts = [options.null, "\\."]
        else:
            self._always_quoted = [False] * len(names)
            self._special_characters = "".join(_LETTERS) + "\\" + options.delimiter
            self._special_texts = []
            self._header_quoting = _text_field(options)
            self._quoting = [self._header_quoting] * len(names)

    def header(self) -> str:
        return self._delimiter.join([self._header_quoting(name) for name in self._names]) + "\n"

    def line(self, row: Sequence[str | None]) -> str:
        """The values are the texts that the types' output functions give."""
        null = self._null
        fields = [null if text is None else quote(text) for text, quote in zip(row, self._quoting, strict=True)]
        return self._delimiter.join(fields) + "\n"

    def lines(self, columns: Sequence[Any]) -> Any:
        """The lines of many rows: arrays of large strings, of the values of each column."""
        text = pa.large_string()
        join = partial(pc.binary_join_element_wise, null_handling="replace", null_replacement=self._null)
        fields = [self._field(number, column) for number, column in enumerate(columns)]
        fields[-1] = join(fields[-1], pa.scalar("", text), pa.scalar("\n", text))
        return join(*fields, pa.scalar(self._delimiter, text))

    def _field(self, number: int, column: Any) -> Any:
        """A column's fields. Texts are looked at one by one only if one of them has a special character."""
        if not self._always_quoted[number] and not self._has_special(column):
            return column
        quote = self._quoting[number]
        return pa.array([None if text is None else quote(text) for text in column.to_pylist()], pa.large_string())

    def _has_special(self, column: Any) -> bool:
        if self._special[np.frombuffer(content(column), np.uint8)].any():
            return True
        whole = pa.array(self._special_texts, pa.large_string())
        return bool(len(whole)) and bool(pc.any(pc.is_in(column, value_set=whole)).as_py())

    @cached_property
    def _special(self) -> Any:
        """A mask of the bytes that are special in a field."""
        found = np.zeros(256, bool)
        found[list(self._special_characters.encode())] = True
        return found


def _text_field(options: CopyOptions) -> Quoting:
    """Puts backslashes before characters that have a meaning to a reader."""
    special = re.compile(f"[\b-\r\\\\{re.escape(options.delimiter)}]")

    def escape(found: re.Match[str]) -> str:
        return _LETTERS.get(found[0]) or "\\" + found[0]

    search, sub = special.search, special.sub
    return lambda text: sub(escape, text) if search(text) else text


def _csv_field(options: CopyOptions, *, force: bool, alone: bool) -> Quoting:
    quote, escape, null = options.quote, options.escape, options.null
    needs_quotes = re.compile(f"[\r\n{re.escape(options.delimiter + quote)}]").search
    marks = re.compile(f"[{re.escape(quote + escape)}]")
    # Alone on a line it would end the data.
    marker = "\\." if alone else None

    def quoted(text: str) -> str:
        return quote + marks.sub(lambda found: escape + found[0], text) + quote

    if force:
        return quoted
    return lambda text: quoted(text) if text in (null, marker) or needs_quotes(text) else text


# --- parquet writer ---------------------------------------------------------------------------------------------------


@frozen
class ParquetColumn:
    name: str
    form: Form
    kept: Form | None = None  # the lake's, where it has other values


def parquet_columns(
    names: Sequence[str], types: Sequence[tuple[int, int]], row_type: RowTypes = composite_type
) -> list[ParquetColumn]:
    """The columns of the file. Their names must differ. `row_type` may know row types of tables, too."""
    for number, name in enumerate(names):
        if name in names[:number]:
            raise PgError("42701", f'column "{name}" specified more than once')
    if not names:
        raise PgError("0A000", "a Parquet file must have at least one column")
    return [_column(name, *kind, row_type) for name, kind in zip(names, types, strict=True)]


def _column(name: str, typoid: int, typmod: int, row_type: RowTypes) -> ParquetColumn:
    row = row_type(row_type_in(typoid)) if is_row_type(typoid) else None
    kept = form(typoid, typmod) if has_renamed_labels(typoid) else None
    return ParquetColumn(name, file_form(typoid, typmod, row), kept)


def write_file(place: Outgoing, columns: Sequence[ParquetColumn], rows: PassingRows | SparkRows) -> int:
    """Write one file; returns its number of rows."""
    schema = pa.schema([pa.field(column.name, column.form.arrow()) for column in columns])
    count = 0
    with pq.ParquetWriter(_Sink(place), schema, compression="snappy", store_schema=False) as writer:
        for table in _groups(_tables(columns, rows, schema)):
            writer.write_table(table, rows_in_group(table.num_rows))
            count += table.num_rows
    return count


def _tables(columns: Sequence[ParquetColumn], rows: PassingRows | SparkRows, schema: pa.Schema) -> Iterator[pa.Table]:
    if isinstance(rows, SparkRows):
        from pgrepl.engine.result_spark import fetched

        for batch in fetched(rows.frame, rows.data_path):
            found = [_renamed(column, batch.column(n)) for n, column in enumerate(columns)]
            arrays = [_as(array, field.type) for array, field in zip(found, schema, strict=True)]
            yield pa.Table.from_arrays(arrays, schema=schema)
        return
    for part in rows.batches():
        values = list(zip(*part, strict=True))
        arrays = [c.form.to_array(v) for c, v in zip(columns, values, strict=True)]
        yield pa.Table.from_arrays([_as(a, f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema)


def _renamed(column: ParquetColumn, array: Any) -> Any:
    return array if column.kept is None else column.form.to_array(column.kept.from_array(array))


def _as(array: Any, kind: pa.DataType) -> Any:
    """Cast a column of Spark's to the type of the file: they differ in extension types (uuid) and time zones only."""
    if array.type == kind:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array.cast(kind.storage_type))
    return array.cast(kind)


def _groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Small tables as row groups of the usual size."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(each.num_rows for each in waiting) >= ROWS_IN_GROUP:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


class _Sink(io.RawIOBase):
    """A file object for pyarrow that is written from front to back."""

    def __init__(self, place: Outgoing) -> None:
        self._place = place
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self._place.write(raw)
        self._at += len(raw)
        return len(raw)


# --- folders ----------------------------------------------------------------------------------------------------------


def write_folder(folder: str, columns: Sequence[ParquetColumn], rows: PassingRows | SparkRows) -> int:
    """Write files to a new folder; returns their number of rows."""
    _refuse_taken(folder)
    if isinstance(rows, SparkRows) and all(column.kept is None for column in columns):
        return _write_by_spark(folder, columns, rows)
    os.makedirs(folder, exist_ok=True)
    place = Outgoing(os.path.join(folder, "part-00000.parquet"))
    try:
        count = write_file(place, columns, rows)
    except BaseException:
        place.abandon()
        raise
    place.finish()
    return count


def _refuse_taken(folder: str) -> None:
    """Refuse a folder with files: they would be taken for part of the result."""
    if not os.path.isabs(folder):
        raise PgError("42602", "relative path not allowed for COPY to file")
    try:
        if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
            raise PgError("58P02", f'folder "{folder}" is not empty')
    except OSError as error:
        raise file_error(f'could not open directory "{folder}"', error) from error


def _write_by_spark(folder: str, columns: Sequence[ParquetColumn], rows: SparkRows) -> int:

    from pgrepl.engine import spark
    from pgrepl.engine.scan_spark import spark_path
    from pgrepl.writing.copy.parquet_files import parquet_paths

    named = [F.col(f"c{n}").alias(column.name) for n, column in enumerate(columns, 1)]
    with spark.pg_errors():
        rows.frame.select(*named).write.mode("append").parquet(spark_path(folder))
    return sum(pq.read_metadata(path).num_rows for path in parquet_paths(folder))
