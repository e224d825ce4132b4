"""The rows of CSV, Parquet and JSON lines files in batches, as columns of text.

A batch has the file's columns by name. What is to be taken as an old row is kept apart: a column with objects
(`before=old`), or columns with a common beginning (`before=old_*`).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pacsv, pc, pq
from pgrepl.replication.formats.arrow_text import interval_texts, text_column
from pgrepl.replication.formats.event import BadRecord, RecordPlace
from pgrepl.replication.formats.json_text import INVALID, decompressed, json_problem, objects, read_json, value_text

if TYPE_CHECKING:
    import numpy.typing as npt

_ROWS = 1 << 14  # JSON objects of a batch
_PARQUET_ROWS = 1 << 16
_CSV_BLOCK = 1 << 23  # bytes; a record must fit into it
_TAIL = 1 << 16  # bytes of a file's end that are looked at
_PARQUET = b"PAR1"
_UNKNOWN = (0, -1)  # a column's type and modifier


@frozen
class RowBatch:
    """Rows that follow one another in a file."""

    file: str
    number: npt.NDArray[np.int64]  # the line, or the number of the row
    columns: Mapping[str, pa.Array]  # strings
    unsent: Mapping[str, npt.NDArray[np.bool_]]  # by column: rows that lack it; a column that all rows have is left out
    old: Mapping[str, pa.Array]
    has_old: npt.NDArray[np.bool_]
    is_json: bool = False  # then each row has names of its own

    @property
    def count(self) -> int:
        return len(self.number)


@frozen
class CsvOptions:
    delimiter: str = ","
    quote: str = '"'
    null: str = ""
    names: tuple[str, ...] | None = None  # of the columns, if the file has no header


def csv_options(options: Mapping[str, str]) -> CsvOptions:
    """The options `delimiter`, `quote`, `null` and `columns`. The words `tab` and `none` stand for what is hard to
    write in a connection string."""
    delimiter, quote = options.get("delimiter", ","), options.get("quote", '"')
    delimiter, quote = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter), {"none": ""}.get(quote, quote)
    for name, value, least in (("delimiter", delimiter, 1), ("quote", quote, 0)):
        if not least <= len(value) <= 1 or not value.isascii() or value in ("\r", "\n"):
            raise PgError("22023", f'option "{name}" must be a single one-byte character')
    names = options.get("columns")
    listed = None if names is None else tuple([name.strip() for name in names.split(",")])
    return CsvOptions(delimiter, quote, options.get("null", ""), listed)


def row_batches(
    file: BinaryIO, name: str, kind: str, before: str | None, csv: CsvOptions, types: Mapping[str, tuple[int, int]]
) -> Iterator[RowBatch | BadRecord]:
    """The batches of a file. `kind` is csv, jsonl or parquet. `before`: where old rows are."""
    opened = decompressed(file, name)
    if kind == "parquet":
        return _parquet(opened, name, before, types)
    if kind == "jsonl":
        return _json_lines(opened, name, before, types)
    return _csv(opened, name, before, csv) if cast(Any, opened).peek(1) else iter(())


def kind_of(opened: BinaryIO) -> str:
    """csv, jsonl or parquet, by the first bytes of a file that is decompressed."""
    start = bytes(cast(Any, opened).peek(64)[:64])
    return "parquet" if start.startswith(_PARQUET) else "jsonl" if start.lstrip()[:1] == b"{" else "csv"


# --- Parquet ----------------------------------------------------------------------------------------------------------


def _parquet(
    file: BinaryIO, name: str, before: str | None, types: Mapping[str, tuple[int, int]]
) -> Iterator[RowBatch | BadRecord]:
    if not file.seekable():
        raise PgError(
            "0A000", f'Parquet file "{name}" is read from a stream that cannot be sought in',
            hint="Name the file; do not compress it or read it from standard input.",
        )  # fmt: skip
    first = 1
    try:
        opened = pq.ParquetFile(file)
        intervals = _interval_columns(opened)
        for batch in opened.iter_batches(_PARQUET_ROWS):
            number = np.arange(first, first + batch.num_rows, dtype=np.int64)
            first += batch.num_rows
            columns, nested = {}, None
            for label, array in zip(batch.schema.names, batch.columns, strict=True):
                array = interval_texts(array) if label in intervals else array
                if label == before and pa.types.is_struct(array.type):
                    nested = array
                else:
                    columns[label] = text_column(array, types.get(_own_name(label, before), _UNKNOWN)[0])
            old = None if nested is None else _old_columns(nested, types)
            yield from _with_old(name, number, columns, {}, before, old)
    except (pa.ArrowException, OSError) as problem:
        raise PgError("22P04", f'could not read Parquet file "{name}": {problem}') from None


def _interval_columns(file: pq.ParquetFile) -> set[str]:
    """The columns that have INTERVALs in them: twelve bytes to Arrow."""
    leaves = [file.schema.column(at) for at in range(len(file.schema))]
    return {leaf.path.partition(".")[0] for leaf in leaves if leaf.converted_type == "INTERVAL"}


def _own_name(label: str, before: str | None) -> str:
    """The table's column of a file's, whose name may begin with what old rows have."""
    return label.removeprefix(before[:-1]) if before is not None and before.endswith("*") else label


def _old_columns(
    nested: pa.Array, types: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, pa.Array], npt.NDArray[np.bool_]]:
    """Old rows that are structs, and which rows have one."""
    names = [nested.type.field(at).name for at in range(nested.type.num_fields)]
    fields = zip(names, nested.flatten(), strict=True)
    old = {label: text_column(field, types.get(label, _UNKNOWN)[0]) for label, field in fields}
    return old, nested.is_valid().to_numpy(zero_copy_only=False)


def _with_old(
    name: str,
    number: npt.NDArray[np.int64],
    columns: dict[str, pa.Array],
    unsent: dict[str, npt.NDArray[np.bool_]],
    before: str | None,
    old_rows: tuple[dict[str, pa.Array], npt.NDArray[np.bool_]] | None = None,
) -> Iterator[RowBatch | BadRecord]:
    """The batch, its old rows taken from where `before` says, if they are not found yet."""
    nobody = np.zeros(len(number), bool)
    if before is None:
        yield RowBatch(name, number, columns, unsent, {}, nobody)
    elif old_rows is not None:
        yield RowBatch(name, number, columns, unsent, *old_rows)
    elif before.endswith("*"):
        prefix = before[:-1]
        old = {label[len(prefix) :]: columns.pop(label) for label in list(columns) if label.startswith(prefix)}
        has_old = nobody
        for values in old.values():
            has_old = has_old | pc.is_valid(values).to_numpy(zero_copy_only=False)
        yield RowBatch(name, number, columns, unsent, old, has_old)
    else:
        yield from _parsed_old(name, number, columns, unsent, before)


def _parsed_old(
    name: str,
    number: npt.NDArray[np.int64],
    columns: dict[str, pa.Array],
    unsent: dict[str, npt.NDArray[np.bool_]],
    before: str,
) -> Iterator[RowBatch | BadRecord]:
    """Old rows that are JSON objects in a column of text."""
    if before not in columns:
        raise _no_column(name, before, columns)
    rows: list[dict[str, Any] | None] = []
    bad: list[BadRecord] = []
    for at, text in enumerate(columns.pop(before).to_pylist()):
        old_row = None
        if text:
            try:
                old_row = read_json(text)
            except (ValueError, RecursionError) as problem:
                bad.append(
                    BadRecord(
                        INVALID, f'column "{before}": {json_problem(problem)}', RecordPlace(name, int(number[at]))
                    )
                )
            if old_row is not None and not isinstance(old_row, dict):
                bad.append(
                    BadRecord(INVALID, f'column "{before}" is no JSON object', RecordPlace(name, int(number[at])))
                )
                old_row = None
        rows.append(old_row)
    old, _ = _columns_of([row or {} for row in rows], {})
    has_old = np.array([row is not None for row in rows], bool)
    yield from without_bad(RowBatch(name, number, columns, unsent, old, has_old), bad)


def _no_column(name: str, column: str, columns: Mapping[str, Any]) -> PgError:
    listed = ", ".join(list(columns)[:20])
    return PgError(
        "42703", f'column "{column}" does not exist in file "{name}"', detail=f"It has the columns {listed}."
    )


def with_columns(batch: RowBatch, names: Sequence[str]) -> RowBatch:
    """The batch if it has these columns. Objects may lack them; a file that names its columns may not."""
    missing = [name for name in names if name not in batch.columns]
    if not missing:
        return batch
    if not batch.is_json:
        raise _no_column(batch.file, missing[0], batch.columns)
    return replace(batch, columns={**batch.columns, **{name: pa.nulls(batch.count, pa.string()) for name in missing}})


def without_bad(batch: RowBatch, bad: Sequence[BadRecord]) -> Iterator[RowBatch | BadRecord]:
    """The rows before, between and behind bad ones, in order."""
    start = 0
    for record in bad:
        at = int(batch.number.searchsorted(record.place.number))
        if at > start:
            yield part_of(batch, start, at)
        yield record
        start = at + (at < batch.count and batch.number[at] == record.place.number)
    if start < batch.count:
        yield part_of(batch, start, batch.count) if start else batch


def part_of(batch: RowBatch, start: int, end: int) -> RowBatch:
    return _picked(batch, lambda values: values[start:end])


def taken(batch: RowBatch, places: npt.NDArray[np.int64]) -> RowBatch:
    """Some rows of a batch, in the given order."""
    return _picked(batch, lambda values: values.take(places))


def _picked(batch: RowBatch, pick: Callable[[Any], Any]) -> RowBatch:
    """`pick`: takes some values of an array, be it numpy's or Arrow's."""
    columns, unsent, old = [
        {name: pick(values) for name, values in those.items()} for those in (batch.columns, batch.unsent, batch.old)
    ]
    return RowBatch(batch.file, pick(batch.number), columns, unsent, old, pick(batch.has_old), batch.is_json)


# --- JSON lines -------------------------------------------------------------------------------------------------------


def _json_lines(
    file: BinaryIO, name: str, before: str | None, types: Mapping[str, tuple[int, int]]
) -> Iterator[RowBatch | BadRecord]:
    numbers: list[int] = []
    records: list[dict[str, Any]] = []
    for json_object in objects(file, name):
        if isinstance(json_object, BadRecord):
            if records:
                yield from json_batch(name, numbers, records, before, types)
                numbers, records = [], []
            yield json_object
        elif json_object[1] is not None:
            numbers.append(json_object[0].number)
            records.append(json_object[1])
            if len(records) == _ROWS:
                yield from json_batch(name, numbers, records, before, types)
                numbers, records = [], []
    if records:
        yield from json_batch(name, numbers, records, before, types)


def json_batch(
    name: str, numbers: list[int], rows: list[dict[str, Any]], before: str | None, types: Mapping[str, tuple[int, int]]
) -> Iterator[RowBatch | BadRecord]:
    number = np.array(numbers, np.int64)
    olds: list[dict[str, Any]] = []
    bad = []
    if before is not None and not before.endswith("*"):
        for at, row in enumerate(rows):
            old = row.pop(before, None)
            if old is not None and not isinstance(old, dict):
                bad.append(BadRecord(INVALID, f'"{before}" is no object', RecordPlace(name, numbers[at])))
                old = None
            olds.append(old)
    columns, unsent = _columns_of(rows, types)
    if not olds:
        for found_batch in _with_old(name, number, columns, unsent, before):
            yield replace(found_batch, is_json=True) if isinstance(found_batch, RowBatch) else found_batch
        return
    old_columns, _ = _columns_of([old or {} for old in olds], types)
    has_old = np.array([old is not None for old in olds], bool)
    yield from without_bad(RowBatch(name, number, columns, unsent, old_columns, has_old, is_json=True), bad)


def _columns_of(
    rows: Sequence[dict[str, Any]], types: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, pa.Array], dict[str, npt.NDArray[np.bool_]]]:
    """Objects as columns of text, and which of them lack a column."""
    columns, unsent = {}, {}
    for label in dict.fromkeys(name for row in rows for name in row):
        typoid = types.get(label, _UNKNOWN)[0]
        columns[label] = pa.array([value_text(row.get(label), typoid) for row in rows], pa.string())
        missing = np.array([label not in row for row in rows], bool)
        if missing.any():
            unsent[label] = missing
    return columns, unsent


# --- CSV --------------------------------------------------------------------------------------------------------------


def _csv(file: BinaryIO, name: str, before: str | None, options: CsvOptions) -> Iterator[RowBatch | BadRecord]:
    problems: list[tuple[int, int, int, str]] = []

    def note(row: Any) -> str:
        problems.append(((row.number or 0) + header, row.actual_columns, row.expected_columns, row.text))
        return "skip"

    header = options.names is None  # Arrow does not see it, and counts from the line behind it
    names = _header(file, name, options) if options.names is None else list(options.names)
    if not cast(Any, file).peek(1):  # its columns are checked nevertheless
        nothing = pa.array([], pa.string())
        yield from _with_old(name, np.zeros(0, np.int64), dict.fromkeys(names, nothing), {}, before)
        return
    watched = _Watched(file, options.quote.encode())
    try:
        reader = pacsv.open_csv(
            watched,
            pacsv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK, column_names=names, skip_rows=0),
            pacsv.ParseOptions(
                delimiter=options.delimiter, quote_char=options.quote or False, newlines_in_values=True,
                invalid_row_handler=note,
            ),
            pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()), null_values=[options.null], strings_can_be_null=True,
                quoted_strings_can_be_null=False, check_utf8=False,
            ),
        )  # fmt: skip
        count = 1 if header else 0  # records so far
        held: tuple[pa.RecordBatch, list[tuple[int, int, int, str]]] | None = None  # until it is known to be whole
        for batch in reader:
            wrong, problems = problems, []
            if held is not None:
                yield from _csv_batch(name, *held, count + 1, before)
                count += held[0].num_rows + len(held[1])
            held = batch, wrong
        if held is not None:
            yield from _csv_batch(name, *held, count + 1, before, cut=watched.ends_within(held[0]))
    except pa.ArrowInvalid as problem:
        raise PgError("22P04", f'could not read CSV file "{name}": {problem}') from None
    if problems:
        yield from [_wrong_row(name, problem) for problem in problems]


class _Watched:
    """A file that knows how it ends, and how many quotes it has: Arrow takes a field whose closing quote is missing for
    one that goes on to the end."""

    closed = False

    def __init__(self, file: BinaryIO, quote: bytes) -> None:
        self._file, self._quote = file, quote
        self._count, self._tail = 0, b""

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._count += data.count(self._quote) if self._quote else 0
        self._tail = data[-_TAIL:] if len(data) >= _TAIL else (self._tail + data)[-_TAIL:]
        return data

    def ends_within(self, batch: pa.RecordBatch) -> bool:
        """Whether it ends within the quotes of the last value of its last rows."""
        if self._count % 2 == 0 or not batch.num_rows:
            return False
        value: bytes = batch.column(batch.num_columns - 1)[-1].as_py() or b""
        return self._tail.endswith((self._quote + value.replace(self._quote, self._quote * 2))[-_TAIL:])


def _header(file: BinaryIO, name: str, options: CsvOptions) -> list[str]:
    """The names in the first line, which is read."""
    line = b""
    while True:
        more = file.readline(_CSV_BLOCK)
        line += more
        if not more or len(line) >= _CSV_BLOCK or not options.quote or line.count(options.quote.encode()) % 2 == 0:
            break
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise PgError("22021", f"could not read {name}, record 1: {json_problem(problem)}") from None
    form: dict[str, Any] = {"delimiter": options.delimiter}
    form |= {"quotechar": options.quote} if options.quote else {"quoting": csv.QUOTE_NONE}
    names = next(iter(csv.reader(io.StringIO(text), **form)), [])
    twice = next((label for at, label in enumerate(names) if label in names[:at]), None)
    if twice is not None:
        raise PgError("42701", f'column "{twice}" specified more than once in file "{name}"')
    return names


def _wrong_row(name: str, problem: tuple[int, int, int, str]) -> BadRecord:
    number, actual, expected, text = problem
    reason = f"it has {actual} columns, but there are {expected}"
    return BadRecord("22P04", reason, RecordPlace(name, number), record=text.encode())


def _csv_batch(
    name: str,
    batch: pa.RecordBatch,
    wrong: Sequence[tuple[int, int, int, str]],
    first: int,
    before: str | None,
    *,
    cut: bool = False,
) -> Iterator[RowBatch | BadRecord]:
    """The rows of a block. Arrow numbers wrong rows by the lines of the file: `number` skips them. `cut`: the last one
    is not whole."""
    total = batch.num_rows + len(wrong)
    places = np.arange(first, first + total, dtype=np.int64)
    bad_numbers = [problem[0] for problem in wrong]
    number = places[~np.isin(places, bad_numbers)][: batch.num_rows]
    bad = [_wrong_row(name, problem) for problem in wrong]
    if cut:
        bad.append(BadRecord("22P04", "unterminated CSV quoted field", RecordPlace(name, int(number[-1]))))
    columns = {}
    for label, array in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns[label] = array.cast(pa.string())
        except pa.ArrowInvalid:
            columns[label], more = _valid_texts(name, label, array, number)
            bad += more
    bad.sort(key=lambda record: record.place.number)
    for part in _with_old(name, number, columns, {}, before):
        if isinstance(part, RowBatch) and bad:
            yield from without_bad(part, bad)
            bad = []
        else:
            yield part


def _valid_texts(
    name: str, label: str, array: pa.Array, number: npt.NDArray[np.int64]
) -> tuple[pa.Array, list[BadRecord]]:
    """Texts of bytes that are not all UTF-8."""
    texts: list[str | None] = []
    bad = []
    for at, value in enumerate(array.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError as problem:
            texts.append(None)
            bad.append(
                BadRecord("22021", f'column "{label}": {json_problem(problem)}', RecordPlace(name, int(number[at])))
            )
    return pa.array(texts, pa.string()), bad
