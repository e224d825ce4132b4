"""COPY FROM Parquet files: their columns are found by name, and cast to the types of the table's columns.

A column that the file lacks gets its default. Values are cast as an assignment casts them; text goes through the type's
input function, as it would from any other file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pgrepl.catalog.facts.relation import Attribute
from pgrepl.catalog.facts.user_types import row_type
from pgrepl.engine import spark
from pgrepl.engine.run_kernels import ForeignSource
from pgrepl.engine.scan_spark import parquet_frame, quoted, readable
from pgrepl.expr.analyse.casts import Context as CastContext
from pgrepl.expr.analyse.coerce import IMPLICIT_CAST, coerce_to_target
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.exchange.sql import raised
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Column, Expr, Query, Var
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.lazy import F, pa
from pgrepl.lake.read.files import Extent
from pgrepl.lake.read.part import ForeignRows
from pgrepl.lake.table import lake_table
from pgrepl.query.shape import OutsideRows
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.input_checks import nul
from pgrepl.types.names import format_type
from pgrepl.writing.copy.parquet_files import CopyFileColumn, ParquetGroup, as_type, opened, values
from pgrepl.writing.copy.reader import placed
from pgrepl.writing.copy.source import Row, RowSource
from pgrepl.writing.copy.target import CopyTarget
from pgrepl.writing.copy.text_columns import file_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.part import PartRows
    from pgrepl.lake.table import LakeTable
    from pgrepl.types.lake.foreign import Nested

_BATCH = 16384  # rows read at a time


class ParquetSource(RowSource):
    is_divided = True

    def __init__(
        self, session: Session, target: CopyTarget, groups: Sequence[ParquetGroup], shown: str | None = None
    ) -> None:
        """`shown`: how messages call the only file, in place of its path."""
        super().__init__(session, target)
        self._groups = groups
        self._shown = shown
        self._path = groups[0].paths[0]
        self._number = 0  # of the row in its file
        self._parts = [_Part(session, target, group, shown or group.paths[0], shown) for group in groups]

    @property
    def is_columnar(self) -> bool:
        return True

    def anew(self) -> ParquetSource:
        return ParquetSource(self.session, self.target, self._groups, self._shown)

    def extent(self, rows: int) -> Extent:
        return Extent(sum(group.rows for group in self._groups))

    def queries(self) -> AbstractContextManager[list[Query]]:
        """One for each group of files."""
        return nullcontext([part.query(self.target) for part in self._parts])

    @contextmanager
    def kernel_source(self) -> Iterator[tuple[ForeignSource, dict[int, int | None]]]:
        if self.target.where is not None or self._shown is not None or len(self._parts) > 1:
            raise Declined("its WHERE condition, or files that differ")
        table = lake_table(self.session, self.target.relation.oid)
        (part,) = self._parts
        longest = part.as_they_are(table)
        names = tuple([(a.num, a.name) for a in self.target.columns if a.num in longest])
        row_groups: list[tuple[PartRows, int, int]] = []
        for path in part.group.paths:
            with opened(path) as file:
                for number in range(file.metadata.num_row_groups):
                    group = file.metadata.row_group(number)
                    row_groups.append(
                        (ForeignRows(table, path, names, (number,)), group.num_rows, group.total_byte_size)
                    )
        yield ForeignSource(table, tuple(longest), tuple(row_groups)), longest

    def _read(self) -> Iterator[Row]:
        for part in self._parts:
            make = part.row_maker()
            for path in part.group.paths:
                self._path, self._number = path, 0
                for read in part.rows_of(path):
                    self._number += 1
                    try:
                        row = make(read)
                    except _InColumn as problem:
                        raise placed(problem.error, f"{self.place()}, column {problem.column}") from None
                    yield row

    @property
    def number(self) -> int:
        return self._number

    def place(self, number: int | None = None) -> str:
        row = self._number if number is None else number
        return f'COPY {self.target.relation.name}, row {row} of file "{self._shown or self._path}"'


class _InColumn(Exception):
    """The value for a column cannot be made."""

    def __init__(self, error: PgError, column: str) -> None:
        super().__init__(column)
        self.error = error
        self.column = column


class _Part:
    """Files with the same columns, and the values of the table's columns made from them."""

    def __init__(self, session: Session, target: CopyTarget, group: ParquetGroup, path: str, shown: str | None) -> None:
        self._session = session
        self._target = target
        self._shown = shown
        self._row_types = partial(row_type, session)
        self.group = group
        self.columns: list[CopyFileColumn] = []  # those that are read
        self._exprs: dict[int, Expr] = dict(target.defaults)
        if not target.listed:
            _refuse_more(target, group, path)
        for column in target.columns:
            file_column = group.column(column.name)
            if file_column is None:
                if target.listed:
                    raise PgError("42703", f'column "{column.name}" does not exist in file "{path}"')
                continue
            file_column = as_type(file_column, column.type, self._row_types)
            self.columns.append(file_column)
            number = len(self.columns)
            self._exprs[column.num] = _converted(session, file_column, number, column, path)

    def as_they_are(self, table: LakeTable) -> dict[int, int | None]:
        """The table's columns in the files, with their greatest number of characters (None: no limit). Declined if one
        needs more than Arrow's cast."""
        lengths: dict[int, int | None] = {}
        own = {column.name: column for column in self.columns}
        for attribute in self._target.columns:
            column = own.get(attribute.name)
            if column is None:
                continue
            kept = table.column(attribute.num)
            if kept.row is not None or kept.form.typoid != attribute.type or not _is_kept(column, attribute):
                raise Declined(f'the type of column "{attribute.name}"')
            sized = attribute.type == oids.VARCHAR and attribute.typmod >= 4
            lengths[attribute.num] = attribute.typmod - 4 if sized else None
        return lengths

    def query(self, target: CopyTarget) -> Query:
        columns = [Column(c.name, c.shipped, c.typmod) for c in self.columns]
        return file_query(target, columns, self._exprs, _FileRows(self))

    # --- here --------------------------------------------------------------------------------------------------------

    def rows_of(self, path: str) -> Iterator[tuple[Any, ...]]:
        """The values as they stand in the file."""
        with opened(path) as file:
            names = [c.name for c in self.columns]
            for batch in file.iter_batches(_BATCH, columns=names):
                if not names:
                    yield from [()] * batch.num_rows
                    continue
                yield from zip(*[self._values(c, batch, path) for c in self.columns], strict=True)

    def _values(self, column: CopyFileColumn, batch: pa.RecordBatch, path: str) -> list[Any]:
        try:
            return values(column, batch.column(column.name), self._row_types)
        except PgError as error:
            table = self._target.relation.name
            raise placed(error, f'COPY {table}, file "{self._shown or path}", column {column.name}') from None

    def row_maker(self) -> Callable[[tuple[Any, ...]], Row]:
        """A function that makes a table row of a row of the file. Its errors name the column."""
        context = Context(self._session)
        values = [(number - 1, compile(expr, context)) for number, expr in self._exprs.items()]
        attributes = self._target.relation.attributes
        texts = [(n, column.name) for n, column in enumerate(self.columns) if column.has_texts]

        def make(read: tuple[Any, ...]) -> Row:
            for n, name in texts:
                if _has_nul(read[n]):
                    raise _InColumn(nul(), name)
            row: list[Any] = [None] * len(attributes)
            place = 0
            try:
                for place, value in values:
                    row[place] = value(read)
            except PgError as error:
                raise _InColumn(error, attributes[place].name) from None
            return tuple(row)

        return make


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    return isinstance(value, PgArray) and any(_has_nul(item) for item in value.items)


_SAME = (
    oids.BOOL, oids.FLOAT4, oids.FLOAT8, oids.TEXT, oids.BYTEA, oids.UUID, oids.DATE, oids.TIME, oids.TIMESTAMP,
    oids.TIMESTAMPTZ,
)  # fmt: skip


def _is_kept(column: CopyFileColumn, attribute: Attribute) -> bool:
    """Whether an assignment does the same as Arrow's cast to the lake's type."""
    pair = column.shipped, attribute.type
    if pair[0] in oids.INTEGERS and pair[1] in oids.INTEGERS:
        return True
    if pair in ((oids.FLOAT4, oids.FLOAT8), (oids.TEXT, oids.VARCHAR)):
        return True
    if pair == (oids.NUMERIC, oids.NUMERIC):
        return attribute.typmod >= 4 and column.typmod == attribute.typmod
    return pair[0] == pair[1] and pair[0] in _SAME and attribute.typmod < 0 and not column.json


class _FileRows(OutsideRows):
    """The rows of the files as an entry of FROM."""

    def __init__(self, part: _Part) -> None:
        self._part = part

    def frame(self, numbers: Sequence[int]) -> DataFrame:
        wanted = [(number, self._part.columns[number - 1]) for number in numbers]
        for _, column in wanted:
            if column.target:
                raise Declined(f'the type of column "{column.name}"')
        if any(column.spark == "BIGINT" and column.made != "{0}" for _, column in wanted):
            spark.session().conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
        columns = [(c.name, c.spark) for _, c in wanted if c.spark]
        frame = parquet_frame(columns, readable(self._part.group.paths), recursiveFileLookup="true")
        return frame.select(*[F.expr(_made(c)).alias(f"c{n}") for n, c in wanted])

    def __len__(self) -> int:
        return self._part.group.rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for path in self._part.group.paths:
            yield from self._part.rows_of(path)

    def __getitem__(self, index: Any) -> Any:
        return cast(Any, list(self)[index])


def _made(column: CopyFileColumn) -> str:
    """Spark's expression for a column's values: a text that no database can hold is an error."""
    name = quoted(column.name)
    value = column.made.format(name)
    bad = _has_bad_text(column.lake, column.fields, name) if column.spark else None
    return value if bad is None else f"CASE WHEN {bad} THEN {raised(nul())} ELSE {value} END"


def _has_bad_text(lake: str, fields: Sequence[Nested], value: str, depth: int = 0) -> str | None:
    """Spark's condition for a NUL or invalid bytes in a value's texts; None: it has no texts."""
    if lake in ("varchar", "json"):
        return f"(contains({value}, chr(0)) OR NOT is_valid_utf8({value}))"
    if lake == "struct":
        inner = [_has_bad_text(f.type, f.fields, f"{value}.{quoted(f.name)}", depth) for f in fields]
        conditions = [condition for condition in inner if condition is not None]
    else:
        sides = {"list": [value], "map": [f"map_keys({value})", f"map_values({value})"]}.get(lake, [])
        variable = f"x{depth}"
        conditions = [
            f"exists({side}, {variable} -> {condition})"
            for side, f in zip(sides, fields, strict=False)  # other types have no fields
            if (condition := _has_bad_text(f.type, f.fields, variable, depth + 1)) is not None
        ]
    return f"({' OR '.join(conditions)})" if conditions else None


def _refuse_more(target: CopyTarget, group: ParquetGroup, path: str) -> None:
    """Refuse columns of the file that the table lacks: none is dropped unless the statement lists columns."""
    known = {column.name for column in target.relation.columns}
    for column in group.columns:
        if column.name not in known:
            raise PgError(
                "22P04",
                f'column "{column.name}" of file "{path}" does not exist in relation "{target.relation.name}"',
                hint="Name the columns to be copied: COPY table (column, ...) FROM ...",
            )
        if target.relation.attribute(column.name) not in target.columns:
            raise PgError(
                "42P10",
                f'column "{column.name}" is a generated column',
                detail="Generated columns cannot be used in COPY.",
                hint="Name the columns to be copied: COPY table (column, ...) FROM ...",
            )


def _converted(session: Session, file_column: CopyFileColumn, number: int, column: Attribute, path: str) -> Expr:
    """A column of the file as the table's: text by the input function, anything else by an assignment cast."""
    source = file_column.shipped
    expr: Expr = Var(source, typmod=file_column.typmod, collation=_collation(source), varno=1, attnum=number)
    scope = Scope(session)
    if file_column.json:
        expr = _cast(scope, expr, oids.JSONB, -1, CastContext.EXPLICIT) or expr
    kind = type_by_oid(column.type)
    if expr.type == oids.TEXT and (kind is None or kind.category != "S" or column.type == oids.CHAR):
        expr = _cast(scope, expr, column.type, -1, CastContext.EXPLICIT) or expr
    assigned = _cast(scope, expr, column.type, column.typmod, CastContext.ASSIGNMENT)
    if assigned is None:
        raise PgError(
            "42804",
            f'column "{column.name}" is of type {format_type(column.type)} but column "{file_column.name}" of file '
            f'"{path}" is of type {format_type(expr.type)}',
        )
    return assigned


def _cast(scope: Scope, expr: Expr, typoid: int, typmod: int, context: CastContext) -> Expr | None:
    return coerce_to_target(scope, expr, expr.type, typoid, typmod, context, IMPLICIT_CAST, -1)


def _collation(typoid: int) -> int:
    kind = type_by_oid(typoid)
    return kind.collation if kind is not None else 0
