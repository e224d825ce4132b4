"""A large text or CSV file for Spark: this process reads its values and writes them to temporary Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.expr.tree import Column, Var
from pgrepl.lake import storage
from pgrepl.lake.spark_result import result_folder
from pgrepl.query.outside import OutsideRows
from pgrepl.types.lake_arrays import Form
from pgrepl.types.lake_forms import form
from pgrepl.writing.copy.file_query import file_query
from pgrepl.writing.copy.files_for_spark import write_files
from pgrepl.writing.copy.text_columns import is_plain, tables

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
    if not is_plain(session, target, options):
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


def _tables(session: Session, target: CopyTarget, options: CopyOptions, data: Incoming) -> Iterator[pa.Table]:
    """At least one table, with columns c1, c2 …"""
    import pyarrow as pa

    names = [f"c{number}" for number in range(1, len(target.columns) + 1)]
    table = None
    for table in tables(session, target, options, data):
        yield table.rename_columns(names)
    if table is None:
        yield pa.table([form(a.type, a.typmod).to_array([]) for a in target.columns], names=names)


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
