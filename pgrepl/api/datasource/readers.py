"""Batch reads for Spark: the schema, the plan, and the batches of each part.

Spark's filters are pushed down only with the option `pushdown`. What Spark 4.1 to 4.3 plan with a pushed filter they
keep for the DataFrame: its next query, or the other side of a union, reads the rows of that filter, too. (SPARK-58551
keeps the plan with its scan.) The option `where` says beforehand which rows the DataFrame has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from pgrepl.api.datasource.options import SourceOptions
from pgrepl.api.datasource.table_rows import Part, TableSource, parts_of, source_of
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.lake.spark_types import spark_type

if TYPE_CHECKING:
    from pgrepl.api.datasource.shown import ShownColumn
    from pgrepl.sql.nodes import Expr


class PartToRead(InputPartition):
    """A part of the rows, for one task."""

    def __init__(self, part: Part) -> None:
        super().__init__(None)
        self.part = part


def schema_of(options: SourceOptions) -> StructType:
    with options.session() as opened, reading(opened.session):
        if options.get("slot") is not None:
            from pgrepl.api.datasource.changes import changes_source

            source = changes_source(opened.session, options)
            return struct(source.columns, changes=source.keys)
        return struct(source_of(opened.session, options.get("table"), options.get("publication")).columns)


def struct(columns: Sequence[ShownColumn], *, changes: Sequence[ShownColumn] | None = None) -> StructType:
    """The columns, and those that say what change a row is: `changes` are the columns of the replica identity."""
    fields = [StructField(column.name, spark_type(column.spark)) for column in columns]
    if changes is not None:
        from pgrepl.api.datasource.changes import EXTRA, OLD

        fields += [StructField(name, spark_type(kind)) for name, kind in EXTRA.items()]
        if changes:
            fields.append(StructField(OLD, struct(changes)))
    return StructType(fields)


class TableReader(DataSourceReader):
    """A read of a table, or of its published rows."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._pushed: list[Expr] = []

    def partitions(self) -> list[InputPartition]:
        options = self._options
        table, publication = options.get("table"), options.get("publication")
        with options.session() as opened:
            session = opened.session
            with reading(session):
                source = source_of(session, table, publication, options.get("where"), self._pushed)
                names = named(source, self._schema)
                parts = parts_of(session, source, names, options.number("partitions"))
        return [PartToRead(part) for part in parts] or [PartToRead(EMPTY)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, PartToRead)
        return iter(partition.part.batches())


class FilteringReader(TableReader):
    """A read that takes Spark's filters. Spark gives them before it asks for parts, and applies what is given back."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if not hasattr(DataSourceReader, "pushFilters"):
            raise PgError("0A000", "Spark pushes filters to data sources since 4.1", hint='Use the option "where".')
        super().__init__(options, schema)

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        from pgrepl.api.datasource.pushdown import conditions_of

        options = self._options
        with options.session() as opened, reading(opened.session):
            source = source_of(opened.session, options.get("table"), options.get("publication"))
        conditions = conditions_of(filters, {column.name: column for column in source.columns})
        self._pushed = [each for each in conditions if each is not None]
        return [filter for filter, condition in zip(filters, conditions, strict=True) if condition is None]


def named(source: TableSource, schema: StructType) -> list[str]:
    """The columns that a schema asks for, which may be fewer than the table has; an error for other types."""
    known = {field.name: field for field in struct(source.columns).fields}
    for field in schema.fields:
        found = known.get(field.name)
        if found is None:
            raise PgError("42703", f'column "{field.name}" of relation "{source.table.name}" does not exist')
        if found.dataType != field.dataType:
            raise PgError(
                "42804",
                f'column "{field.name}" is {found.dataType.simpleString()}, not {field.dataType.simpleString()}',
                hint="Read it as it is, and cast it in Spark.",
            )
    return [field.name for field in schema.fields]


class _Nothing:
    """The part of a read without rows: Spark would ask for one part that is None."""

    def batches(self) -> Iterator[Any]:
        return iter(())


EMPTY: Any = _Nothing()

__all__ = ["FilteringReader", "PartToRead", "TableReader", "schema_of", "struct"]
