"""COPY TO: the rows of a table or a query, written to a file, a program or the client (BeginCopyTo, DoCopyTo), as lines
in text and CSV format (CopyOneRowTo), in binary format, or as Parquet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.facts.user_types import row_type
from pgrepl.engine import choice as engine_choice
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.analyse.lookup import base_and_typmod
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.rewrite import folding
from pgrepl.expr.rewrite.views import expand_views
from pgrepl.expr.tree import Query
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.interrupts import check_for_interrupts
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.ground.threads import ahead
from pgrepl.query import run
from pgrepl.query.engine_choice import extent_of
from pgrepl.query.result import Result
from pgrepl.query.rowset import PassingRows, SparkRows, passing_rows
from pgrepl.query.run import as_text
from pgrepl.query.table_rows import TableColumns, condition, plain_columns
from pgrepl.sql.nodes import (
    ColumnRef,
    CopyStmt,
    DeleteStmt,
    InsertStmt,
    MergeStmt,
    RangeVar,
    ResTarget,
    SelectStmt,
    Statement,
    UpdateStmt,
)
from pgrepl.types.input_checks import text_to_bytes
from pgrepl.types.lake.arrays import content
from pgrepl.types.text import read_text
from pgrepl.writing.copy.copy_options import (
    CopyOptions,
    check_source,
    copied_columns,
    copies_partitions,
    copy_options,
    forced,
    open_relation,
)
from pgrepl.writing.copy.endpoints import check_place, outgoing
from pgrepl.writing.run import modify_rows

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


TextRow = Sequence["str | None"]

_LINES = 1000  # written at a time, when rows come one by one


@frozen
class CopyToSource:
    """The rows to copy: those of a query (also for a table), or those that RETURNING of INSERT and its like gives."""

    names: tuple[str, ...]
    types: tuple[tuple[int, int], ...]  # with the modifiers
    query: Query | None
    returned: Sequence[TextRow] = ()
    relation: Relation | None = None


def copy_to(stmt: CopyStmt, session: Session) -> Result:
    source, options, force_quote = prepared(stmt, session)
    if options.format == "parquet":
        return Result(f"COPY {_parquet(session, stmt, source)}")
    if options.format == "binary":
        return Result(f"COPY {_binary(session, stmt, source)}")
    writer = LineWriter(source.names, options, force_quote)
    encoding = options.encoding or session.settings.get("client_encoding")
    count = 0
    with outgoing(session, stmt, binary=False, columns=len(source.names)) as place:
        if options.header == "true":
            place.write_rows([text_to_bytes(writer.header(), encoding)])
        whole = _whole_columns(session, source) if encoding == "UTF8" else None
        if whole is not None:
            for lines in ahead(map(writer.lines, whole)):
                check_for_interrupts()
                place.write_lines(lines)
                count += len(lines)
            engine_choice.done(session, "COPY", engine_choice.Engine.COLUMNS)
            return Result(f"COPY {count}")
        batches = _batches(session, source)
        place.begin()
        for batch in batches:
            place.write_rows([text_to_bytes(writer.line(row), encoding) for row in batch])
            count += len(batch)
    return Result(f"COPY {count}")


def _whole_columns(session: Session, source: CopyToSource) -> Iterator[list[Any]] | None:
    """The texts of the rows by columns, in portions; None: they are few, or their query does more than to read columns
    of one table."""
    if source.query is None or session.unsettled:
        return None
    query = expand_views(session, source.query)
    wanted, context = plain_columns(query), Context(session)
    if not wanted:
        return None
    choice = engine_choice.choose_copy_to(session, lambda: extent_of(session, query, context))
    if choice.engine is not engine_choice.Engine.COLUMNS:
        return None
    where = condition(query, context)
    if where is None:
        return None
    try:
        rows = TableColumns(session, query, context, where, wanted)
        if not rows.forms.keys() >= set(wanted):
            raise Declined("partitions keep a composite type in other ways")
    except Declined as reason:
        engine_choice.declined(session, "COPY", reason, "COPY is not carried out by columns")
        return None
    return _texts(session, rows, wanted, [column.type for column in query.columns])


def _texts(session: Session, rows: TableColumns, wanted: Sequence[int], types: Sequence[int]) -> Iterator[list[Any]]:
    from pgrepl.types.lake.column_text import column_text

    style = session.text_style
    columns = list(zip(wanted, types, strict=True))
    for count, arrays in rows.portions():
        if count:
            yield [column_text(arrays[attnum], typoid, rows.forms[attnum], style) for attnum, typoid in columns]


def prepared(stmt: CopyStmt, session: Session) -> tuple[CopyToSource, CopyOptions, list[bool]]:
    """The source and the options of COPY TO, after all checks; a query that changes rows has been carried out."""
    check_place(session, stmt)
    source = _table(session, stmt) if stmt.relation is not None else None
    options = copy_options(stmt.options, is_from=False)
    if source is None:
        assert stmt.query is not None
        source = _query(session, stmt.query)
    force_quote = forced("FORCE_QUOTE", options.force_quote, source.names, source.relation)
    return source, options, force_quote


def _table(session: Session, stmt: CopyStmt) -> CopyToSource:
    """A table is read without its children, a partitioned one, where that is asked for, with its partitions."""
    assert stmt.relation is not None
    rel = open_relation(session, stmt.relation)
    columns = copied_columns(rel, stmt.columns)
    targets = tuple(ResTarget(ColumnRef((column.name,))) for column in columns)
    inh = copies_partitions(session, rel)
    query = analyze_query(session, SelectStmt(targets, from_=(RangeVar(rel.name, rel.schema, inh=inh),)))
    run.check_named(session, query, session.role)
    check_source(session, rel)
    return _of_query(query, tuple(column.name for column in columns), rel)


def _of_query(query: Query, names: tuple[str, ...], rel: Relation | None = None) -> CopyToSource:
    return CopyToSource(names, tuple(base_and_typmod(c.type, c.typmod) for c in query.columns), query, relation=rel)


def _query(session: Session, stmt: Statement) -> CopyToSource:
    if isinstance(stmt, SelectStmt):
        if stmt.into is not None:
            raise PgError("0A000", "COPY (SELECT INTO) is not supported")
        query = analyze_query(session, stmt)
        folding.check(session, query)
        run.check(session, query)
        run.check_functions(session, query)
        return _of_query(query, tuple(column.name for column in query.columns))
    if not isinstance(stmt, InsertStmt | UpdateStmt | DeleteStmt | MergeStmt) or not stmt.returning:
        raise PgError("0A000", "COPY query must have a RETURNING clause")
    session.transaction.require_write()
    result = modify_rows(stmt, session)
    columns = result.columns or ()
    rows: Sequence[TextRow] = result.rows
    if result.values is not None:  # within a routine
        rows = as_text(result.values, [column.type for column in columns], session.text_style)
    return CopyToSource(tuple(c.name for c in columns), tuple((c.type, c.typmod) for c in columns), None, rows)


def _batches(session: Session, source: CopyToSource) -> Iterator[Sequence[TextRow]]:
    """The rows as texts, some at a time; their query has been planned."""
    if source.query is None:
        return iter((source.returned,))
    types = [column.type for column in source.query.columns]
    style = session.text_style
    batches = passing_rows(session, source.query).batches()
    portions = (batch[begin : begin + _LINES] for batch in batches for begin in range(0, len(batch), _LINES))
    return (as_text(portion, types, style) for portion in portions)


def _binary(session: Session, stmt: CopyStmt, source: CopyToSource) -> int:
    """Write a file of binary rows; returns their number. A client gets the header with what follows it, as
    PostgreSQL's row buffer sends it."""
    from pgrepl.writing.copy.reader import HEADER, TRAILER, row_writer

    count, head = 0, HEADER
    with outgoing(session, stmt, binary=True, columns=len(source.names)) as place:
        write = row_writer([typoid for typoid, _ in source.types], session.text_style.encoding)
        batches = _rows(session, source).batches()
        place.begin()
        for batch in batches:
            for begin in range(0, len(batch), _LINES):
                lines = list(map(write, batch[begin : begin + _LINES]))
                lines[0], head = head + lines[0], b""
                place.write_rows(lines)
            count += len(batch)
        place.write(head + TRAILER)
    return count


def _parquet(session: Session, stmt: CopyStmt, source: CopyToSource) -> int:
    """Write a Parquet file or a folder of them; returns the number of rows."""
    from pgrepl.writing.copy.parquet_files import parquet_columns, write_file, write_folder

    columns = parquet_columns(source.names, source.types, partial(row_type, session))
    name = stmt.filename
    if name is not None and not stmt.program and name.endswith("/"):
        return write_folder(name, columns, _rows(session, source))
    with outgoing(session, stmt, binary=True, columns=len(columns)) as place:
        return write_file(place, columns, _rows(session, source))


def _rows(session: Session, source: CopyToSource) -> PassingRows | SparkRows:
    if source.query is not None:
        return passing_rows(session, source.query)
    style = session.text_style
    rows = (
        tuple(
            None if text is None else read_text(text, typoid, typmod, style)
            for text, (typoid, typmod) in zip(row, source.types, strict=True)
        )
        for row in source.returned
    )
    return PassingRows((), rows)


# --- lines ------------------------------------------------------------------------------------------------------------


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
        special = np.zeros(256, bool)
        special[list(self._special_characters.encode())] = True
        return special


def _text_field(options: CopyOptions) -> Quoting:
    """Puts backslashes before characters that have a meaning to a reader."""
    special = re.compile(f"[\b-\r\\\\{re.escape(options.delimiter)}]")

    def escape(match: re.Match[str]) -> str:
        return _LETTERS.get(match[0]) or "\\" + match[0]

    search, sub = special.search, special.sub
    return lambda text: sub(escape, text) if search(text) else text


def _csv_field(options: CopyOptions, *, force: bool, alone: bool) -> Quoting:
    quote, escape, null = options.quote, options.escape, options.null
    needs_quotes = re.compile(f"[\r\n{re.escape(options.delimiter + quote)}]").search
    marks = re.compile(f"[{re.escape(quote + escape)}]")
    # Alone on a line it would end the data.
    marker = "\\." if alone else None

    def quoted(text: str) -> str:
        return quote + marks.sub(lambda mark: escape + mark[0], text) + quote

    if force:
        return quoted
    return lambda text: quoted(text) if text in (null, marker) or needs_quotes(text) else text
