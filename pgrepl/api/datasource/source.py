"""The class that Spark asks for readers and writers. Spark makes it anew in each process that needs it."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pgrepl.api.datasource import options as known
from pgrepl.api.datasource.options import SourceOptions
from pgrepl.errors import PgError


class PgreplDataSource(DataSource):
    """`format("pgrepl")`."""

    @classmethod
    def name(cls) -> str:
        return "pgrepl"

    @property
    def said(self) -> SourceOptions:
        return SourceOptions.of(dict(self.options))

    def schema(self) -> StructType:
        """The columns of the table's rows, or with a slot those of changes: Spark does not say which it is about to
        read, and only a stream has a slot."""
        from pgrepl.api.datasource.readers import schema_of

        return schema_of(self.said)

    def reader(self, schema: StructType) -> DataSourceReader:
        from pgrepl.api.datasource.readers import FilteringReader, TableReader

        self.said.check(known.READING, "reading")
        return (FilteringReader if self.said.flag("pushdown", False) else TableReader)(self.said, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pgrepl.api.datasource.stream_reader import ChangesReader, RefusedReader

        try:
            self.said.check(known.STREAMING, "a stream")
            return ChangesReader(self.said, schema)
        except PgError as problem:  # pyspark would tell of an error of its own, that there is no reader to stop
            return RefusedReader(problem)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pgrepl.api.datasource.writers import TableWriter

        self.said.check(known.WRITING, "writing")
        return TableWriter(self.said, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from pgrepl.api.datasource.writers import StreamWriter

        self.said.check(known.STREAM_WRITING, "writing a stream")
        return StreamWriter(self.said, schema, overwrite)
